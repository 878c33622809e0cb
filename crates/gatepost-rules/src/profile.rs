//! Records where a scan of this thread spends its time, while a profile is taken.
//!
//! Every hook checks one flag of its thread first, so that a scan without a profile pays a load and
//! a branch. A stage that begins ends the previous one; [`inside`] returns to it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::RuleId;

/// A part of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanStage {
    /// Header fields are found.
    Head,
    /// MIME parts are found and decoded.
    Mime,
    /// Texts are made: HTML rendered, white space collapsed, links and relays found.
    Views,
    /// Bayes judges.
    Bayes,
    /// Patterns run whose groups other rules refer to.
    Captures,
    /// Queries are sent to the network.
    Queries,
    /// Header and MIME rules, with the decoding of their fields.
    HeaderTests,
    /// Functions.
    Functions,
    /// Prefilters read texts.
    Prefilter,
    /// Patterns are verified where the prefilter found their literals.
    Candidates,
    /// Patterns run that no prefilter can rule out.
    Unfiltered,
    /// Answers of the network are awaited and judged.
    Answers,
    /// Metas are computed.
    Metas,
    /// The report is made.
    Report,
}

impl ScanStage {
    /// All stages, in the order of a scan.
    pub(crate) const ALL: [Self; 14] = [
        Self::Head,
        Self::Mime,
        Self::Views,
        Self::Bayes,
        Self::Captures,
        Self::Queries,
        Self::HeaderTests,
        Self::Functions,
        Self::Prefilter,
        Self::Candidates,
        Self::Unfiltered,
        Self::Answers,
        Self::Metas,
        Self::Report,
    ];
    /// The number of texts.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// The name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Head => "header fields found",
            Self::Mime => "MIME parts",
            Self::Views => "texts, links and relays",
            Self::Bayes => "Bayes",
            Self::Captures => "captured texts",
            Self::Queries => "queries sent",
            Self::HeaderTests => "header tests",
            Self::Functions => "functions",
            Self::Prefilter => "prefilters",
            Self::Candidates => "candidates verified",
            Self::Unfiltered => "rules without a prefilter",
            Self::Answers => "answers awaited",
            Self::Metas => "metas",
            Self::Report => "report",
        }
    }
}

/// The work of one rule in one message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RuleWork {
    pub(crate) time: Duration,
    /// The number of times its pattern was verified because the prefilter found one of its
    /// literals.
    pub(crate) candidates: u64,
    /// The number of these that found a match.
    pub(crate) confirmed: u64,
    /// The number of times its pattern searched a text, or its function ran, without a prefilter.
    pub(crate) runs: u64,
}

/// The measurements of one message.
#[derive(Debug, Default)]
pub(crate) struct ScanMeasurements {
    pub(crate) stages: [Duration; ScanStage::COUNT],
    pub(crate) rules: HashMap<RuleId, RuleWork>,
    /// The bytes that prefilters read.
    pub(crate) filtered_bytes: u64,
    current: Option<(ScanStage, Instant)>,
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static RECORDED: RefCell<ScanMeasurements> = RefCell::default();
}

impl ScanMeasurements {
    fn enter(&mut self, stage: Option<ScanStage>) -> Option<ScanStage> {
        let now = Instant::now();
        let previous = self.current.take();
        if let Some((previous, since)) = previous {
            self.stages[previous as usize] += now - since;
        }
        self.current = stage.map(|stage| (stage, now));
        previous.map(|(stage, _)| stage)
    }
}

/// Begins to record.
pub(crate) fn begin() {
    RECORDED.take();
    IS_ON.set(true);
}

/// Ends the last stage, and returns the recorded figures.
pub(crate) fn end() -> ScanMeasurements {
    IS_ON.set(false);
    let mut recorded = RECORDED.take();
    recorded.enter(None);
    recorded
}

/// Takes the work that rules have done so far.
pub(crate) fn take_rules() -> HashMap<RuleId, RuleWork> {
    RECORDED.with_borrow_mut(|recorded| std::mem::take(&mut recorded.rules))
}

/// Whether a profile is taken on this thread.
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

/// A stage begins.
pub(crate) fn enter(stage: ScanStage) {
    if is_on() {
        switch(Some(stage));
    }
}

#[cold]
fn switch(stage: Option<ScanStage>) -> Option<ScanStage> {
    RECORDED.with_borrow_mut(|recorded| recorded.enter(stage))
}

/// A stage within another one, as long as this is kept.
pub(crate) struct StageGuard {
    previous: Option<ScanStage>,
}

/// A stage begins within the current one, which continues after it.
pub(crate) fn inside(stage: ScanStage) -> StageGuard {
    StageGuard {
        previous: if is_on() { switch(Some(stage)) } else { None },
    }
}

impl Drop for StageGuard {
    fn drop(&mut self) {
        if self.previous.is_some() {
            switch(self.previous);
        }
    }
}

/// Counts the bytes that a prefilter reads.
pub(crate) fn filtered(bytes: usize) {
    if is_on() {
        RECORDED.with_borrow_mut(|recorded| recorded.filtered_bytes += bytes as u64);
    }
}

/// The cause of a rule's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunCause {
    /// A literal of its pattern was found.
    Candidate,
    /// It runs on every text.
    Always,
}

/// Runs a rule's pattern or function, which returns whether it hit.
pub(crate) fn timed(rule: RuleId, cause: RunCause, run: impl FnOnce() -> bool) {
    if is_on() {
        record(rule, cause, run);
    } else {
        run();
    }
}

#[cold]
fn record(rule: RuleId, cause: RunCause, run: impl FnOnce() -> bool) {
    let begun = Instant::now();
    let has_hit = run();
    let time = begun.elapsed();
    RECORDED.with_borrow_mut(|recorded| {
        let work = recorded.rules.entry(rule).or_default();
        work.time += time;
        match cause {
            RunCause::Candidate => {
                work.candidates += 1;
                work.confirmed += u64::from(has_hit);
            }
            RunCause::Always => work.runs += 1,
        }
    });
}
