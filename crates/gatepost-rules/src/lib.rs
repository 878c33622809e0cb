//! The SpamAssassin rule language: parse, compile, scan.
//!
//! [`RuleSet::load`] reads a rule folder once and compiles it into tables that all threads share;
//! [`RuleSet::scan`] then returns a [`Report`] for each message:
//!
//! ```
//! use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
//!
//! let text = b"body CHEAP /cheap watches/i\nscore CHEAP 2.5\n";
//! let (rules, problems) = RuleSet::from_text("my.cf", text, &RulesSettings::default());
//! assert!(problems.is_empty());
//! let report = rules.scan(b"Subject: hello\r\n\r\nCheap watches!\r\n", &ScanContext::default());
//! assert!(report.hits.iter().any(|hit| &*hit.name == "CHEAP"));
//! ```
//!
//! The modules, in the order of a rule's life:
//!
//! - `language` parses rule files line by line into rules and preferences. A line that it cannot
//!   use becomes a [`RuleProblem`] with file, line and advice; the rest loads.
//! - `compile` turns rules into the tables that a scan reads.
//! - `scan` runs a prefilter over each view of a message ([`gatepost_mail::Mail`]), verifies the
//!   candidate rules with their patterns ([`gatepost_pattern`]), and evaluates meta rules.
//! - [`eval`] contains the functions that `eval:` rules call.
//! - `network` sends DNS queries; `authentication` evaluates SPF, DKIM, ARC and DMARC from the
//!   responses.
//! - `profile` records where the time of a scan goes.
//! - `rule_set` combines them; `report` writes the results. Bayes and the reputation of senders
//!   are in [`gatepost_learning`].
//!
//! Invariants: no message makes this crate panic, whatever its bytes; the time of a scan is
//! bounded, and the report names each rule that reached its limit; a rule that cannot run is named
//! among the problems, never silently dropped.

#[doc(hidden)]
pub mod authentication;
mod compile;
mod configuration;
pub mod eval;
mod language;
#[doc(hidden)]
pub mod network;
mod problem;
mod profile;
mod report;
mod rule_set;
mod scan;
mod settings;
mod shortcircuit;
mod statistics;
mod tags;
mod users;

pub use authentication::dkim::{DkimKey, DkimKeyError, DkimSigner};
pub use authentication::spf::SpfLookup;
pub use configuration::Configuration;
pub use gatepost_dns::{LookupProgress, SilentList};
pub use problem::{RuleProblem, Severity};
pub use profile::ScanStage;
pub use report::{GivenUp, Hit, Report};
pub use rule_set::{
    NearMiss, PendingScan, RuleCost, RuleSet, RuleSummary, RuleTime, ScanProfile, ScanProgress,
};
pub use scan::ScanContext;
pub use settings::RulesSettings;
pub use statistics::RuleStatistics;

/// The index of a rule in the tables of its set.
type RuleId = u32;
