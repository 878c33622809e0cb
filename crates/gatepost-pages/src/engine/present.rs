//! The page that a thread renders at present, which the functions of its template ask about.
//!
//! For whom a thread renders is known to the thread and not to the template's context: so functions
//! find it in macros and includes too, which see no context.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::Reply;
use minijinja::{Error, ErrorKind};

use crate::forms::Forms;
use crate::insertion::Making;
use crate::request::PageRequest;
use crate::values::Values;

/// One page to be made.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) values: Arc<dyn Values>,
    pub(crate) forms: Arc<Option<Forms>>,
    pub(crate) request: Arc<PageRequest>,
    pub(crate) deadline: Instant,
}

impl Job {
    pub(crate) fn making(&self) -> Making<'_> {
        Making {
            values: &*self.values,
            forms: self.forms.as_ref().as_ref(),
            request: &self.request,
            deadline: self.deadline,
        }
    }
}

/// A page that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) html: Vec<u8>,
    pub(crate) reply: Reply,
    /// Whether a form on it is signed for one browser.
    pub(crate) has_form: bool,
}

/// What the functions of a template note beside their text.
#[derive(Default)]
pub(super) struct Noted {
    pub(super) reply: Reply,
    pub(super) uses_live: bool,
    pub(super) has_form: bool,
}

thread_local! {
    /// The page that this thread renders.
    static PRESENT: RefCell<Option<(Job, Noted)>> = const { RefCell::new(None) };
}

/// Holds the thread's page; gone when it is dropped, by a panic too.
pub(super) struct Present;

impl Present {
    pub(super) fn begin(job: Job) -> Self {
        PRESENT.set(Some((job, Noted::default())));
        Self
    }

    pub(super) fn end(present: Self) -> Noted {
        let noted = PRESENT.take().map(|(_, noted)| noted).unwrap_or_default();
        drop(present);
        noted
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        PRESENT.set(None);
    }
}

/// Lends the thread's page to a function of a template. No function calls another.
pub(super) fn with_present<T>(act: impl FnOnce(&Job, &mut Noted) -> T) -> Result<T, Error> {
    PRESENT.with_borrow_mut(|present| match present {
        Some((job, noted)) => Ok(act(job, noted)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            "only while a page is made",
        )),
    })
}
