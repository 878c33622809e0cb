//! Learning and forgetting, and handing to the store what changed by it.
//!
//! One learns at a time, under the learner's lock; whoever judges meanwhile waits for nobody, and
//! may see some of a message's tokens before and some after.

use super::classifier::{Bayes, now_seconds};
use super::combine::{Counts, Totals};
use super::learner::Learner;
use super::message_key::MessageKey;
use super::record::{Class, Record};
use super::sample::Sample;
use super::settings::BayesSettings;
use super::store::TokenStoreError;
use super::table::Entry;
use super::token::Token;

/// A message that says it was received later than so many seconds from now lies.
const FUTURE_MAX_SECONDS: u32 = 86_400;

/// What became of a message that was to be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It was learned.
    New,
    /// It had been learned as the opposite; that was forgotten, and it was learned anew.
    Changed,
    /// It had been learned before; nothing changed.
    Before,
    /// Bayes is switched off.
    Off,
}

/// What to do with a message that was learned as the opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relearn {
    /// A person says so: forget what was learned, and learn anew.
    Change,
    /// The gateway thinks so itself: leave what was learned.
    Keep,
}

impl Bayes {
    /// Learns a message. It is kept with the next [`Bayes::keep`].
    pub fn learn(
        &self,
        sample: &Sample,
        class: Class,
        relearn: Relearn,
        settings: &BayesSettings,
    ) -> Learned {
        if !settings.enabled {
            return Learned::Off;
        }
        let mut learner = self.learner();
        let before = learner.find(sample);
        match before {
            Some((_, known)) if known == class || relearn == Relearn::Keep => {
                return Learned::Before;
            }
            Some((key, known)) => self.unlearn(&mut learner, sample, key, known),
            None => {}
        }
        let now = now_seconds();
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
            self.change_token(*token, time, |counts| Counts {
                spam: counts.spam.saturating_add(one(Class::Spam)),
                ham: counts.ham.saturating_add(one(Class::Ham)),
            });
        }
        let key = MessageKey::of(&sample.generated_id);
        let dropped = learner.seen.insert(key, class, now);
        learner.waiting.push(Record::Learned {
            key,
            class,
            time: now,
            id: sample.generated_id.clone(),
        });
        learner
            .waiting
            .extend(dropped.into_iter().map(Record::Unlearned));
        if before.is_some() {
            Learned::Changed
        } else {
            Learned::New
        }
    }

    /// Forgets a message as if it had never been learned; false if it was not learned.
    pub fn forget(&self, sample: &Sample, settings: &BayesSettings) -> bool {
        if !settings.enabled {
            return false;
        }
        let mut learner = self.learner();
        let Some((key, class)) = learner.find(sample) else {
            return false;
        };
        self.unlearn(&mut learner, sample, key, class);
        true
    }

    fn unlearn(&self, learner: &mut Learner, sample: &Sample, key: MessageKey, class: Class) {
        let one = |is: Class| u32::from(class == is);
        self.change_totals(|totals| Totals {
            spam: totals.spam.saturating_sub(one(Class::Spam)),
            ham: totals.ham.saturating_sub(one(Class::Ham)),
        });
        for token in &sample.tokens {
            self.change_token(*token, 0, |counts| Counts {
                spam: counts.spam.saturating_sub(one(Class::Spam)),
                ham: counts.ham.saturating_sub(one(Class::Ham)),
            });
        }
        learner.seen.remove(key);
        learner.waiting.push(Record::Unlearned(key));
    }

    /// Hands what was learned since the last time to the store. What fails is tried again with the
    /// next call.
    pub fn keep(&self) -> Result<(), TokenStoreError> {
        let mut learner = self.learner();
        self.keep_locked(&mut learner)
    }

    pub(super) fn keep_locked(&self, learner: &mut Learner) -> Result<(), TokenStoreError> {
        let table = self.table();
        let changed = table.take_changed();
        if changed.is_empty() && learner.waiting.is_empty() {
            return Ok(());
        }
        let mut records = learner.waiting.clone();
        records.push(Record::Totals(self.totals()));
        records.extend(
            changed
                .iter()
                .map(|entry| Record::Token(entry.token, entry.counts, entry.time)),
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

    fn change_token(&self, token: Token, time: u32, change: impl Fn(Counts) -> Counts) {
        let before = self.known(token);
        let counts = change(before.map(|entry| entry.counts).unwrap_or_default());
        // A token that was of use later keeps that time.
        let time = before.map_or(time, |entry| entry.time.max(time));
        self.set_token(
            Entry {
                token,
                counts,
                time,
            },
            true,
        );
    }
}
