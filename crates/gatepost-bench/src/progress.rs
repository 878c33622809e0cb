//! The progress of a run: one line on a terminal or, on an agent, reports to the conductor.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;

/// Number of steps of the bar.
const STEPS: u64 = 1_000;
/// Interval between two updates of the line.
const REFRESH: Nanoseconds = clock::SECOND / 5;
/// The remaining time is shown once this part is complete.
const DONE_FOR_ESTIMATE: f64 = 0.02;

/// The other hosts that run the same scenario at the same time.
pub trait OtherHosts {
    /// Reports the progress of this part, from 0 to 1, and the current measurement.
    fn report(&self, done: f64, message: String);

    /// Waits until all hosts have reached this point.
    fn wait(&self) -> Result<(), BenchError>;
}

enum ProgressReceiver {
    Terminal(ProgressBar),
    Others(Box<dyn OtherHosts>),
}

/// The progress of the current run.
pub struct RunProgress {
    receiver: ProgressReceiver,
    last: Cell<Nanoseconds>,
    pace: Cell<Pace>,
}

/// The observed start of a phase of the run, and its progress then and now.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    begun: Nanoseconds,
    from: f64,
    done: f64,
}

impl Pace {
    /// Advances, or restarts if the run went back: connecting is a separate phase.
    fn step(mut self, now: Nanoseconds, done: f64) -> Self {
        if self.begun == 0 || done < self.done {
            (self.begun, self.from) = (now, done);
        }
        self.done = done;
        self
    }

    /// The remaining seconds at this pace; `None` while the progress is insufficient for an
    /// estimate.
    fn seconds_left(self, now: Nanoseconds) -> Option<f64> {
        let share = self.done - self.from;
        let elapsed = clock::seconds(now.saturating_sub(self.begun));
        (share >= DONE_FOR_ESTIMATE && self.done < 1.0).then(|| elapsed * (1.0 - self.done) / share)
    }
}

impl RunProgress {
    /// A line on standard error, if that is a terminal and the user has not disabled it.
    pub fn new(quiet: bool) -> Self {
        let bar = ProgressBar::new(STEPS);
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // With a rate, a loss and the remaining time it just fits 80 columns.
        let template = "{prefix:.bold} {bar:20} {percent:>3} % {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self::to(ProgressReceiver::Terminal(bar))
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self::new(true)
    }

    /// The progress of one part of a run on several hosts.
    pub fn among(others: Box<dyn OtherHosts>) -> Self {
        Self::to(ProgressReceiver::Others(others))
    }

    fn to(receiver: ProgressReceiver) -> Self {
        Self {
            receiver,
            last: Cell::new(0),
            pace: Cell::default(),
        }
    }

    /// Marks the beginning of a run.
    pub fn begin(&self, what: String) {
        if let ProgressReceiver::Terminal(bar) = &self.receiver {
            bar.reset();
            bar.set_message("starting");
            bar.set_prefix(what);
            self.pace.set(Pace::default());
        }
    }

    /// Shows the progress of the run, from 0 to 1, and the current measurement. Frequent calls are
    /// cheap, since `message` is then not called.
    pub fn update(&self, done: f64, message: impl FnOnce() -> String) {
        let now = clock::now();
        if now - self.last.get() < REFRESH {
            return;
        }
        self.last.set(now);
        let done = done.clamp(0.0, 1.0);
        match &self.receiver {
            ProgressReceiver::Terminal(bar) => {
                bar.set_position((done * STEPS as f64) as u64);
                let pace = self.pace.get().step(now, done);
                self.pace.set(pace);
                let left = pace.seconds_left(now);
                let left = left.map(|seconds| format!(", {:.0} s left", seconds.ceil()));
                bar.set_message(message() + &left.unwrap_or_default());
            }
            ProgressReceiver::Others(others) => others.report(done, message()),
        }
    }

    /// In a run on several hosts, waits until all parts have reached the same point; each part
    /// calls it the same number of times.
    pub fn together(&self) -> Result<(), BenchError> {
        match &self.receiver {
            ProgressReceiver::Terminal(_) => Ok(()),
            ProgressReceiver::Others(others) => others.wait(),
        }
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: &str) {
        match &self.receiver {
            ProgressReceiver::Terminal(bar) if !bar.is_hidden() => {
                bar.suspend(|| println!("{line}"));
            }
            _ => println!("{line}"),
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let ProgressReceiver::Terminal(bar) = &self.receiver {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_shown_once_it_can_be_estimated() {
        let second = clock::SECOND;
        let pace = Pace::default().step(10 * second, 0.0);
        assert_eq!(pace.seconds_left(10 * second), None);
        assert_eq!(pace.step(11 * second, 0.01).seconds_left(11 * second), None);
        assert_eq!(
            pace.step(12 * second, 0.5).seconds_left(12 * second),
            Some(2.0)
        );
        // Connecting has ended, and the main phase starts from zero.
        let pace = pace
            .step(12 * second, 1.0)
            .step(13 * second, 0.0)
            .step(14 * second, 0.25);
        assert_eq!(pace.seconds_left(14 * second), Some(3.0));
    }
}
