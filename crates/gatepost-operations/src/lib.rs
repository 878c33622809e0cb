//! Operations on a running gateway, and the record of them.
//!
//! [`Operations`] searches the journal, releases and deletes quarantined messages, trains the
//! filter, shows the rules and requests a reload. The HTTP listener calls it for `/admin`; the
//! serving process performs the reloads, which it receives through a channel ([`reload`]). The
//! [`AuditLog`] records changes, including those made by commands. The [`learner`] stores learned
//! data in the database, for the server and for commands.
//!
//! Every operation that reads the database runs on a thread for blocking work, never on an I/O
//! runtime.

mod audit_log;
mod error;
mod journal_search;
pub mod learner;
mod mail_routes;
mod operations;
mod quarantine;
mod release;
pub mod reload;
mod request;
mod rule_scores;
mod rules_report;
mod score_file;
mod search;
mod story;

pub use audit_log::{AuditEntry, AuditLog};
pub use error::OperationError;
pub use mail_routes::{Forwarding, MailDestination, MailRoutes, OutgoingMail};
pub use operations::Operations;
pub use release::{ReleaseRequest, Released};
pub use request::{
    AdminChange, JournalPage, QuarantineOrder, QuarantinePage, QuarantineSearch, Quarantined,
    Search,
};
pub use score_file::{RuleScores, SCORE_MAX, SCORES_FILE};
