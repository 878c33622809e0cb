//! The page that the current thread renders, for the functions of its template.
//!
//! The thread, not the context of the template, records for which request a page is rendered, so
//! functions find it in macros and includes too, which have no access to the context.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::PageReply;
use minijinja::{Error, ErrorKind};

use crate::forms::Forms;
use crate::insertion::RenderContext;
use crate::request::PageRequest;
use crate::values::ValueSource;

/// A page to be rendered.
#[derive(Clone)]
pub(crate) struct RenderJob {
    pub(crate) values: Arc<dyn ValueSource>,
    pub(crate) forms: Arc<Option<Forms>>,
    pub(crate) request: Arc<PageRequest>,
    pub(crate) deadline: Instant,
}

impl RenderJob {
    pub(crate) fn context(&self) -> RenderContext<'_> {
        RenderContext {
            values: &*self.values,
            forms: self.forms.as_ref().as_ref(),
            request: &self.request,
            deadline: self.deadline,
        }
    }
}

/// A rendered page.
#[derive(Debug)]
pub(crate) struct RenderedTemplate {
    pub(crate) html: Vec<u8>,
    pub(crate) reply: PageReply,
    /// Whether a form on it is signed for one browser.
    pub(crate) has_form: bool,
}

/// Results of a template's functions other than their text.
#[derive(Default)]
pub(super) struct RenderEffects {
    pub(super) reply: PageReply,
    pub(super) uses_live: bool,
    /// The error of a template that used the text of a live element, which only the browser has.
    pub(super) misused_live: Option<String>,
    pub(super) has_form: bool,
}

thread_local! {
    /// The page that this thread renders.
    static PRESENT: RefCell<Option<(RenderJob, RenderEffects)>> = const { RefCell::new(None) };
}

/// Sets the thread's page; dropping it resets the page, also after a panic.
pub(super) struct PresentJob;

impl PresentJob {
    pub(super) fn begin(job: RenderJob) -> Self {
        PRESENT.set(Some((job, RenderEffects::default())));
        Self
    }

    pub(super) fn end(present: Self) -> RenderEffects {
        let noted = PRESENT.take().map(|(_, noted)| noted).unwrap_or_default();
        drop(present);
        noted
    }
}

impl Drop for PresentJob {
    fn drop(&mut self) {
        PRESENT.set(None);
    }
}

/// Passes the thread's page to a function of a template. Functions never call each other.
pub(super) fn with_present<T>(
    act: impl FnOnce(&RenderJob, &mut RenderEffects) -> T,
) -> Result<T, Error> {
    PRESENT.with_borrow_mut(|present| match present {
        Some((job, noted)) => Ok(act(job, noted)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            "only while a page is made",
        )),
    })
}
