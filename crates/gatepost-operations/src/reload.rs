//! Requests for a reload, and its report. The serving process receives the requests and performs
//! them one at a time, in order.

use gatepost_procedures::{Difference, NameChanges};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::settings_in_force::ChangedSetting;

/// Number of requests that may wait while a reload runs; further requesters wait to submit theirs.
const REQUESTS_MAX: usize = 4;

/// The changes of a reload, made or only checked.
#[derive(Debug, Serialize)]
pub struct ReloadReport {
    /// Whether the configuration has no mistakes.
    pub possible: bool,
    /// Whether the new configuration is in force.
    pub applied: bool,
    /// Rules by name.
    pub rules: NameChanges,
    /// The number of rules that run afterwards.
    pub rules_running: usize,
    /// Settings by key.
    pub settings: Vec<ChangedSetting>,
    /// Procedures and scopes.
    #[serde(flatten)]
    pub difference: Difference,
    /// Mistakes or warnings, one line each.
    pub problems: Vec<String>,
}

impl ReloadReport {
    /// A reload that changed nothing because of these mistakes.
    pub fn impossible(problems: Vec<String>) -> Self {
        Self {
            possible: false,
            applied: false,
            rules: NameChanges::default(),
            rules_running: 0,
            settings: Vec::new(),
            difference: Difference::default(),
            problems,
        }
    }
}

/// A request for a reload, whose sender waits for the report.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Whether the reload is only checked and not applied.
    pub only_checks: bool,
    /// Receives the report.
    pub reply: oneshot::Sender<ReloadReport>,
}

/// The queue between requesters of a reload and the process that performs it.
pub fn requests() -> (mpsc::Sender<ReloadRequest>, mpsc::Receiver<ReloadRequest>) {
    mpsc::channel(REQUESTS_MAX)
}
