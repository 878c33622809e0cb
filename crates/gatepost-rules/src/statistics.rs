//! The number of rules of a rule set that run and that do not, and the size of its files.

/// The number of rules by their state, and the size of the rule files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleStatistics {
    /// Rules that run, sub-rules included.
    pub rules: usize,
    /// Rules that were read and cannot run here; each has a `RuleProblem`.
    pub not_running: usize,
    /// Rules that could run, but have no score and occur in no rule that runs.
    pub unneeded: usize,
    /// Rule files read.
    pub files: usize,
    /// Bytes of rule files read.
    pub bytes: usize,
}
