//! A scan that waits for DNS responses without a thread.
//!
//! A list that does not respond delays a message by seconds, in which a waiting thread could scan
//! hundreds of others. So the local rules run first; then the scan becomes a value
//! ([`PendingScan`]) that owns its message and its rules, and continues wherever
//! [`PendingScan::resume`] is called.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_dns::LookupProgress;

use super::RuleSet;
use super::scanning::LocalScan;
use crate::users::Preferences;
use crate::{Report, ScanContext};

/// The data that a scan borrows.
struct ScanOwner {
    rules: Arc<RuleSet>,
    message: Bytes,
    user: Option<Arc<Preferences>>,
}

/// A scan that has not ended.
struct ScanSlot<'a>(Option<LocalScan<'a>>);

self_cell::self_cell!(
    struct OwnedScan {
        owner: ScanOwner,
        #[not_covariant]
        dependent: ScanSlot,
    }
);

/// The state of a scan.
#[allow(clippy::large_enum_variant)] // moved once, and never stored
pub enum ScanProgress {
    /// The scan has ended.
    Done(Report),
    /// The scan waits for DNS responses.
    Waiting(PendingScan),
}

/// A scan whose local rules have run, and which waits for DNS responses.
pub struct PendingScan(OwnedScan);

impl RuleSet {
    /// Scans a message as [`RuleSet::scan`] does, up to the point where only DNS responses are
    /// missing. Does not block.
    pub fn start_scan(
        self: &Arc<Self>,
        message: &Bytes,
        context: &ScanContext<'_>,
    ) -> ScanProgress {
        if self.network.is_none() {
            return ScanProgress::Done(self.scan(message, context));
        }
        let owner = ScanOwner {
            rules: Arc::clone(self),
            message: message.clone(),
            user: self.user(context),
        };
        let scan = OwnedScan::new(owner, |owner| {
            let user = owner.user.as_deref();
            ScanSlot(Some(owner.rules.begin(&owner.message, user, context)))
        });
        PendingScan(scan).resume()
    }
}

impl PendingScan {
    /// Continues with the responses that have arrived. Does not block.
    pub fn resume(mut self) -> ScanProgress {
        let report = self.0.with_dependent_mut(|owner, slot| {
            let scan = slot.0.as_mut()?;
            let is_complete = match &mut scan.queries {
                Some(queries) => queries.advance(&scan.mail),
                None => true,
            };
            if !is_complete {
                return None;
            }
            let scan = slot.0.take()?;
            Some(owner.rules.end(scan, |_, _| ()).0)
        });
        match report {
            Some(report) => ScanProgress::Done(report),
            None => ScanProgress::Waiting(self),
        }
    }

    /// Continues as [`PendingScan::resume`] does, when there are new responses. Blocks this thread
    /// until then.
    pub fn wait(self) -> ScanProgress {
        let (ready, wait) = std::sync::mpsc::channel();
        self.progress().then(Box::new(move || {
            // Fails if the receiver no longer exists.
            let _ = ready.send(());
        }));
        // Every query ends by its deadline.
        let _ = wait.recv();
        self.resume()
    }

    /// Registers a callback for the time when [`PendingScan::resume`] can make progress.
    pub fn progress(&self) -> LookupProgress {
        let progress = self.0.with_dependent(|_, slot| {
            let queries = slot.0.as_ref()?.queries.as_ref()?;
            Some(queries.progress())
        });
        progress.unwrap_or_default()
    }
}
