//! What a run tells while it goes on: one line on a terminal, or, of an agent's part of a run, words
//! to the conductor.

use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;

/// Steps that the bar is drawn in.
const STEPS: u64 = 1_000;
/// Time between two changes of the line.
const REFRESH: Nanoseconds = clock::SECOND / 5;

/// The others that run the same scenario at the same time, on other hosts.
pub trait Meeting {
    /// Tells them how far this part is, 0 to 1, and what is measured at the moment.
    fn tell(&self, done: f64, message: String);

    /// Waits until all have come as far.
    fn wait(&self) -> Result<(), BenchError>;
}

enum Listener {
    Terminal(ProgressBar),
    Others(Box<dyn Meeting>),
}

/// The progress of the run that is going on.
pub struct Progress {
    listener: Listener,
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
        Self::to(Listener::Terminal(bar))
    }

    /// Nothing is shown.
    pub fn hidden() -> Self {
        Self::new(true)
    }

    /// Of one part of a run on several hosts.
    pub fn among(others: Box<dyn Meeting>) -> Self {
        Self::to(Listener::Others(others))
    }

    fn to(listener: Listener) -> Self {
        Self {
            listener,
            last: Cell::new(0),
        }
    }

    /// A run begins.
    pub fn begin(&self, what: String) {
        if let Listener::Terminal(bar) = &self.listener {
            bar.reset();
            bar.set_message("");
            bar.set_prefix(what);
        }
    }

    /// Shows how far the run is, 0 to 1, and what is measured at the moment; cheap when called
    /// too often, since `message` is then not asked.
    pub fn update(&self, done: f64, message: impl FnOnce() -> String) {
        let now = clock::now();
        if now - self.last.get() < REFRESH {
            return;
        }
        self.last.set(now);
        let done = done.clamp(0.0, 1.0);
        match &self.listener {
            Listener::Terminal(bar) => {
                bar.set_position((done * STEPS as f64) as u64);
                bar.set_message(message());
            }
            Listener::Others(others) => others.tell(done, message()),
        }
    }

    /// Where the run is spread over several hosts, waits until all parts have come as far; each
    /// part calls it as often.
    pub fn together(&self) -> Result<(), BenchError> {
        match &self.listener {
            Listener::Terminal(_) => Ok(()),
            Listener::Others(others) => others.wait(),
        }
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: &str) {
        match &self.listener {
            Listener::Terminal(bar) if !bar.is_hidden() => bar.suspend(|| println!("{line}")),
            _ => println!("{line}"),
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Listener::Terminal(bar) = &self.listener {
            bar.finish_and_clear();
        }
    }
}
