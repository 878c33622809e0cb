//! Judgement of messages: scopes, the built-in procedures and the host of operators' own Luau code.
//!
//! A *procedure* is a named judge with a path (`/sizecheck`); a *scope* is an ordered chain of
//! procedures bound to listeners, topics or recipients. [`Procedures`] finds the scope of a
//! message and runs its chain; it knows no protocol and no broker.
//!
//! Invariants:
//! - Everything compiled from the config is in one immutable set that is swapped as a whole: a
//!   message is judged by one set from its first procedure to its last, even during a reload.
//! - Procedures that only compare numbers run on the calling thread. All others run on judge
//!   threads with a bounded queue, never on an I/O runtime; a full queue gives `defer`.
//! - A procedure cannot end a judge thread: its time and memory are bounded, a panic or an error
//!   becomes the verdict that the settings name, a log line and a count.

mod arguments;
mod builtin;
mod builtin_factory;
mod chain;
mod deferred_rules;
mod difference;
mod host;
mod in_force;
mod luau;
mod pool;
mod problem;
mod procedure;
mod procedures;
mod scope;
mod set;
mod settings;
mod status;
mod text_values;

pub use arguments::{MalformedMember, ProcedureArguments, ScopeMember};
pub use builtin::{
    AutoreplySettings, DedupeKey, DedupeSettings, GreylistSettings, JsoncheckSettings,
    RatelimitKey, RatelimitSettings, SignatureSettings, SizecheckSettings, SpamcheckSettings,
    StatusSettings, ViruscheckSettings,
};
pub use deferred_rules::{DeferredRules, RULES_WAIT_MAX, RulesState};
pub use difference::{Difference, NameChanges};
pub use host::{
    DnsSettings, KnownSenders, ProcedureHost, ProcedureHttpSettings, ProcedureMail,
    ProcedureMailer, ProcedurePublications,
};
pub use in_force::{InForce, RefusedChange, RefusedKind};
pub use problem::{ConfigurationProblem, ProblemSeverity};
pub use procedure::{Cost, Needs, ProcedureAnswer};
pub use procedures::{CallForJudge, ProcedureCallError, Procedures};
pub use scope::ScopeId;
pub use set::ProcedureListing;
pub use settings::{
    LuauSettings, ProcedureTable, ProceduresConfiguration, ProceduresSettings, ScopeSettings,
};
pub use status::{ProcedureStatus, Status};
