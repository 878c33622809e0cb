//! `gatepost check --deploy`: whether this machine can serve the config: ports, folders, space,
//! certificates, limits, memory, the clock, and with `--dns` the records of the mail domains.
//!
//! A finding is a warning if something will not work, or not for long, and a note otherwise.

mod certificates;
mod dns;
mod ports;
mod resources;
mod storage;

use std::process::ExitCode;

use crate::config::Config;
use crate::security_report::Finding;

/// The findings so far.
#[derive(Default)]
struct DeployReport(Vec<Finding>);

impl DeployReport {
    fn note(&mut self, text: impl Into<String>) {
        self.0.push(Finding {
            is_warning: false,
            text: text.into(),
        });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.0.push(Finding {
            is_warning: true,
            text: text.into(),
        });
    }
}

/// Prints the findings; the exit code is 1 if there is a warning.
pub(super) fn print(config: &Config, asks_dns: bool) -> ExitCode {
    let mut report = DeployReport::default();
    ports::check(config, &mut report);
    storage::check(config, &mut report);
    certificates::check(config, &mut report);
    resources::check(config, &mut report);
    if asks_dns {
        dns::check(config, &mut report);
    }
    for finding in &report.0 {
        println!("{finding}");
    }
    let warnings = report.0.iter().filter(|finding| finding.is_warning).count();
    println!("gatepost: {warnings} warnings");
    ExitCode::from(u8::from(warnings > 0))
}
