//! One line that says how far it is, on a terminal only.

use crate::clock::{self, Nanoseconds};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;

/// Steps that the bar is drawn in.
const STEPS: u64 = 1_000;
/// Time between two changes of the line.
const REFRESH: Nanoseconds = clock::SECOND / 5;

/// The progress of the run that is going on.
pub struct Progress {
    bar: ProgressBar,
    last: Cell<Nanoseconds>,
}

impl Progress {
    /// On standard error, if that is a terminal and the user wants it.
    pub fn new(quiet: bool) -> Self {
        let bar = ProgressBar::new(STEPS);
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = "{prefix:.bold} {bar:30} {percent:>3} % {msg} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            last: Cell::new(0),
        }
    }

    /// Nothing is shown.
    pub fn hidden() -> Self {
        Self::new(true)
    }

    /// A run begins.
    pub fn begin(&self, what: String) {
        self.bar.reset();
        self.bar.set_message("");
        self.bar.set_prefix(what);
    }

    /// Shows how far the run is, 0 to 1, and what is measured at the moment; cheap when called
    /// too often, since `message` is then not asked.
    pub fn update(&self, done: f64, message: impl FnOnce() -> String) {
        let now = clock::now();
        if now - self.last.get() < REFRESH {
            return;
        }
        self.last.set(now);
        self.bar
            .set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.bar.set_message(message());
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: &str) {
        if self.bar.is_hidden() {
            println!("{line}");
        } else {
            self.bar.suspend(|| println!("{line}"));
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
