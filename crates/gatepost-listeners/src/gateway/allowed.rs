//! Senders whose mail passes: what an operator allowed when looking through the quarantine.
//!
//! The list speaks where the rules' score decided, or where a procedure would keep the mail aside.
//! It never lets a virus pass, nor what a user's procedure rejects or drops: those have reasons of
//! their own. It goes by the envelope's sender, which anybody can write: allow whom you know.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use gatepost_message::{Action, Format, Message, Verdict};
use gatepost_store::{Change, Store, StoreError};

use super::Gateway;

/// The store's table: the address is the key.
const SPACE: &str = "allowed_sender";
/// Whose verdict stands, whoever sent it.
const VIRUSES: &str = "/viruscheck";

/// The addresses, in lower case.
pub(super) struct AllowedSenders(ArcSwap<BTreeSet<String>>);

impl AllowedSenders {
    pub(super) fn load(store: &Store) -> Self {
        let records = store.records(SPACE, b"").unwrap_or_else(|error| {
            tracing::error!(target: "gateway", %error, "the allowed senders cannot be read");
            Vec::new()
        });
        let address = |key: &[u8]| String::from_utf8(key.to_vec()).ok();
        let addresses = records.iter().filter_map(|(key, _)| address(key));
        Self(ArcSwap::from_pointee(addresses.collect()))
    }

    /// What becomes of a judged message, the list considered.
    pub(super) fn considered(&self, message: &Message, verdict: Verdict) -> Verdict {
        let decided = verdict.score.is_some() || verdict.action == Action::Quarantine;
        if verdict.action == Action::Accept
            || !decided
            || message.format != Format::Mail
            || verdict.procedure == VIRUSES
        {
            return verdict;
        }
        let Some(sender) = &message.envelope.sender else {
            return verdict;
        };
        if !self.0.load().contains(&sender.to_lowercase()) {
            return verdict;
        }
        let instead = verdict.action;
        let because = if verdict.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", verdict.reason)
        };
        Verdict {
            action: Action::Accept,
            reason: format!("{sender} is an allowed sender; otherwise {instead}{because}"),
            ..verdict
        }
    }
}

impl Gateway {
    /// Lets mail from this address pass from now on, or no longer; returns when that is on disk.
    pub async fn allow_sender(&self, address: &str, allowed: bool) -> Result<(), StoreError> {
        let address = address.to_lowercase();
        let key = bytes::Bytes::from(address.clone());
        let change = if allowed {
            let value = bytes::Bytes::from_static(b"{}");
            Change::PutRecord {
                space: SPACE,
                key,
                value,
            }
        } else {
            Change::DeleteRecord { space: SPACE, key }
        };
        self.0.store.submit([change])?.committed().await?;
        self.0.allowed.0.rcu(|known| {
            let mut addresses = BTreeSet::clone(known);
            if allowed {
                addresses.insert(address.clone());
            } else {
                addresses.remove(&address);
            }
            Arc::new(addresses)
        });
        Ok(())
    }

    /// The addresses whose mail passes, sorted.
    pub fn allowed_senders(&self) -> Vec<String> {
        self.0.allowed.0.load().iter().cloned().collect()
    }
}
