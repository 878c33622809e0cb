//! Learns and forgets messages, and passes the changes to the store.
//!
//! The learner's lock permits one learner at a time. Scans do not wait for it, and may read some of
//! a message's tokens before the change and some after it.

use super::classifier::{Bayes, now_seconds};
use super::combine::{TokenCounts, Totals};
use super::learner::LearnerState;
use super::lesson::{Learned, Lesson, LessonOutcome, Relearn};
use super::message_key::MessageKey;
use super::record::{Class, LearnedRecord, LessonPosition};
use super::sample::BayesSample;
use super::settings::BayesSettings;
use super::store::TokenStoreError;
use super::table::TokenEntry;
use super::token::Token;
use crate::LearnInstruction;

/// The furthest that the time of receipt of a message may lie in the future; a later one is
/// ignored.
const FUTURE_MAX_SECONDS: u32 = 86_400;

impl Bayes {
    /// Learns a message. [`Bayes::keep`] stores it.
    pub fn learn(
        &self,
        sample: &BayesSample,
        class: Class,
        relearn: Relearn,
        settings: &BayesSettings,
    ) -> Learned {
        if !settings.enabled {
            return Learned::Off;
        }
        let mut learner = self.learner();
        self.learn_at(&mut learner, sample, class, relearn, now_seconds())
    }

    /// Carries out lessons of a cluster, in its order, and passes the changes to the store together
    /// with the position.
    pub fn apply(
        &self,
        lessons: &[Lesson],
        position: LessonPosition,
    ) -> Result<Vec<LessonOutcome>, TokenStoreError> {
        let mut learner = self.learner();
        let carry_out = |lesson: &Lesson| {
            let (sample, relearn) = (&lesson.sample, lesson.relearn);
            match lesson.instruction {
                LearnInstruction::Learn(class) => LessonOutcome::Learned(self.learn_at(
                    &mut learner,
                    sample,
                    class,
                    relearn,
                    lesson.time,
                )),
                LearnInstruction::Forget => {
                    LessonOutcome::Forgotten(self.forget_locked(&mut learner, sample))
                }
            }
        };
        let outcomes = lessons.iter().map(carry_out).collect();
        learner.pass_to(position);
        self.keep_locked(&mut learner)?;
        Ok(outcomes)
    }

    /// The position in the lessons of a cluster.
    pub fn position(&self) -> Option<LessonPosition> {
        self.learner().position
    }

    /// Whether a message was learned.
    pub fn has_learned(&self, sample: &BayesSample) -> bool {
        self.learner().find(sample).is_some()
    }

    fn learn_at(
        &self,
        learner: &mut LearnerState,
        sample: &BayesSample,
        class: Class,
        relearn: Relearn,
        now: u32,
    ) -> Learned {
        let before = learner.find(sample);
        match before {
            Some((_, known)) if known == class || relearn == Relearn::Keep => {
                return Learned::Before;
            }
            Some((key, known)) => self.unlearn(learner, sample, key, known),
            None => {}
        }
        let time = sample
            .time
            .filter(|time| *time <= now.saturating_add(FUTURE_MAX_SECONDS))
            .unwrap_or(now);
        let one = |is: Class| u32::from(class == is);
        self.change_totals(|totals| Totals {
            spam: totals.spam.saturating_add(one(Class::Spam)),
            ham: totals.ham.saturating_add(one(Class::Ham)),
        });
        for token in &sample.tokens {
            self.change_token(*token, time, |counts| TokenCounts {
                spam: counts.spam.saturating_add(one(Class::Spam)),
                ham: counts.ham.saturating_add(one(Class::Ham)),
            });
        }
        let key = MessageKey::of(&sample.generated_id);
        let dropped = learner.seen.insert(key, class, now);
        learner.waiting.push(LearnedRecord::Learned {
            key,
            class,
            time: now,
            id: sample.generated_id.clone(),
        });
        learner
            .waiting
            .extend(dropped.into_iter().map(LearnedRecord::Unlearned));
        if before.is_some() {
            Learned::Changed
        } else {
            Learned::New
        }
    }

    /// Forgets a message as if it had never been learned; returns false if it was not learned.
    pub fn forget(&self, sample: &BayesSample, settings: &BayesSettings) -> bool {
        if !settings.enabled {
            return false;
        }
        self.forget_locked(&mut self.learner(), sample)
    }

    fn forget_locked(&self, learner: &mut LearnerState, sample: &BayesSample) -> bool {
        let Some((key, class)) = learner.find(sample) else {
            return false;
        };
        self.unlearn(learner, sample, key, class);
        true
    }

    fn unlearn(
        &self,
        learner: &mut LearnerState,
        sample: &BayesSample,
        key: MessageKey,
        class: Class,
    ) {
        let one = |is: Class| u32::from(class == is);
        self.change_totals(|totals| Totals {
            spam: totals.spam.saturating_sub(one(Class::Spam)),
            ham: totals.ham.saturating_sub(one(Class::Ham)),
        });
        for token in &sample.tokens {
            self.change_token(*token, 0, |counts| TokenCounts {
                spam: counts.spam.saturating_sub(one(Class::Spam)),
                ham: counts.ham.saturating_sub(one(Class::Ham)),
            });
        }
        learner.seen.remove(key);
        learner.waiting.push(LearnedRecord::Unlearned(key));
    }

    /// Passes the changes since the last call to the store. Changes that could not be written are
    /// written again by the next call.
    pub fn keep(&self) -> Result<(), TokenStoreError> {
        let mut learner = self.learner();
        self.keep_locked(&mut learner)
    }

    pub(super) fn keep_locked(&self, learner: &mut LearnerState) -> Result<(), TokenStoreError> {
        let table = self.table();
        let changed = table.take_changed();
        if changed.is_empty() && learner.waiting.is_empty() {
            return Ok(());
        }
        let mut records = learner.waiting.clone();
        records.push(LearnedRecord::Totals(self.totals()));
        records.extend(
            changed
                .iter()
                .map(|entry| LearnedRecord::Token(entry.token, entry.counts, entry.time)),
        );
        let written = self.store.write(records);
        if written.is_ok() {
            learner.waiting.clear();
        } else {
            for entry in changed {
                table.mark_changed(entry.token);
            }
        }
        written
    }

    fn change_totals(&self, change: impl Fn(Totals) -> Totals) {
        self.set_totals(change(self.totals()));
    }

    fn change_token(&self, token: Token, time: u32, change: impl Fn(TokenCounts) -> TokenCounts) {
        let before = self.known(token);
        let counts = change(before.map(|entry| entry.counts).unwrap_or_default());
        // A token that was used later keeps that time.
        let time = before.map_or(time, |entry| entry.time.max(time));
        self.set_token(
            TokenEntry {
                token,
                counts,
                time,
            },
            true,
        );
    }
}
