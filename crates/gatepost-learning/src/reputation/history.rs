//! The messages of one sender, or of another name, as a number and a sum.

/// The messages of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderHistory {
    /// The number of messages.
    pub count: u32,
    /// The sum of their scores.
    pub total: f64,
    /// The time of the last message, in seconds since 1970.
    pub time: u32,
}

impl SenderHistory {
    /// The average score; `None` if there was no message.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.total / f64::from(self.count))
    }

    /// The history of one message.
    pub(super) fn of_one(score: f64, time: u32) -> Self {
        Self {
            count: 1,
            total: score,
            time,
        }
    }

    /// Adds messages, by their number and the sum of their scores.
    pub(super) fn add(&mut self, count: u32, total: f64, time: u32) {
        self.count = self.count.saturating_add(count);
        // A sum beyond all numbers would never change again.
        self.total = (self.total + total).clamp(f64::MIN, f64::MAX);
        self.time = self.time.max(time);
    }

    /// The entry as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.count.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.time.to_be_bytes());
        bytes[8..].copy_from_slice(&self.total.to_be_bytes());
        bytes
    }

    /// The entry that [`SenderHistory::to_bytes`] wrote; `None` if the bytes are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let (time, rest) = rest.split_first_chunk::<4>()?;
        let total = f64::from_be_bytes(rest.try_into().ok()?);
        total.is_finite().then_some(Self {
            count: u32::from_be_bytes(*count),
            total,
            time: u32::from_be_bytes(*time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_comes_back_from_its_bytes(count: u32, time: u32, total in -1e9f64..1e9) {
            let entry = SenderHistory { count, total, time };
            prop_assert_eq!(SenderHistory::from_bytes(&entry.to_bytes()), Some(entry));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = SenderHistory::from_bytes(&bytes);
        }
    }
}
