//! The embedded database: what Gatepost keeps over a restart.
//!
//! One SQLite file holds retained messages, history, the journal of verdicts, the quarantine,
//! the sessions that outlive their connections, and the records of other rooms. Everything is
//! written by one thread in *group commits*: callers [`submit`](Store::submit) changes and get a
//! [`Ticket`]; the writer takes all that has come in since its last commit, applies it in one
//! transaction, and then every ticket of that group is committed at once. A caller that has
//! acknowledged only after its ticket was committed can be killed at any moment without breaking
//! its promise, and a thousand callers share one `fsync`.
//!
//! Invariants: changes are applied in the order submitted; a ticket is committed only when the
//! disk has it; a group that fails (disk full) fails all its tickets and the next is tried anew.

mod change;
mod error;
mod group;
mod mailbox;
mod originals;
mod quarantine;
mod read;
mod recovery;
mod rows;
mod schema;
mod session;
mod settings;
mod store;
mod values;
mod writer;

pub use change::{Change, JournalEntry, QuarantineEntry};
pub use error::StoreError;
pub use group::Ticket;
pub use mailbox::MailboxEntry;
pub use originals::{Originals, OriginalsLimits};
pub use recovery::Recovery;
pub use session::{DeliveryRow, SessionChange, SessionRow, SubscriptionRow, WillRow};
pub use settings::StoreSettings;
pub use store::Store;
pub use values::{VALUE_BYTES_MAX, VALUE_KEY_BYTES_MAX, Value, ValueError, Values};
