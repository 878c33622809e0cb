//! The stream over the present connection, if there is one.

use gatepost_store::StoreError;
use tokio::sync::watch;

use super::stream::{MailRefusal, MailStream};

/// The stream that requests use.
pub(super) struct CurrentStream(watch::Sender<Option<MailStream>>);

impl CurrentStream {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// A connection begins, or, with `None`, is over.
    pub(super) fn replace(&self, stream: Option<MailStream>) {
        self.0.send_replace(stream);
    }

    pub(super) fn get(&self) -> Result<MailStream, StoreError> {
        let stream = self.0.borrow().clone();
        stream.ok_or_else(|| not_done("the NATS servers cannot be reached"))
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for a connection.
    pub(super) async fn connected(&self) -> Result<MailStream, MailRefusal> {
        let mut stream = self.0.subscribe();
        let found = stream.wait_for(Option::is_some).await;
        let found = found.ok().and_then(|stream| stream.clone());
        found.ok_or_else(|| MailRefusal::Failed("the server ends".to_owned()))
    }
}

/// The error of a request that the cluster did not carry out.
pub(super) fn not_done(cause: impl ToString) -> StoreError {
    StoreError::Cluster {
        cause: cause.to_string().into(),
    }
}
