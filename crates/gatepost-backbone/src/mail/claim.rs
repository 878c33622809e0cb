//! The sole use of a mailbox, while a client has it open, or of a mail in quarantine, while it is
//! released: a message that this node renews, and that expires if the node fails.
//!
//! The claim to a mailbox protects a client from the removals of another one. It is not what keeps
//! mail: ids do not change, and a removal names one mail. So a node that is cut off and loses a
//! claim does no harm. If it loses the claim to a mail in quarantine, another node may release the
//! mail, too: a mailbox has it once all the same, since its id is the same.

use std::sync::Arc;
use std::time::Duration;

use gatepost_store::{ExternalCommit, HeldMailbox, StoreError, Ticket};
use tokio::sync::oneshot;

use super::current::{CurrentStream, not_done};
use super::stream::{CLAIM_KEPT, ClaimedMail, MailRefusal};

/// The interval of renewals: two may fail.
const RENEW_EVERY: Duration = Duration::from_secs(CLAIM_KEPT.as_secs() / 3);

/// A claim of this node.
pub(super) struct HeldClaim {
    end: Option<oneshot::Sender<()>>,
    ended: Ticket,
}

impl HeldMailbox for HeldClaim {
    fn release(&mut self) -> Ticket {
        // The task ends the claim when the sender is gone.
        self.end = None;
        self.ended.clone()
    }
}

/// Renews a claim that is at this sequence, until it is released or dropped.
pub(super) fn hold(current: Arc<CurrentStream>, claimed: ClaimedMail, sequence: u64) -> HeldClaim {
    let (end, is_ended) = oneshot::channel();
    let (commit, ended) = ExternalCommit::new();
    gatepost_tasks::spawn(async move {
        let last = renew(&current, &claimed, sequence, is_ended).await;
        commit.decide(end_claim(&current, last).await);
    });
    HeldClaim {
        end: Some(end),
        ended,
    }
}

/// Renews until the end; returns the sequence of the last claim, `None` if it was lost.
async fn renew(
    current: &CurrentStream,
    claimed: &ClaimedMail,
    mut sequence: u64,
    mut is_ended: oneshot::Receiver<()>,
) -> Option<u64> {
    loop {
        tokio::select! {
            _ = &mut is_ended => return Some(sequence),
            () = tokio::time::sleep(RENEW_EVERY) => {}
        }
        let Ok(stream) = current.get() else {
            continue;
        };
        match stream.claim(claimed, sequence).await {
            Ok(renewed) => sequence = renewed,
            Err(MailRefusal::Changed) => {
                tracing::warn!(target: "backbone", ?claimed,
                    "a claim was not renewed in time: another node may use it, too");
                return None;
            }
            // It is tried again.
            Err(_) => {}
        }
    }
}

async fn end_claim(current: &CurrentStream, sequence: Option<u64>) -> Result<(), StoreError> {
    let Some(sequence) = sequence else {
        return Ok(());
    };
    let ended = current.get()?.end_claim(sequence).await;
    ended.map_err(not_done)
}
