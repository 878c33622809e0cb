//! The reputation of senders: the average score of their previous messages.
//!
//! Two systems, as in SpamAssassin: *AWL* moves the score of a message towards the average of its
//! sender's messages from the same network; *TxRep* weighs the averages of the address, its domain,
//! its network, its relay's name and the message itself. Both keep their averages in a
//! [`ReputationTable`]; a rule set uses one of them at a time.
//!
//! Invariants: a message counts with its score before its own adjustment; memory is bounded by
//! [`REPUTATION_ENTRIES_MAX`]; if both are disabled, nothing is read or written, so the same
//! message always gets the same score.
//!
//! A message does not change an average itself: AWL and TxRep return [`SenderChange`]s, which the
//! table carries out, or each server of a cluster in the order of the cluster.

mod awl;
mod changes;
mod history;
mod key;
mod lesson;
mod sender;
mod settings;
mod shard;
mod snapshot;
mod store;
mod table;
mod txrep;

pub use history::SenderHistory;
pub use lesson::{SENDER_CHANGES_MAX, SenderChange, SenderLesson};
pub use sender::Sender;
pub use settings::{AwlSettings, ReputationSettings, TxrepSettings, Weights};
pub use snapshot::SenderBackupError;
pub use store::{NoReputationStore, ReputationChanges, ReputationStore, ReputationStoreError};
pub use table::{REPUTATION_ENTRIES_MAX, ReputationTable};
