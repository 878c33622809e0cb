//! The values that pages need from other parts of the program. The binary connects them to broker
//! and procedures; tests use values of their own.

use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, PageReply, Publication, TopicFilter};

use crate::request::PageRequest;

/// A page's call of a procedure.
#[derive(Debug, Clone, Copy)]
pub struct PageCall<'a> {
    /// The procedure.
    pub path: &'a str,
    /// Name and value.
    pub arguments: &'a [(String, String)],
    /// The request for which the page is rendered.
    pub request: &'a PageRequest,
    /// The deadline of the page.
    pub deadline: Instant,
}

/// The response of a procedure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcedureResponse {
    /// The text for the position of the call.
    pub text: String,
    /// The changes to the response.
    pub reply: Option<Box<PageReply>>,
}

/// The reason why a procedure returned no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No procedure has this path.
    #[error("there is no procedure {0}")]
    Unknown(String),
    /// Its verdict permits nothing; also if it failed or exceeded its limits.
    #[error("{path}: {action}: {reason}")]
    Refused {
        /// The procedure.
        path: String,
        /// Its verdict.
        action: Action,
        /// Its reason.
        reason: String,
    },
    /// The procedure was not called.
    #[error("{path}: {detail}")]
    Failed {
        /// The procedure.
        path: String,
        /// The reason.
        detail: String,
    },
}

/// The source of the values of insertion points.
///
/// [`ValueSource::latest`] and [`ValueSource::history`] read memory and are called on the hot path:
/// they must not block.
pub trait ValueSource: Send + Sync + 'static {
    /// The topic's last publication.
    fn latest(&self, topic: &str) -> Option<Arc<Publication>>;

    /// The last `count` publications under `filter`, oldest first.
    fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>>;

    /// The response of a procedure. Runs it on the current thread: for page workers only.
    fn call(&self, call: &PageCall<'_>) -> Result<ProcedureResponse, CallError>;
}

/// A payload as text; invalid UTF-8 becomes U+FFFD.
pub(crate) fn text_of(publication: &Publication) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&publication.payload)
}
