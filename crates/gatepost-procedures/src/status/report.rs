//! The counts as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use gatepost_message::Action;
use serde::Serialize;

use crate::in_force::InForce;

/// The activity of the procedures; shown as tables, serialized as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Since the start of the process.
    pub uptime_seconds: u64,
    /// The running set, and the changes refused since it was loaded.
    pub in_force: InForce,
    /// Messages that wait for answers of the network, without a judge.
    pub waiting_for_network: usize,
    /// DNS lists that do not answer, and the number of queries omitted since.
    pub silent_lists: BTreeMap<String, u64>,
    /// The decisions of `/greylist` since the start, by their reason.
    pub greylist: BTreeMap<&'static str, u64>,
    /// Mails that were not judged completely because of limits, since the start.
    pub given_up: u64,
    /// Since the start: one entry a path, sorted by it.
    pub procedures: Vec<ProcedureStatus>,
    /// The same of the last 24 hours, to a quarter of an hour.
    pub last_day: Vec<ProcedureStatus>,
}

/// Statistics of one procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureStatus {
    /// Its path.
    pub path: String,
    /// The number of runs.
    pub requests: u64,
    /// The number of runs that failed or exceeded their limits.
    pub errors: u64,
    /// CPU time in seconds; of the cheap procedures an estimate from samples.
    pub cpu_seconds: f64,
    /// The number of each verdict; an error counts as the resulting verdict.
    pub verdicts: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_requests: u64 = self.procedures.iter().map(|one| one.requests).sum();
        let total_cpu: f64 = self.procedures.iter().map(|one| one.cpu_seconds).sum();
        let (minutes, hours) = (self.uptime_seconds / 60, self.uptime_seconds / 3600);
        writeln!(
            formatter,
            "up {} d {:02}:{:02}:{:02}, {total_requests} requests, {total_cpu:.3} s of CPU time",
            hours / 24,
            hours % 24,
            minutes % 60,
            self.uptime_seconds % 60,
        )?;
        writeln!(formatter, "{}", self.in_force)?;
        for (list, skipped) in &self.silent_lists {
            writeln!(
                formatter,
                "DNS list {list} does not answer; {skipped} queries were omitted"
            )?;
        }
        if self.given_up > 0 {
            writeln!(
                formatter,
                "{} mails were not judged completely because of limits",
                self.given_up
            )?;
        }
        table(formatter, "since the start", &self.procedures)?;
        writeln!(formatter)?;
        table(formatter, "last 24 hours", &self.last_day)?;
        writeln!(
            formatter,
            "\nBelow each verdict: the exit code of gatepost-call."
        )
    }
}

/// The exit code with which the thin client reports a verdict.
const fn exit_code(action: Action) -> u8 {
    match action {
        Action::Accept | Action::Tag => 0,
        Action::Reject => 1,
        Action::Drop => 2,
        Action::Quarantine => 3,
        Action::Defer => 75,
    }
}

fn table(
    formatter: &mut fmt::Formatter<'_>,
    title: &str,
    procedures: &[ProcedureStatus],
) -> fmt::Result {
    let total_requests: u64 = procedures.iter().map(|one| one.requests).sum();
    let total_cpu: f64 = procedures.iter().map(|one| one.cpu_seconds).sum();
    write!(
        formatter,
        "{title:<24} {:>10} {:>6} {:>7} {:>10} {:>6}",
        "requests", "share", "errors", "CPU s", "share"
    )?;
    for action in Action::ALL {
        write!(formatter, " {:>10}", action.name())?;
    }
    write!(formatter, "\n{:<68}", "")?;
    for action in Action::ALL {
        write!(formatter, " {:>10}", exit_code(action))?;
    }
    for one in procedures {
        write!(
            formatter,
            "\n{:<24} {:>10} {:>5.1}% {:>7} {:>10.3} {:>5.1}%",
            one.path,
            one.requests,
            percent(one.requests as f64, total_requests as f64),
            one.errors,
            one.cpu_seconds,
            percent(one.cpu_seconds, total_cpu),
        )?;
        for action in Action::ALL {
            let count = one.verdicts.get(action.name()).copied().unwrap_or(0);
            write!(formatter, " {count:>10}")?;
        }
    }
    writeln!(formatter)
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole * 100.0
    } else {
        0.0
    }
}
