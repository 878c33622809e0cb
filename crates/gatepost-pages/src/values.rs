//! What pages ask of the other rooms. The binary wires it to broker and procedures; tests give
//! values of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gatepost_message::{Publication, TopicFilter};

/// A future that a trait object hands out.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a procedure gave no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No procedure has this path.
    #[error("there is no procedure {0}")]
    Unknown(String),
    /// It failed, or overran its limits.
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

    /// What the procedure at `path` answers to these arguments, as text.
    fn call<'a>(
        &'a self,
        path: &'a str,
        arguments: &'a [(String, String)],
    ) -> Promise<'a, Result<String, CallError>>;
}
