//! Operations on a running gateway, and the record of them.
//!
//! [`Operations`] searches the journal, releases and deletes quarantined messages, trains the
//! filter, shows the rules and requests a reload. The HTTP listener calls it for `/admin`; the
//! serving process performs the reloads, which it receives through a channel ([`reload`]). The
//! [`AuditLog`] records changes, including those made by commands. The [`learner`] stores learned
//! data in the database, for the server and for commands. The [`quarantine_digest`] lists for each
//! recipient the messages in quarantine. Other nodes of a cluster are asked for their journals
//! ([`AskNodes`]).
//!
//! Every operation that reads the database runs on a thread for blocking work, never on an I/O
//! runtime.

mod ask_nodes;
mod audit_log;
mod cluster;
mod decision;
mod error;
mod journal_search;
pub mod learner;
mod mail_routes;
mod operations;
mod originals;
mod ownership;
mod procedure_changes;
mod procedure_files;
mod quarantine;
pub mod quarantine_digest;
mod recent_log;
mod release;
pub mod reload;
mod request;
mod rule_scores;
mod rules_report;
mod scope_trial;
mod score_file;
mod search;
mod settings_in_force;
mod story;
mod unsent_mail;

pub use ask_nodes::{AskNodes, NodeFault, UnansweredNode};
pub use audit_log::{AuditEntry, AuditLog};
pub use decision::{DecisionOutcome, QuarantineDecision};
pub use error::OperationError;
pub use mail_routes::{Forwarding, MailDestination, MailRoutes, OutgoingMail};
pub use operations::Operations;
pub use originals::{JudgedOriginal, format_of, message_of};
pub use procedure_changes::{ChangedVerdict, ProcedureFile, ProcedureProblem, ProcedureTrial};
pub use procedure_files::ProcedureFiles;
pub use recent_log::{LogLevel, LogLine, RecentLog};
pub use release::{ReleaseRequest, Released};
pub use request::{
    AdminChange, JournalPage, QuarantineOrder, QuarantinePage, QuarantineSearch, Quarantined,
    Search,
};
pub use scope_trial::{ScopeStep, ScopeTrial, TrialMessage, TriedMessage};
pub use score_file::{RuleScores, SCORE_MAX, SCORES_FILE};
pub use settings_in_force::{ChangedSetting, SettingInForce, SettingsInForce};
pub use unsent_mail::UnsentMailStore;
