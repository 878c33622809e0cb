//! What pages ask of the other rooms. The binary wires it to broker and procedures; tests give
//! values of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, Publication, Reply, TopicFilter};

use crate::request::PageRequest;

/// A future that a trait object hands out.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A page's call of a procedure.
#[derive(Debug, Clone, Copy)]
pub struct PageCall<'a> {
    /// The procedure.
    pub path: &'a str,
    /// Name and value.
    pub arguments: &'a [(String, String)],
    /// For whom the page is made.
    pub request: &'a PageRequest,
    /// When the page gives up.
    pub deadline: Instant,
}

/// What a procedure answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Called {
    /// For the place of the call.
    pub text: String,
    /// For the answer as a whole.
    pub reply: Option<Box<Reply>>,
}

/// Why a procedure gave no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No procedure has this path.
    #[error("there is no procedure {0}")]
    Unknown(String),
    /// Its verdict lets nothing pass; also where it failed or overran its limits.
    #[error("{path}: {action}: {reason}")]
    Refused {
        /// The procedure.
        path: String,
        /// Its verdict.
        action: Action,
        /// What it said.
        reason: String,
    },
    /// It was not called.
    #[error("{path}: {detail}")]
    Failed {
        /// The procedure.
        path: String,
        /// What it said.
        detail: String,
    },
}

/// Where the values of insertion points come from.
///
/// [`Values::latest`] and [`Values::history`] read memory and are called on the hot path: they
/// must not block.
pub trait Values: Send + Sync + 'static {
    /// The topic's last publication.
    fn latest(&self, topic: &str) -> Option<Arc<Publication>>;

    /// The last `count` publications under `filter`, oldest first.
    fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>>;

    /// What a procedure answers. Runs it on the present thread: for page workers only.
    fn call(&self, call: &PageCall<'_>) -> Result<Called, CallError>;
}
