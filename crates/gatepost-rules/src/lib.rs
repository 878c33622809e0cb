//! The SpamAssassin rule language: parse, compile, scan.
//!
//! A rule folder is read once ([`RuleSet::load`]) and compiled into tables that every thread
//! shares; a message is then judged by [`RuleSet::scan`], which answers with a [`Report`]. The way
//! of a rule, room by room:
//!
//! - `language` reads the files line by line into rules and preferences. What it cannot use
//!   becomes a [`Problem`] with file, line and mend; the rest loads.
//! - [`mail`] makes the views of a message that rules look at, each only when a rule asks.
//! - [`mailbox`] reads messages out of files, mbox files, Maildir and folders.
//! - [`bayes`] and [`reputation`] hold what was learned; `learning` joins them to a scan.
//! - [`eval`] holds the functions that `eval:` rules call.
//! - `network` asks what only the network knows; `authentication` (SPF, DKIM, ARC, DMARC) judges
//!   the answers.
//! - `scan` runs a prefilter over each view, verifies the candidate rules with their patterns
//!   ([`gatepost_pattern`]), and computes the metas.
//!
//! Invariants: a message never makes this crate panic, whatever its bytes; a scan takes bounded
//! time, and a rule that ran into its bound is named in the report; a rule that cannot run is
//! named among the problems, never dropped in silence.

#[doc(hidden)]
pub mod authentication;
pub mod bayes;
mod compile;
mod configuration;
pub mod eval;
mod language;
mod learning;
#[doc(hidden)]
pub mod network;
mod problem;
mod report;
pub mod reputation;
mod rule_set;
mod scan;
mod settings;
mod shortcircuit;
mod survey;
mod tags;
mod users;
mod warm_up;

pub use configuration::Configuration;
pub use gatepost_dns::{Progress, SilentList};
pub use learning::{Learning, LearningSettings, TeachError, Teaching};
pub use problem::{Problem, Severity};
pub use report::{GivenUp, Hit, Report};
pub use rule_set::{NearMiss, PendingScan, RuleSet, ScanProgress, Statistics};
pub use scan::ScanContext;
pub use settings::RulesSettings;
pub use survey::{RuleSummary, RuleTime};
