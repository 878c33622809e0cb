//! Judging, learning and forgetting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};

use super::combine::{Counts, Totals, combine, keep_significant, token_probability};
use super::record::{Class, ExpiryRecord, Record};
use super::sample::Sample;
use super::seen::{MessageKey, Seen};
use super::settings::BayesSettings;
use super::store::{NoStore, TokenStore, TokenStoreError};
use super::table::{Entry, Table};
use super::token::Token;

/// A message that says it was received later than so many seconds from now lies.
const FUTURE_MAX_SECONDS: u32 = 86_400;

/// What Bayes may take of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BayesLimits {
    /// At most so many tokens are held; beyond, new ones are not learned. A token takes 20 to 60
    /// bytes.
    pub tokens_max: usize,
    /// At most so many learned messages are remembered, about 20 bytes each.
    pub messages_max: usize,
}

impl Default for BayesLimits {
    fn default() -> Self {
        Self {
            tokens_max: 2_000_000,
            messages_max: 1_000_000,
        }
    }
}

/// What Bayes says of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// How probable it is that the message is spam, from 0 to 1.
    pub probability: f64,
    /// Tokens of the message.
    pub tokens: usize,
    /// Of those, how many were learned before.
    pub known: usize,
    /// Of the tokens that decided, how many speak for spam.
    pub spammy: usize,
    /// Of the tokens that decided, how many speak for ham.
    pub hammy: usize,
}

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

/// How much was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BayesStatistics {
    /// Messages.
    pub totals: Totals,
    /// Tokens.
    pub tokens: usize,
    /// Messages remembered, so that they are not learned twice.
    pub messages: usize,
    /// Bytes of memory that tokens take.
    pub memory: usize,
}

/// What was learned, shared by all threads through an `Arc`.
pub struct Bayes {
    table: ArcSwap<Table>,
    /// Spam messages in the upper half, ham in the lower.
    totals: AtomicU64,
    /// Who holds this is the one who learns.
    pub(super) learner: Mutex<Learner>,
    pub(super) store: Arc<dyn TokenStore>,
    limits: BayesLimits,
}

/// What only the learner needs.
pub(super) struct Learner {
    pub(super) seen: Seen,
    pub(super) expiry: ExpiryRecord,
    /// Facts besides tokens that the store has not got yet.
    pub(super) waiting: Vec<Record>,
}

impl Bayes {
    /// Loads what `store` keeps.
    pub fn open(store: Arc<dyn TokenStore>, limits: BayesLimits) -> Result<Self, TokenStoreError> {
        let bayes = Self {
            table: ArcSwap::from_pointee(Table::with_room_for(0)),
            totals: AtomicU64::new(0),
            learner: Mutex::new(Learner {
                seen: Seen::new(limits.messages_max),
                expiry: ExpiryRecord::default(),
                waiting: Vec::new(),
            }),
            store: store.clone(),
            limits,
        };
        let mut learner = bayes.learner.lock();
        store.load(&mut |record| bayes.take_record(&mut learner, record))?;
        drop(learner);
        Ok(bayes)
    }

    /// One that has learned nothing and keeps what it learns only in memory.
    pub fn in_memory() -> Self {
        Self {
            table: ArcSwap::from_pointee(Table::with_room_for(0)),
            totals: AtomicU64::new(0),
            learner: Mutex::new(Learner {
                seen: Seen::new(BayesLimits::default().messages_max),
                expiry: ExpiryRecord::default(),
                waiting: Vec::new(),
            }),
            store: Arc::new(NoStore),
            limits: BayesLimits::default(),
        }
    }

    fn take_record(&self, learner: &mut Learner, record: Record) {
        match record {
            Record::Totals(totals) => self.set_totals(totals),
            Record::Token(token, counts, time) => {
                let entry = Entry {
                    token,
                    counts,
                    time,
                };
                self.set_token(entry, false);
            }
            Record::Learned {
                key, class, time, ..
            } => {
                let dropped = learner.seen.insert(key, class, time);
                learner
                    .waiting
                    .extend(dropped.into_iter().map(Record::Unlearned));
            }
            Record::Expiry(expiry) => learner.expiry = expiry,
            Record::Unlearned(_) | Record::Cleared => {}
        }
    }

