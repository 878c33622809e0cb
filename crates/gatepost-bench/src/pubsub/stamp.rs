//! The stamp at the start of every payload: its publisher, its number, and the time at which it was
//! due.
//!
//! In hexadecimal digits, because some protocols carry only text.

use crate::clock::Nanoseconds;

/// Length of a stamp: 4 digits of publisher, 8 of sequence, 16 of time.
pub const STAMP_BYTES: usize = 28;

/// A message's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageStamp {
    /// The publisher's number.
    pub publisher: u16,
    /// The message's number at that publisher, from 0.
    pub sequence: u32,
    /// The time at which it should have been sent, from which its latency counts.
    pub due: Nanoseconds,
}

impl MessageStamp {
    /// Writes it over the first bytes of a payload, which must be long enough.
    pub fn write(self, payload: &mut [u8]) {
        put(&mut payload[..4], u64::from(self.publisher));
        put(&mut payload[4..12], u64::from(self.sequence));
        put(&mut payload[12..STAMP_BYTES], self.due);
    }

    /// The stamp in text that a server wrote around the payload: the first run of the same number
    /// of hexadecimal digits. `None` if there is none.
    pub fn find(text: &[u8]) -> Option<&[u8]> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut begin = 0;
        while let Some(window) = text.get(begin..begin + STAMP_BYTES) {
            match window.iter().rposition(|byte| !is_digit(byte)) {
                None => return text.get(begin..),
                Some(at) => begin += at + 1,
            }
        }
        None
    }

    /// Parses a stamp; `None` if the payload does not begin with one.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_BYTES] = payload.first_chunk()?;
        Some(Self {
            publisher: get(&bytes[..4])? as u16,
            sequence: get(&bytes[4..12])? as u32,
            due: get(&bytes[12..])?,
        })
    }
}

fn put(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 0xf) as usize];
        value >>= 4;
    }
}

/// The value of each byte as a lower-case hexadecimal digit; `0xff` if it is not one.
const DIGITS: [u8; 256] = {
    let mut digits = [0xff; 256];
    let mut value = 0_u8;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

#[inline]
fn get(digits: &[u8]) -> Option<u64> {
    let (mut value, mut seen) = (0, 0);
    for &digit in digits {
        let digit = DIGITS[usize::from(digit)];
        seen |= digit;
        value = value << 4 | u64::from(digit & 0xf);
    }
    (seen != 0xff).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_stamp_reads_back(publisher: u16, sequence: u32, due: u64) {
            let stamp = MessageStamp { publisher, sequence, due };
            let mut payload = [b'.'; 40];
            stamp.write(&mut payload);
            prop_assert_eq!(MessageStamp::read(&payload), Some(stamp));
        }

        #[test]
        fn payloads_without_a_stamp_are_ignored(bytes: Vec<u8>) {
            if let Some(stamp) = MessageStamp::read(&bytes) {
                let mut again = bytes.clone();
                stamp.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
