//! The totals of a scan, and the exit code that follows from them.

use std::process::ExitCode;
use std::time::Instant;

use gatepost_bench::interrupt;

use super::work::ScannedMessage;
use crate::exit::EXIT_INTERRUPTED;

/// At least one message was spam.
const EXIT_SPAM: u8 = 5;
/// Something could not be read (BSD's `EX_NOINPUT`).
const EXIT_NO_INPUT: u8 = 66;

/// The totals of all messages.
pub(super) struct ScanSummary {
    pub(super) messages: u64,
    spam: u64,
    unreadable: u64,
    start: Instant,
}

impl Default for ScanSummary {
    fn default() -> Self {
        Self {
            messages: 0,
            spam: 0,
            unreadable: 0,
            start: Instant::now(),
        }
    }
}

impl ScanSummary {
    pub(super) fn add(&mut self, judged: &ScannedMessage) {
        match &judged.outcome {
            Ok(report) => {
                self.messages += 1;
                self.spam += u64::from(report.is_spam());
            }
            Err(_) => self.unreadable += 1,
        }
    }

    pub(super) fn rate(&self) -> String {
        let rate = self.messages as f64 / self.start.elapsed().as_secs_f64().max(1e-6);
        format!("{rate:.0} messages/s")
    }

    pub(super) fn line(&self) -> String {
        let Self { messages, spam, .. } = self;
        let ended = if interrupt::is_signalled() {
            "interrupted: "
        } else {
            ""
        };
        format!("{ended}{messages} messages, {spam} spam, {}", self.rate())
    }

    pub(super) fn exit_code(&self, is_filter: bool) -> ExitCode {
        if interrupt::is_signalled() {
            return ExitCode::from(EXIT_INTERRUPTED);
        }
        match (self.unreadable, self.spam) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) if is_filter => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(EXIT_SPAM),
            _ => ExitCode::from(EXIT_NO_INPUT),
        }
    }
}
