//! The classifier: the learned tokens, and the probability of spam that they give a message.
//!
//! A scan reads the current table without a lock; the learner (`learning`) modifies this table or
//! replaces it by a larger one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};

use super::combine::{Totals, combine, keep_significant, token_probability};
use super::learner::LearnerState;
use super::record::LearnedRecord;
use super::sample::BayesSample;
use super::settings::BayesSettings;
use super::store::{NoStore, TokenStore, TokenStoreError};
use super::table::{TokenEntry, TokenTable};
use super::token::Token;

/// Limits on the memory of Bayes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BayesLimits {
    /// The most tokens in memory; beyond this, new tokens are not learned. A token takes 20 to 60
    /// bytes.
    pub tokens_max: usize,
    /// The most learned messages that are remembered, about 20 bytes each.
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

/// The result of Bayes for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BayesResult {
    /// The probability that the message is spam, from 0 to 1.
    pub probability: f64,
    /// Tokens of the message.
    pub tokens: usize,
    /// The number of these that were learned before.
    pub known: usize,
    /// Significant tokens that indicate spam.
    pub spammy: usize,
    /// Significant tokens that indicate ham.
    pub hammy: usize,
}

/// The amount of learned data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BayesStatistics {
    /// Learned messages by class.
    pub totals: Totals,
    /// Tokens.
    pub tokens: usize,
    /// Message ids that are remembered, so that no message is learned twice.
    pub messages: usize,
    /// Bytes of memory for tokens.
    pub memory: usize,
}

/// The learned data of Bayes, shared by all threads through an `Arc`.
pub struct Bayes {
    table: ArcSwap<TokenTable>,
    /// Spam messages in the upper half, ham in the lower.
    totals: AtomicU64,
    /// The lock of the learner.
    learner: Mutex<LearnerState>,
    pub(super) store: Arc<dyn TokenStore>,
    limits: BayesLimits,
}

impl Bayes {
    /// Loads the contents of `store`.
    pub fn open(store: Arc<dyn TokenStore>, limits: BayesLimits) -> Result<Self, TokenStoreError> {
        let bayes = Self::empty(store.clone(), limits);
        let mut learner = bayes.learner();
        store.load(&mut |record| bayes.take_record(&mut learner, record))?;
        drop(learner);
        Ok(bayes)
    }

    /// An empty classifier without a store.
    pub fn in_memory() -> Self {
        Self::empty(Arc::new(NoStore), BayesLimits::default())
    }

    fn empty(store: Arc<dyn TokenStore>, limits: BayesLimits) -> Self {
        Self {
            table: ArcSwap::from_pointee(TokenTable::with_room_for(0)),
            totals: AtomicU64::new(0),
            learner: Mutex::new(LearnerState::new(limits.messages_max)),
            store,
            limits,
        }
    }

    fn take_record(&self, learner: &mut LearnerState, record: LearnedRecord) {
        match record {
            LearnedRecord::Totals(totals) => self.set_totals(totals),
            LearnedRecord::Token(token, counts, time) => {
                let entry = TokenEntry {
                    token,
                    counts,
                    time,
                };
                self.set_token(entry, false);
            }
            LearnedRecord::Learned {
                key, class, time, ..
            } => {
                let dropped = learner.seen.insert(key, class, time);
                learner
                    .waiting
                    .extend(dropped.into_iter().map(LearnedRecord::Unlearned));
            }
            LearnedRecord::Expiry(expiry) => learner.expiry = expiry,
            LearnedRecord::Position(position) => learner.position = Some(position),
            LearnedRecord::Unlearned(_) | LearnedRecord::Cleared => {}
        }
    }

    /// Whether Bayes is enabled and has learned enough messages. From then on the score sets with
    /// Bayes apply.
    pub fn is_ready(&self, settings: &BayesSettings) -> bool {
        let totals = self.totals();
        settings.enabled
            && settings.rules_enabled
            && totals.spam >= settings.spam_min
            && totals.ham >= settings.ham_min
    }

    /// The probability of spam for a message; `None` if too little was learned, Bayes is disabled,
    /// or no token is significant.
    pub fn classify(&self, sample: &BayesSample, settings: &BayesSettings) -> Option<BayesResult> {
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
        Some(BayesResult {
            probability,
            tokens: sample.tokens.len(),
            known: known_count,
            spammy: probabilities.len() - hammy,
            hammy,
        })
    }

    /// Waits until everything passed to the store is durable.
    pub fn settle(&self) -> Result<(), TokenStoreError> {
        self.store.settle()
    }

    /// The amount of learned data.
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

    /// The number of tokens. Does not wait for training.
    pub fn token_count(&self) -> usize {
        self.table.load().len()
    }

    /// The number of learned messages.
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

    pub(super) fn table(&self) -> Arc<TokenTable> {
        self.table.load_full()
    }

    pub(super) fn known(&self, token: Token) -> Option<TokenEntry> {
        self.table.load().get(token)
    }

    pub(super) fn learner(&self) -> MutexGuard<'_, LearnerState> {
        self.learner.lock()
    }

    pub(super) fn replace_table(&self, table: TokenTable) {
        self.table.store(Arc::new(table));
    }

    /// Sets a token; the table grows where necessary and permitted.
    pub(super) fn set_token(&self, entry: TokenEntry, changed: bool) {
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

/// The current time, in seconds since 1970.
pub(super) fn now_seconds() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
        })
}
