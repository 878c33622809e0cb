//! What was learned, and what it says of a message.
//!
//! Whoever judges reads the table that is there at that moment, and waits for nobody; the learner
//! (`learning`) changes it, or puts a larger one in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};

use super::combine::{Totals, combine, keep_significant, token_probability};
use super::learner::Learner;
use super::record::Record;
use super::sample::Sample;
use super::settings::BayesSettings;
use super::store::{NoStore, TokenStore, TokenStoreError};
use super::table::{Entry, Table};
use super::token::Token;

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
    learner: Mutex<Learner>,
    pub(super) store: Arc<dyn TokenStore>,
    limits: BayesLimits,
}

impl Bayes {
    /// Loads what `store` keeps.
    pub fn open(store: Arc<dyn TokenStore>, limits: BayesLimits) -> Result<Self, TokenStoreError> {
        let bayes = Self::empty(store.clone(), limits);
        let mut learner = bayes.learner();
        store.load(&mut |record| bayes.take_record(&mut learner, record))?;
        drop(learner);
        Ok(bayes)
    }

    /// One that has learned nothing and keeps what it learns only in memory.
    pub fn in_memory() -> Self {
        Self::empty(Arc::new(NoStore), BayesLimits::default())
    }

    fn empty(store: Arc<dyn TokenStore>, limits: BayesLimits) -> Self {
        Self {
            table: ArcSwap::from_pointee(Table::with_room_for(0)),
            totals: AtomicU64::new(0),
            learner: Mutex::new(Learner::new(limits.messages_max)),
            store,
            limits,
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

    /// Waits until all that was handed to the store is safe.
    pub fn settle(&self) -> Result<(), TokenStoreError> {
        self.store.settle()
    }

    /// How much was learned.
    pub fn statistics(&self) -> BayesStatistics {
        let messages = self.learner().seen.len();
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

    pub(super) fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    pub(super) fn known(&self, token: Token) -> Option<Entry> {
        self.table.load().get(token)
    }

    pub(super) fn learner(&self) -> MutexGuard<'_, Learner> {
        self.learner.lock()
    }

    pub(super) fn replace_table(&self, table: Table) {
        self.table.store(Arc::new(table));
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

/// The present, in seconds since 1970.
pub(super) fn now_seconds() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
        })
}
