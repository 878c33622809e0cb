//! Answers that are still valid.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::wire::{Question, QuestionOutcome, Resolved};

/// The number of answers that are kept; the first one to expire is removed.
const ANSWERS_MAX: usize = 10_000;
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
            QuestionOutcome::Records(_) => resolved.lifetime.min(LIFETIME_MAX),
        };
        let now = Instant::now();
        let mut kept = self.0.lock();
        if kept.len() >= ANSWERS_MAX {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() >= ANSWERS_MAX {
            let first = kept.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(question, _)| question.clone()) {
                kept.remove(&first);
            }
        }
        kept.insert(question.clone(), (now + lifetime, resolved.answer.clone()));
    }
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
        let records = QuestionOutcome::Records(vec![crate::RecordData::A([192, 0, 2, 1].into())]);
        let hour = Duration::from_hours(1);
        assert_eq!(keep("a", records.clone(), hour), Some(records.clone()));
        assert_eq!(keep("b", records, Duration::ZERO), None);
        assert_eq!(
            keep("c", QuestionOutcome::NoSuchName, Duration::ZERO),
            Some(QuestionOutcome::NoSuchName)
        );
        assert_eq!(
            keep("d", QuestionOutcome::Failed(ServerFailure::Server(2)), hour),
            None
        );
    }
}
