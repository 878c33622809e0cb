//! Answers that are still valid.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::wire::{Question, QuestionOutcome, RecordData, Resolved};

/// The number of answers that are kept.
const ANSWERS_MAX: usize = 10_000;
/// The most bytes of an answer that is kept: by TCP, strangers could fill the memory with answers
/// about names of their own.
const ANSWER_BYTES_MAX: usize = 4_096;
/// The share of the answers that is removed when there are too many: one in this number, those that
/// expire first. So the cost of the search is spread over many new answers.
const REMOVED_SHARE: usize = 10;
/// The longest time that an answer is kept.
const LIFETIME_MAX: Duration = Duration::from_hours(1);
/// The time that a negative answer is kept (RFC 2308, section 5 permits more).
const LIFETIME_OF_NOTHING: Duration = Duration::from_mins(1);

/// Answers by question, each kept for as long as its records permit. Failures are not kept.
#[derive(Default)]
pub struct Cache(Mutex<HashMap<Question, (Instant, QuestionOutcome)>>);

impl Cache {
    /// An answer that is still valid.
    pub fn get(&self, question: &Question) -> Option<QuestionOutcome> {
        let kept = self.0.lock();
        let (until, answer) = kept.get(question)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    /// Keeps an answer for as long as it is valid.
    pub fn keep(&self, question: &Question, resolved: &Resolved) {
        let lifetime = match &resolved.answer {
            QuestionOutcome::Failed(_) => return,
            QuestionOutcome::NoSuchName => LIFETIME_OF_NOTHING,
            QuestionOutcome::Records(records) if records.is_empty() => LIFETIME_OF_NOTHING,
            QuestionOutcome::Records(records) if bytes_of(records) > ANSWER_BYTES_MAX => return,
            QuestionOutcome::Records(_) => resolved.lifetime.min(LIFETIME_MAX),
        };
        let now = Instant::now();
        let mut kept = self.0.lock();
        if kept.len() >= ANSWERS_MAX {
            make_room(&mut kept, now);
        }
        kept.insert(question.clone(), (now + lifetime, resolved.answer.clone()));
    }
}

fn bytes_of(records: &[RecordData]) -> usize {
    let texts = records.iter().map(|record| match record {
        RecordData::A(_) | RecordData::Aaaa(_) => 0,
        RecordData::Name(name) | RecordData::Exchanger { name, .. } => name.len(),
        RecordData::Text(text) => text.len(),
        RecordData::Tlsa(record) => record.data.len(),
    });
    texts.sum::<usize>() + size_of_val(records)
}

/// Removes the answers that have expired or expire first.
fn make_room(kept: &mut HashMap<Question, (Instant, QuestionOutcome)>, now: Instant) {
    let mut ends: Vec<Instant> = kept.values().map(|(until, _)| *until).collect();
    let (_, end, _) = ends.select_nth_unstable(kept.len() / REMOVED_SHARE);
    let end = now.max(*end);
    kept.retain(|_, (until, _)| *until > end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{RecordType, ServerFailure};

    #[test]
    fn answers_are_kept_while_they_are_valid() {
        let cache = Cache::default();
        let keep = |name: &str, answer: QuestionOutcome, lifetime| {
            let question = Question::new(name, RecordType::A);
            let resolved = Resolved {
                answer,
                lifetime,
                is_authentic: false,
            };
            cache.keep(&question, &resolved);
            cache.get(&question)
        };
        let records = QuestionOutcome::Records(vec![RecordData::A([192, 0, 2, 1].into())]);
        let hour = Duration::from_hours(1);
        assert_eq!(keep("a", records.clone(), hour), Some(records.clone()));
        assert_eq!(keep("b", records, Duration::ZERO), None);
        let text = |bytes| QuestionOutcome::Records(vec![RecordData::Text(vec![b'x'; bytes])]);
        assert_eq!(keep("e", text(4_000), hour), Some(text(4_000)));
        assert_eq!(keep("f", text(60_000), hour), None);
        assert_eq!(
            keep("c", QuestionOutcome::NoSuchName, Duration::ZERO),
            Some(QuestionOutcome::NoSuchName)
        );
        assert_eq!(
            keep("d", QuestionOutcome::Failed(ServerFailure::Server(2)), hour),
            None
        );
    }

    #[test]
    fn answers_that_expire_first_make_room_for_many() {
        let cache = Cache::default();
        let question = |number: usize| Question::new(&number.to_string(), RecordType::A);
        let records = QuestionOutcome::Records(vec![RecordData::A([192, 0, 2, 1].into())]);
        let keep = |number: usize| {
            let resolved = Resolved {
                answer: records.clone(),
                lifetime: Duration::from_secs(60 + number as u64 / 10),
                is_authentic: false,
            };
            cache.keep(&question(number), &resolved);
            cache.0.lock().len()
        };
        for number in 0..ANSWERS_MAX {
            assert_eq!(keep(number), number + 1);
        }
        // The next one removes a tenth, and those after it find room.
        let left = keep(ANSWERS_MAX);
        assert!((8_900..9_010).contains(&left), "{left}");
        assert_eq!(keep(ANSWERS_MAX + 1), left + 1);
        assert_eq!(cache.get(&question(0)), None);
        assert!(cache.get(&question(ANSWERS_MAX - 1)).is_some());
        for number in ANSWERS_MAX + 2..3 * ANSWERS_MAX {
            assert!(keep(number) <= ANSWERS_MAX);
        }
    }
}
