//! The time that one message may take.
//!
//! The budget is processor time of the scanning thread, not wall time: the hits of a message must
//! not depend on how busy the machine is. Only the kernel knows processor time, and reading it
//! costs twenty times as much as reading the clock. It is never more than the wall time, so it is
//! read only after the budget has passed in wall time.

use std::time::{Duration, Instant};

use super::clock::computed;

/// The clock is read once per this many questions.
const QUESTIONS_PER_READING: u32 = 64;
/// Searched bytes that count as one question.
const BYTES_PER_QUESTION: usize = 4096;

/// A deadline that is cheap to check. It belongs to the thread that made it.
#[derive(Debug)]
pub(crate) struct ScanTimeBudget {
    time: Duration,
    began: Instant,
    /// The processor time of the thread at the start.
    computed_before: Duration,
    until_reading: u32,
    is_spent: bool,
}

impl ScanTimeBudget {
    pub(crate) fn new(time: Duration) -> Self {
        Self {
            time,
            began: Instant::now(),
            computed_before: computed(),
            until_reading: QUESTIONS_PER_READING,
            is_spent: false,
        }
    }

    /// The time since the start, of which others may have had a part.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether the time was found to be over.
    pub(crate) const fn was_spent(&self) -> bool {
        self.is_spent
    }

    /// Whether the time is over. `cost` is 1 for a short step and more for a long one.
    pub(crate) fn is_spent(&mut self, cost: u32) -> bool {
        if self.until_reading > cost {
            self.until_reading -= cost;
        } else {
            self.until_reading = QUESTIONS_PER_READING;
            self.is_spent |= self.began.elapsed() >= self.time
                && computed().saturating_sub(self.computed_before) >= self.time;
        }
        self.is_spent
    }

    /// The same before a search of this many bytes.
    pub(crate) fn is_spent_by(&mut self, bytes: usize) -> bool {
        let cost = u32::try_from(1 + bytes / BYTES_PER_QUESTION);
        self.is_spent(cost.unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_now_and_then() {
        let mut budget = ScanTimeBudget::new(Duration::ZERO);
        let questions = (1..=QUESTIONS_PER_READING).find(|_| budget.is_spent(1));
        assert_eq!(questions, Some(QUESTIONS_PER_READING));
        assert!(ScanTimeBudget::new(Duration::ZERO).is_spent_by(1 << 20));
        assert!(!ScanTimeBudget::new(Duration::from_hours(1)).is_spent(QUESTIONS_PER_READING));
    }
}
