//! A lesson: one message to learn or to forget, as the servers of a cluster share it.
//!
//! As bytes it is a version, the number, the instruction (`s`, `h` or `f`), whether an earlier
//! class is kept, the time, and the sample. All numbers are big-endian.

use super::record::Class;
use super::sample::BayesSample;
use crate::LearnInstruction;

/// The version of the encoding.
const VERSION: u8 = 1;

/// The result of learning a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The message was learned.
    New,
    /// The message had been learned as the other class; that was forgotten, and the message learned
    /// again.
    Changed,
    /// The message had been learned before; nothing changed.
    Before,
    /// Bayes is disabled.
    Off,
}

/// The treatment of a message that was learned as the other class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relearn {
    /// A person classified the message: forget the other class, and learn it again.
    Change,
    /// The classification is automatic: keep the previous one.
    Keep,
}

/// A message to learn or to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// The number by which the server that gives the lesson recognises it.
    pub number: u64,
    /// The change of what was learned.
    pub instruction: LearnInstruction,
    /// The treatment of a message that was learned as the other class.
    pub relearn: Relearn,
    /// The time of the lesson, in seconds since 1970.
    pub time: u32,
    /// The message.
    pub sample: BayesSample,
}

/// The effect of a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LessonOutcome {
    /// The message was learned, or had been before.
    Learned(Learned),
    /// True if the message had been learned, and was forgotten.
    Forgotten(bool),
}

/// The reason why bytes are no lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// A later version has written them.
    #[error("the version {0} of the encoding is not known")]
    Version(u8),
    /// No version writes them.
    #[error("they are malformed")]
    Malformed,
}

impl Lesson {
    /// The lesson as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.push(match self.instruction {
            LearnInstruction::Learn(Class::Spam) => b's',
            LearnInstruction::Learn(Class::Ham) => b'h',
            LearnInstruction::Forget => b'f',
        });
        bytes.push(u8::from(self.relearn == Relearn::Keep));
        bytes.extend_from_slice(&self.time.to_be_bytes());
        bytes.extend(self.sample.to_bytes());
        bytes
    }

    /// The lesson that [`Lesson::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError> {
        match bytes.first() {
            Some(&VERSION) => Self::of_version_1(&bytes[1..]).ok_or(LessonError::Malformed),
            Some(&other) => Err(LessonError::Version(other)),
            None => Err(LessonError::Malformed),
        }
    }

    fn of_version_1(bytes: &[u8]) -> Option<Self> {
        let (number, bytes) = bytes.split_first_chunk()?;
        let ([instruction, is_kept], bytes) = bytes.split_first_chunk()?;
        let (time, bytes) = bytes.split_first_chunk()?;
        Some(Self {
            number: u64::from_be_bytes(*number),
            instruction: match instruction {
                b's' => LearnInstruction::Learn(Class::Spam),
                b'h' => LearnInstruction::Learn(Class::Ham),
                b'f' => LearnInstruction::Forget,
                _ => return None,
            },
            relearn: match is_kept {
                0 => Relearn::Change,
                1 => Relearn::Keep,
                _ => return None,
            },
            time: u32::from_be_bytes(*time),
            sample: BayesSample::from_bytes(bytes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::bayes::{Bayes, BayesLimits, BayesSettings, LessonPosition, MemoryStore, Token};

    proptest! {
        #[test]
        fn a_lesson_comes_back_from_its_bytes(
            number: u64,
            time: u32,
            instruction in prop_oneof![
                Just(LearnInstruction::Learn(Class::Spam)),
                Just(LearnInstruction::Learn(Class::Ham)),
                Just(LearnInstruction::Forget),
            ],
            is_kept: bool,
            tokens in proptest::collection::vec(any::<[u8; 5]>(), 0..20),
        ) {
            let lesson = Lesson {
                number,
                instruction,
                relearn: if is_kept { Relearn::Keep } else { Relearn::Change },
                time,
                sample: BayesSample {
                    tokens: tokens.into_iter().map(Token::from_bytes).collect(),
                    generated_id: b"id@sa_generated".to_vec(),
                    own_id: Some(b"own@example.org".to_vec()),
                    time: Some(1),
                },
            };
            prop_assert_eq!(Lesson::from_bytes(&lesson.to_bytes()), Ok(lesson));
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes: Vec<u8>) {
            let _ = Lesson::from_bytes(&bytes);
            bytes.insert(0, VERSION);
            let _ = Lesson::from_bytes(&bytes);
        }
    }

    /// Lessons about three messages.
    fn lessons() -> impl Strategy<Value = Vec<Lesson>> {
        let one =
            (0_u8..3, 0_u8..3, any::<bool>()).prop_map(|(message, instruction, is_kept)| Lesson {
                number: 0,
                instruction: match instruction {
                    0 => LearnInstruction::Learn(Class::Spam),
                    1 => LearnInstruction::Learn(Class::Ham),
                    _ => LearnInstruction::Forget,
                },
                relearn: if is_kept {
                    Relearn::Keep
                } else {
                    Relearn::Change
                },
                time: 1_000,
                sample: BayesSample {
                    tokens: [[0; 5], [message + 1; 5]].map(Token::from_bytes).into(),
                    generated_id: vec![b'a' + message],
                    own_id: None,
                    time: Some(900),
                },
            });
        proptest::collection::vec(one, 0..20)
    }

    fn content(bayes: &Bayes) -> Vec<String> {
        let mut backup = Vec::new();
        bayes.export(&mut backup).expect("written");
        let text = String::from_utf8(backup).expect("text");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    proptest! {
        #[test]
        fn all_nodes_learn_what_one_server_learns(lessons in lessons(), place: usize) {
            let open = |store| Bayes::open(store, BayesLimits::default()).expect("read");
            let at = |sequence: usize| LessonPosition { stream: 7, sequence: sequence as u64 };
            let place = place.checked_rem(lessons.len()).unwrap_or(0);
            let (first, rest) = lessons.split_at(place);
            let end = at(lessons.len());
            let one = open(Arc::new(MemoryStore::default()));
            for lesson in &lessons {
                let sample = &lesson.sample;
                match lesson.instruction {
                    LearnInstruction::Learn(class) => {
                        one.learn(sample, class, lesson.relearn, &BayesSettings::default());
                    }
                    LearnInstruction::Forget => {
                        one.forget(sample, &BayesSettings::default());
                    }
                }
            }
            // A node that is restarted continues after its position.
            let stored = Arc::new(MemoryStore::default());
            let restarted = open(stored.clone());
            restarted.apply(first, at(place)).expect("stored");
            let restarted = open(stored);
            prop_assert_eq!(restarted.position(), Some(at(place)));
            restarted.apply(rest, end).expect("stored");
            // A node that is new takes the data of another one.
            let other = open(Arc::new(MemoryStore::default()));
            other.apply(first, at(place)).expect("stored");
            let mut backup = Vec::new();
            let position = other.export(&mut backup).expect("written");
            let new = open(Arc::new(MemoryStore::default()));
            new.import_at(backup.as_slice(), position).expect("read");
            prop_assert_eq!(new.position(), Some(at(place)));
            new.apply(rest, end).expect("stored");
            prop_assert_eq!(content(&restarted), content(&one));
            prop_assert_eq!(content(&new), content(&one));
        }
    }

    #[test]
    fn a_later_version_is_recognised() {
        assert_eq!(Lesson::from_bytes(&[2, 9]), Err(LessonError::Version(2)));
        assert_eq!(Lesson::from_bytes(&[]), Err(LessonError::Malformed));
    }
}
