//! A scan that waits for the network without a thread.
//!
//! A list that does not answer costs a message seconds, and a thread that waited along with it could
//! judge hundreds of others meanwhile. So the local rules run first; then the scan, with all that it
//! found, becomes a value ([`PendingScan`]) that owns its message and its rules, and goes on where and
//! when somebody calls [`PendingScan::resume`].

use std::sync::Arc;

use bytes::Bytes;
use gatepost_dns::Progress;

use super::RuleSet;
use super::judging::Scan;
use crate::users::Preferences;
use crate::{Report, ScanContext};

/// What a scan borrows from.
struct ScanOwner {
    rules: Arc<RuleSet>,
    message: Bytes,
    user: Option<Arc<Preferences>>,
}

/// A scan, until it has ended.
struct ScanSlot<'a>(Option<Scan<'a>>);

self_cell::self_cell!(
    struct OwnedScan {
        owner: ScanOwner,
        #[not_covariant]
        dependent: ScanSlot,
    }
);

/// How far a scan is.
#[allow(clippy::large_enum_variant)] // moved once, and never stored
pub enum ScanProgress {
    /// It has ended.
    Done(Report),
    /// It waits for answers of the network.
    Waiting(PendingScan),
}

/// A scan whose local rules have run, and which waits for answers of the network.
pub struct PendingScan(OwnedScan);

impl RuleSet {
    /// Judges one message as [`RuleSet::scan`] does, up to the point where only answers of the network
    /// are missing. Waits for nothing.
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
    /// Goes on with the answers that have arrived. Waits for nothing.
    pub fn resume(mut self) -> ScanProgress {
        let report = self.0.with_dependent_mut(|owner, slot| {
            let scan = slot.0.as_mut()?;
            let is_complete = match &mut scan.asked {
                Some(asked) => asked.advance(&scan.mail),
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

    /// Goes on as [`PendingScan::resume`] does, when there is something to go on with. Waits on this
    /// thread.
    pub fn wait(self) -> ScanProgress {
        let (ready, wait) = std::sync::mpsc::channel();
        self.progress().then(Box::new(move || {
            // Fails where nobody waits any more.
            let _ = ready.send(());
        }));
        // Every question ends by its deadline.
        let _ = wait.recv();
        self.resume()
    }

    /// Tells when [`PendingScan::resume`] has something to do.
    pub fn progress(&self) -> Progress {
        let progress = self.0.with_dependent(|_, slot| {
            let asked = slot.0.as_ref()?.asked.as_ref()?;
            Some(asked.progress())
        });
        progress.unwrap_or_default()
    }
}
