//! The embedded database: all data that survives a restart.
//!
//! One SQLite file holds retained messages, history, the journal of verdicts, the quarantine, the
//! sessions that outlive their connections, figures over time, and the records of other crates.
//! Everything is written by one thread in *group commits*: callers [`submit`](Store::submit)
//! changes and get a [`Ticket`]; the writer takes all changes submitted since its last commit,
//! applies it in one transaction, and then every ticket of that group is committed at once. A
//! caller that acknowledges only after its ticket was committed can be killed at any moment without
//! losing acknowledged data, and a thousand callers share one `fsync`. Changes that callers rarely
//! wait for ([`submit_later`](Store::submit_later)) wait for the commit of others.
//!
//! Invariants: changes are applied in the order submitted; a ticket is committed only once its
//! changes are on disk; a group that fails (disk full) fails all its tickets, and the next group is
//! tried nevertheless.

mod background;
mod backup;
mod bounds;
mod cancelled;
mod change;
mod change_rows;
mod checksum;
mod clock;
mod committer;
mod connection;
mod copying;
mod creation;
mod entry_change;
mod error;
mod folder;
mod group;
mod journal;
mod journal_index;
mod key_range;
mod lock;
mod mailbox;
mod mailbox_sizes;
mod manual;
mod open;
mod open_database;
mod originals;
mod quarantine;
mod quarantine_encoding;
mod queue;
mod read;
mod recovery;
mod reserve;
mod rows;
mod schema;
mod scrub;
mod series;
mod session;
mod settings;
mod shared_mailboxes;
mod shared_records;
mod snapshot;
mod statements;
mod store;
mod stored_clock;
mod table;
mod trim;
mod values;
mod watch;
mod writer;

pub use backup::{
    BackupContents, BackupError, ExistingDatabase, restore_backup, verify_backup, write_backup,
};
pub use cancelled::CancelledRows;
pub use change::StoreChange;
pub use clock::{ClockSource, SystemClock};
pub use copying::{CommitCopy, CommitDecision, CopiedCommit};
pub use error::StoreError;
pub use group::{ExternalCommit, Ticket};
pub use journal::{JournalEntry, QuarantineEntry};
pub use journal_index::JournalTerms;
pub use mailbox::MailboxEntry;
pub use manual::{ManualClock, ManualWriter, SimulatedDatabase};
pub use originals::{Originals, OriginalsLimits};
pub use read::{JournalStep, QueueSize};
pub use recovery::Recovery;
pub use reserve::{DiskReserve, MalformedReserve};
pub use series::{SeriesPoints, SeriesQuery, SeriesResolution, SeriesSample};
pub use session::{DeliveryRow, SessionChange, SessionRow, SubscriptionRow, WillRow};
pub use settings::{OnDamage, StoreSettings};
pub use shared_mailboxes::{
    HeldMailbox, MailboxClaim, MailboxClaimWait, MailboxDelivery, SharedMailboxes,
};
pub use shared_records::{EntryDecision, EntryOutcome, SharedEntry, SharedRecords, SharedSet};
pub use snapshot::StoreSnapshot;
pub use store::Store;
pub use stored_clock::HeldExpiry;
pub use values::{
    StoredValue, VALUE_BYTES_MAX, VALUE_KEY_BYTES_MAX, ValueError, ValueLimits, ValueStore,
};