    /// Whether enough was learned to judge, and judging is switched on. It is then that the score
    /// sets with Bayes apply.
    pub fn is_ready(&self, settings: &BayesSettings) -> bool {
        let totals = self.totals();
        settings.enabled
            && settings.rules_enabled
            && totals.spam >= settings.spam_min
            && totals.ham >= settings.ham_min
    }

    /// What Bayes says of a message; `None` if it cannot tell: too little was learned, it is
    /// switched off, or no token says anything.
    pub fn judge(&self, sample: &Sample, settings: &BayesSettings) -> Option<Judgement> {
        if !self.is_ready(settings) {
            return None;
        }
        let totals = self.totals();
        let table = self.table.load();
        let mut known: Vec<(f64, Token)> = sample
            .tokens
            .iter()
            .filter_map(|token| {
                let counts = table.get(*token)?.counts;
                let probability = token_probability(counts, totals, settings.use_hapaxes)?;
                Some((probability, *token))
            })
            .collect();
        let known_count = known.len();
        keep_significant(&mut known);
        let probabilities: Vec<f64> = known.iter().map(|(probability, _)| *probability).collect();
        let probability = combine(&probabilities, totals)?;
        let now = now_seconds();
        let time = sample.time.unwrap_or(now).min(now);
        for (_, token) in &known {
            table.touch(*token, time);
        }
        let hammy = probabilities.iter().filter(|value| **value < 0.5).count();
        Some(Judgement {
            probability,
            tokens: sample.tokens.len(),
            known: known_count,
            spammy: probabilities.len() - hammy,
            hammy,
        })
    }

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
        let mut learner = self.learner.lock();
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
        let mut learner = self.learner.lock();
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
        let mut learner = self.learner.lock();
        self.keep_locked(&mut learner)
    }

    pub(super) fn keep_locked(&self, learner: &mut Learner) -> Result<(), TokenStoreError> {
        let table = self.table.load();
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

    /// Waits until all that was handed to the store is safe.
    pub fn settle(&self) -> Result<(), TokenStoreError> {
        self.store.settle()
    }

    /// How much was learned.
    pub fn statistics(&self) -> BayesStatistics {
        let messages = self.learner.lock().seen.len();
        let table = self.table.load();
        BayesStatistics {
            totals: self.totals(),
            tokens: table.len(),
            messages,
            memory: table.memory(),
        }
    }

    /// How many messages were learned.
    pub fn totals(&self) -> Totals {
        let packed = self.totals.load(Ordering::Acquire);
        Totals {
            spam: (packed >> 32) as u32,
            ham: packed as u32,
        }
    }

    pub(super) fn set_totals(&self, totals: Totals) {
        let packed = u64::from(totals.spam) << 32 | u64::from(totals.ham);
        self.totals.store(packed, Ordering::Release);
    }

    fn change_totals(&self, change: impl Fn(Totals) -> Totals) {
        self.set_totals(change(self.totals()));
    }

    pub(super) fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    pub(super) fn replace_table(&self, table: Table) {
        self.table.store(Arc::new(table));
    }

    pub(super) fn learner(&self) -> MutexGuard<'_, Learner> {
        self.learner.lock()
    }

    fn change_token(&self, token: Token, time: u32, change: impl Fn(Counts) -> Counts) {
        let before = self.table.load().get(token);
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

    /// Sets a token, making room where needed and allowed.
    pub(super) fn set_token(&self, entry: Entry, changed: bool) {
        let table = self.table.load();
        if table.is_full() && table.get(entry.token).is_none() {
            if table.len() >= self.limits.tokens_max {
                return;
            }
            let room = (table.len() * 2).min(self.limits.tokens_max);
            let larger = table.rebuilt(room);
            larger.set(entry, changed);
            self.replace_table(larger);
        } else {
            table.set(entry, changed);
        }
    }
}

impl Learner {
    /// Under which key and as what a message was learned.
    fn find(&self, sample: &Sample) -> Option<(MessageKey, Class)> {
        let own = sample.own_id.as_deref();
        std::iter::once(sample.generated_id.as_slice())
            .chain(own)
            .map(MessageKey::of)
            .find_map(|key| Some((key, self.seen.get(key)?)))
    }
}

/// The present, in seconds since 1970.
pub(super) fn now_seconds() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
        })
}
