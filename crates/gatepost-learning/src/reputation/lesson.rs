//! Changes of averages, as one server makes them and the servers of a cluster share them.
//!
//! A change says what happened, not what its result was: servers that carry out the same changes in
//! the same order have the same averages. As bytes a lesson is a version, the number, the time and
//! its changes; a change is a letter, its names and its numbers. All numbers are big-endian, and
//! names have two bytes with their length before them.

use super::key;
use crate::bayes::LessonError;

/// The version of the encoding.
const VERSION: u8 = 1;
/// The most changes of one lesson, which is then smaller than a message of the cluster may be.
pub const SENDER_CHANGES_MAX: usize = 256;

/// Changes of averages that were made together.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderLesson {
    /// The number by which the server that gives the lesson recognises it.
    pub number: u64,
    /// The time of the changes, in seconds since 1970.
    pub time: u32,
    /// The changes, in their order.
    pub changes: Vec<SenderChange>,
}

/// A change of averages. Names are keys of averages, or prefixes of these.
#[derive(Clone, Debug, PartialEq)]
pub enum SenderChange {
    /// Messages count in an average: their number, and the sum of their scores.
    Add(Vec<u8>, u32, f64),
    /// The average of the first key, if there is none yet, becomes that of the second: of the same
    /// sender for all networks, as a person has entered it. The sender's others are dropped.
    TakeOver(Vec<u8>, Vec<u8>),
    /// The averages with this prefix are replaced by that of one message for all networks.
    Set(Vec<u8>, f64),
    /// The averages with this prefix are dropped.
    Forget(Vec<u8>),
    /// The score of a message is noted under its own key.
    Note(Vec<u8>, f64),
    /// A person has classified a message, which counts in these averages with these points; the
    /// last key is its own if it is to be noted.
    Learn {
        /// The averages.
        keys: Vec<Vec<u8>>,
        /// The key of the message.
        message: Option<Vec<u8>>,
        /// The points: positive for spam.
        points: f64,
    },
    /// The contribution of a message to these averages is subtracted; the last key is its own.
    Unlearn {
        /// The averages.
        keys: Vec<Vec<u8>>,
        /// The key of the message.
        message: Vec<u8>,
    },
}

impl SenderLesson {
    /// The lesson as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.time.to_be_bytes());
        for change in &self.changes {
            change.append_to(&mut bytes);
        }
        bytes
    }

    /// The lesson that [`SenderLesson::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError> {
        match bytes.first() {
            Some(&VERSION) => Self::of_version_1(&bytes[1..]).ok_or(LessonError::Malformed),
            Some(&other) => Err(LessonError::Version(other)),
            None => Err(LessonError::Malformed),
        }
    }

    fn of_version_1(bytes: &[u8]) -> Option<Self> {
        let (number, bytes) = bytes.split_first_chunk()?;
        let (time, mut rest) = bytes.split_first_chunk()?;
        let mut changes = Vec::new();
        while !rest.is_empty() {
            changes.push(SenderChange::read(&mut rest)?);
        }
        Some(Self {
            number: u64::from_be_bytes(*number),
            time: u32::from_be_bytes(*time),
            changes,
        })
    }
}

impl SenderChange {
    /// The change by which the average of an address becomes `points` for all networks, or all its
    /// averages are dropped.
    pub fn of_person(address: &str, points: Option<f64>) -> Self {
        let prefix = key::prefix(address);
        match points {
            Some(points) => Self::Set(prefix, points),
            None => Self::Forget(prefix),
        }
    }

    /// A message counts in an average.
    pub(super) fn count(key: Vec<u8>, points: f64) -> Self {
        Self::Add(key, 1, points)
    }

    /// Whether its numbers are finite, and its names have the form of keys or prefixes; no other
    /// change is carried out.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Add(_, _, points) | Self::Note(_, points) | Self::Learn { points, .. } => {
                points.is_finite()
            }
            Self::Set(prefix, points) => points.is_finite() && prefix.ends_with(b"|"),
            Self::Forget(prefix) => prefix.ends_with(b"|"),
            Self::TakeOver(key, from) => key::prefix_of(key) == key::prefix_of(from),
            Self::Unlearn { .. } => true,
        }
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Add(key, count, total) => {
                bytes.push(b'a');
                append_name(key, bytes);
                bytes.extend_from_slice(&count.to_be_bytes());
                bytes.extend_from_slice(&total.to_be_bytes());
            }
            Self::TakeOver(key, from) => {
                bytes.push(b't');
                append_name(key, bytes);
                append_name(from, bytes);
            }
            Self::Set(prefix, points) => append_points(b's', prefix, *points, bytes),
            Self::Forget(prefix) => {
                bytes.push(b'f');
                append_name(prefix, bytes);
            }
            Self::Note(key, points) => append_points(b'n', key, *points, bytes),
            Self::Learn {
                keys,
                message,
                points,
            } => {
                bytes.push(b'l');
                append_names(keys, bytes);
                append_name(message.as_deref().unwrap_or_default(), bytes);
                bytes.extend_from_slice(&points.to_be_bytes());
            }
            Self::Unlearn { keys, message } => {
                bytes.push(b'u');
                append_names(keys, bytes);
                append_name(message, bytes);
            }
        }
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [letter] = take(rest)?;
        let change = match letter {
            b'a' => Self::Add(
                name(rest)?,
                u32::from_be_bytes(take(rest)?),
                f64::from_be_bytes(take(rest)?),
            ),
            b't' => Self::TakeOver(name(rest)?, name(rest)?),
            b's' => Self::Set(name(rest)?, f64::from_be_bytes(take(rest)?)),
            b'f' => Self::Forget(name(rest)?),
            b'n' => Self::Note(name(rest)?, f64::from_be_bytes(take(rest)?)),
            b'l' => Self::Learn {
                keys: names(rest)?,
                message: Some(name(rest)?).filter(|message| !message.is_empty()),
                points: f64::from_be_bytes(take(rest)?),
            },
            b'u' => Self::Unlearn {
                keys: names(rest)?,
                message: name(rest)?,
            },
            _ => return None,
        };
        change.is_valid().then_some(change)
    }
}

