//! Counts for each part of a second, from the beginning of a measurement.

use crate::clock::{self, Nanoseconds};
use crate::outcome::PARTS_PER_SECOND;

const PART: Nanoseconds = clock::SECOND / PARTS_PER_SECOND;

/// Counts over time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    begin: Nanoseconds,
    parts: Vec<u64>,
}

impl Timeline {
    /// An empty timeline.
    pub const fn from(begin: Nanoseconds) -> Self {
        Self {
            begin,
            parts: Vec::new(),
        }
    }

    /// Counts events; those before the beginning are ignored.
    #[inline]
    pub fn add(&mut self, now: Nanoseconds, count: u64) {
        let Some(span) = now.checked_sub(self.begin) else {
            return;
        };
        let at = (span / PART) as usize;
        if at >= self.parts.len() {
            self.parts.resize(at + 1, 0);
        }
        self.parts[at] += count;
    }

    /// The counts of each part.
    pub fn parts(&self) -> &[u64] {
        &self.parts
    }

    /// The counts of each second.
    pub fn seconds(&self) -> Vec<u64> {
        let seconds = self.parts.chunks(PARTS_PER_SECOND as usize);
        seconds.map(|parts| parts.iter().sum()).collect()
    }

    /// Adds the counts of another timeline, part by part.
    pub fn merge(&mut self, parts: &[u64]) {
        if self.parts.len() < parts.len() {
            self.parts.resize(parts.len(), 0);
        }
        for (mine, others) in self.parts.iter_mut().zip(parts) {
            *mine += others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_seconds() {
        let mut line = Timeline::from(100);
        line.add(50, 9);
        line.add(100, 1);
        line.add(100 + clock::SECOND - 1, 2);
        line.add(100 + clock::SECOND, 4);
        assert_eq!(line.seconds(), [3, 4]);
        line.merge(&[1]);
        assert_eq!((line.parts()[0], line.parts().len()), (2, 11));
    }
}
