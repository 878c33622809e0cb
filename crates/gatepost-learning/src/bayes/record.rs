//! Records of learned data, and their form as rows of a table with sorted keys.

use super::combine::{TokenCounts, Totals};
use super::message_key::MessageKey;
use super::token::Token;

/// The class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Unwanted.
    Spam,
    /// Wanted.
    Ham,
}

/// A change of the learned data. The newest record of a kind counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnedRecord {
    /// The number of learned messages.
    Totals(Totals),
    /// The number of messages with a token, and the time of its last use (seconds since 1970).
    /// Counts of zero mean that the token was removed.
    Token(Token, TokenCounts, u32),
    /// A message was learned.
    Learned {
        /// The key of the message.
        key: MessageKey,
        /// Its class.
        class: Class,
        /// The time of learning, in seconds since 1970.
        time: u32,
        /// The message id, for exports.
        id: Vec<u8>,
    },
    /// A learned message is removed.
    Unlearned(MessageKey),
    /// The latest expiry.
    Expiry(ExpiryRecord),
    /// The position in the lessons of a cluster.
    Position(LessonPosition),
    /// All earlier records are void.
    Cleared,
}

/// A place in the lessons of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LessonPosition {
    /// The number of the stream that has the lessons.
    pub stream: u64,
    /// The sequence of the last lesson that was carried out.
    pub sequence: u64,
}

/// The result of the latest expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryRecord {
    /// The time of the run, in seconds since 1970.
    pub time: u32,
    /// The age from which a token was removed, in seconds.
    pub age: u32,
    /// The number of removed tokens.
    pub removed: u32,
}

/// A record as a change to a table of keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Sets the value of a key.
    Put(Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(Vec<u8>),
    /// Removes all keys.
    DeleteAll,
}

// The first byte of a key is the kind of the record.
const TOKEN: u8 = b't';
const LEARNED: u8 = b'm';
const TOTALS: u8 = b'n';
const EXPIRY: u8 = b'e';
const POSITION: u8 = b'p';

impl LearnedRecord {
    /// The record as a row. Numbers are big-endian, in values as in keys.
    pub fn to_row(&self) -> RecordChange {
        match self {
            Self::Totals(totals) => {
                RecordChange::Put(vec![TOTALS], words(&[totals.spam, totals.ham]))
            }
            Self::Token(token, counts, time) => {
                let mut key = vec![TOKEN];
                key.extend_from_slice(&token.to_bytes());
                if counts.is_zero() {
                    RecordChange::Delete(key)
                } else {
                    RecordChange::Put(key, words(&[counts.spam, counts.ham, *time]))
                }
            }
            Self::Learned {
                key,
                class,
                time,
                id,
            } => {
                let mut value = vec![match class {
                    Class::Spam => b's',
                    Class::Ham => b'h',
                }];
                value.extend_from_slice(&time.to_be_bytes());
                value.extend_from_slice(id);
                RecordChange::Put(learned_key(*key), value)
            }
            Self::Unlearned(key) => RecordChange::Delete(learned_key(*key)),
            Self::Expiry(expiry) => RecordChange::Put(
                vec![EXPIRY],
                words(&[expiry.time, expiry.age, expiry.removed]),
            ),
            Self::Position(LessonPosition { stream, sequence }) => {
                let value = [stream.to_be_bytes(), sequence.to_be_bytes()].concat();
                RecordChange::Put(vec![POSITION], value)
            }
            Self::Cleared => RecordChange::DeleteAll,
        }
    }

    /// The record of a row; `None` if it is malformed.
    pub fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
        match key.split_first()? {
            (&TOKEN, token) => {
                let token = Token::from_bytes(token.try_into().ok()?);
                let [spam, ham, time] = numbers(value)?;
                Some(Self::Token(token, TokenCounts { spam, ham }, time))
            }
            (&LEARNED, key) => {
                let (class, rest) = value.split_first()?;
                let (time, id) = rest.split_first_chunk::<4>()?;
                Some(Self::Learned {
                    key: MessageKey::from_bytes(key.try_into().ok()?),
                    class: match class {
                        b's' => Class::Spam,
                        b'h' => Class::Ham,
                        _ => return None,
                    },
                    time: u32::from_be_bytes(*time),
                    id: id.to_vec(),
                })
            }
            (&TOTALS, []) => {
                let [spam, ham] = numbers(value)?;
                Some(Self::Totals(Totals { spam, ham }))
            }
            (&EXPIRY, []) => {
                let [time, age, removed] = numbers(value)?;
                Some(Self::Expiry(ExpiryRecord { time, age, removed }))
            }
            (&POSITION, []) => {
                let (stream, sequence) = value.split_first_chunk()?;
                Some(Self::Position(LessonPosition {
                    stream: u64::from_be_bytes(*stream),
                    sequence: u64::from_be_bytes(sequence.try_into().ok()?),
                }))
            }
            _ => None,
        }
    }

    /// The key of the row of the position in the lessons of a cluster.
    pub const POSITION_KEY: &[u8] = &[POSITION];
}

fn learned_key(key: MessageKey) -> Vec<u8> {
    let mut row = vec![LEARNED];
    row.extend_from_slice(&key.to_bytes());
    row
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

fn numbers<const COUNT: usize>(value: &[u8]) -> Option<[u32; COUNT]> {
    let (chunks, []) = value.as_chunks::<4>() else {
        return None;
    };
    let numbers: Vec<u32> = chunks
        .iter()
        .map(|chunk| u32::from_be_bytes(*chunk))
        .collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = LearnedRecord> {
        let token = any::<[u8; 5]>().prop_map(Token::from_bytes);
        let key = any::<[u8; 8]>().prop_map(MessageKey::from_bytes);
        prop_oneof![
            (any::<u32>(), any::<u32>())
                .prop_map(|(spam, ham)| LearnedRecord::Totals(Totals { spam, ham })),
            (token, 1u32.., any::<u32>(), any::<u32>()).prop_map(|(token, spam, ham, time)| {
                LearnedRecord::Token(token, TokenCounts { spam, ham }, time)
            }),
            (any::<u64>(), any::<u64>()).prop_map(|(stream, sequence)| {
                LearnedRecord::Position(LessonPosition { stream, sequence })
            }),
            (key, any::<bool>(), any::<u32>(), any::<Vec<u8>>()).prop_map(
                |(key, spam, time, id)| LearnedRecord::Learned {
                    key,
                    class: if spam { Class::Spam } else { Class::Ham },
                    time,
                    id,
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn a_record_comes_back_from_its_row(record in records()) {
            let RecordChange::Put(key, value) = record.to_row() else {
                return Err(TestCaseError::fail("kept records are put"));
            };
            prop_assert_eq!(LearnedRecord::from_row(&key, &value), Some(record));
        }

        #[test]
        fn any_row_is_read_without_panic(key: Vec<u8>, value: Vec<u8>) {
            let _ = LearnedRecord::from_row(&key, &value);
        }
    }
}