fn append_points(letter: u8, name: &[u8], points: f64, bytes: &mut Vec<u8>) {
    bytes.push(letter);
    append_name(name, bytes);
    bytes.extend_from_slice(&points.to_be_bytes());
}

/// Appends a name; keys are far shorter than two bytes can say.
pub(super) fn append_name(name: &[u8], bytes: &mut Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend(name.iter().take(usize::from(length)));
}

/// Appends some names; a message counts in five averages at most.
fn append_names(names: &[Vec<u8>], bytes: &mut Vec<u8>) {
    let count = u8::try_from(names.len()).unwrap_or(u8::MAX);
    bytes.push(count);
    for name in names.iter().take(usize::from(count)) {
        append_name(name, bytes);
    }
}

/// Takes a name from the front.
pub(super) fn name(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = u16::from_be_bytes(take(rest)?);
    let (name, after) = rest.split_at_checked(usize::from(length))?;
    *rest = after;
    Some(name.to_vec())
}

fn names(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let [count] = take(rest)?;
    (0..count).map(|_| name(rest)).collect()
}

/// Takes some bytes from the front.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        "[ab]@x\\|ip=(none|192\\.0)".prop_map(String::into_bytes)
    }

    fn prefix() -> impl Strategy<Value = Vec<u8>> {
        "[ab]@x\\|".prop_map(String::into_bytes)
    }

    /// Changes of the averages of two senders in two networks.
    pub(in super::super) fn change() -> impl Strategy<Value = SenderChange> {
        let points = (-200_i32..200).prop_map(|points| f64::from(points) / 8.0);
        let keys = || proptest::collection::vec(key(), 0..3);
        prop_oneof![
            (key(), 1_u32..5, points.clone()).prop_map(|(k, c, p)| SenderChange::Add(k, c, p)),
            prefix().prop_map(|name| {
                let key = |network: &[u8]| [&name, network].concat();
                SenderChange::TakeOver(key(b"ip=192.0"), key(b"ip=none"))
            }),
            (prefix(), points.clone()).prop_map(|(name, points)| SenderChange::Set(name, points)),
            prefix().prop_map(SenderChange::Forget),
            (key(), points.clone()).prop_map(|(key, points)| SenderChange::Note(key, points)),
            (keys(), proptest::option::of(key()), points).prop_map(|(keys, message, points)| {
                SenderChange::Learn {
                    keys,
                    message,
                    points,
                }
            }),
            (keys(), key()).prop_map(|(keys, message)| SenderChange::Unlearn { keys, message }),
        ]
    }

    proptest! {
        #[test]
        fn a_lesson_comes_back_from_its_bytes(
            number: u64,
            time: u32,
            changes in proptest::collection::vec(change(), 0..9),
        ) {
            let lesson = SenderLesson { number, time, changes };
            prop_assert_eq!(SenderLesson::from_bytes(&lesson.to_bytes()), Ok(lesson));
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes: Vec<u8>) {
            let _ = SenderLesson::from_bytes(&bytes);
            bytes.splice(0..0, [VERSION; 13]);
            let _ = SenderLesson::from_bytes(&bytes);
        }
    }

    #[test]
    fn numbers_that_are_none_and_later_versions_are_recognised() {
        let lesson = SenderLesson {
            number: 1,
            time: 2,
            changes: vec![SenderChange::Set(b"a@x|".to_vec(), f64::NAN)],
        };
        let read = SenderLesson::from_bytes(&lesson.to_bytes());
        assert_eq!(read, Err(LessonError::Malformed));
        assert_eq!(SenderLesson::from_bytes(&[2]), Err(LessonError::Version(2)));
        assert_eq!(SenderLesson::from_bytes(&[]), Err(LessonError::Malformed));
    }
}
