//! Publications that wait for the log, and what they wait for before they may be sent.

use std::sync::Arc;
use std::time::Instant;

use gatepost_broker::LoggedPublication;
use gatepost_store::{StoreError, Ticket};

use super::pending::PendingAppend;
use crate::log::entry;

/// Publications that wait.
pub(crate) struct Append {
    pub(crate) publications: Vec<LoggedPublication>,
    /// The changes of this server that must be stored before.
    pub(crate) stored: Option<Ticket>,
    /// Earlier publications of the same sender: these fail with them.
    pub(crate) earlier: Option<Ticket>,
    pub(crate) pending: Arc<PendingAppend>,
    /// The time at which they fail; `None` for publications that are kept in the database.
    pub(crate) deadline: Option<Instant>,
}

/// The possibility to send publications.
pub(super) enum Readiness {
    Ready,
    /// Not before changes of this server are stored.
    Await(Ticket),
    /// Never: these changes, or earlier publications of the same sender, were not stored.
    Failed(StoreError),
}

impl Append {
    /// A publication that is kept in the database, by changes that may not be stored yet, and whose
    /// sender does not wait.
    pub(crate) fn of_kept(publication: LoggedPublication, stored: Option<Ticket>) -> Self {
        let (pending, _) = PendingAppend::new(1);
        Self {
            publications: vec![publication],
            stored,
            earlier: None,
            pending,
            deadline: None,
        }
    }

    pub(super) fn readiness(&self) -> Readiness {
        let earlier = self.earlier.as_ref().and_then(Ticket::outcome);
        if let Some(Err(error)) = earlier {
            return Readiness::Failed(error);
        }
        let Some(stored) = &self.stored else {
            return Readiness::Ready;
        };
        match stored.outcome() {
            None => Readiness::Await(stored.clone()),
            Some(Ok(())) => Readiness::Ready,
            Some(Err(error)) => Readiness::Failed(error),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.publications.iter().map(entry::weight).sum()
    }
}
