//! The time that one message may take.

use std::time::{Duration, Instant};

/// The clock is read once in so many questions.
const QUESTIONS_PER_READING: u32 = 64;

/// A deadline that is cheap to ask for.
#[derive(Debug)]
pub(crate) struct Budget {
    deadline: Instant,
    until_reading: u32,
    is_spent: bool,
}

impl Budget {
    pub(crate) fn new(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
            until_reading: QUESTIONS_PER_READING,
            is_spent: false,
        }
    }

    /// Whether the time is over. `cost` is 1 for a short step and more for a long one.
    pub(crate) fn is_spent(&mut self, cost: u32) -> bool {
        if self.until_reading > cost {
            self.until_reading -= cost;
        } else {
            self.until_reading = QUESTIONS_PER_READING;
            self.is_spent |= Instant::now() >= self.deadline;
        }
        self.is_spent
    }
}
