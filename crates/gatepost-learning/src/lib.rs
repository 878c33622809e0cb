//! Learning from earlier mails: the Bayes classifier ([`bayes`]) and the reputation of senders
//! ([`reputation`]), compatible with SpamAssassin.
//!
//! [`Learning`] contains both. A caller that knows the class of a mail has it learned:
//!
//! ```
//! use gatepost_learning::bayes::{Class, Learned};
//! use gatepost_learning::{Learning, LearningSettings};
//! use gatepost_mail::Mail;
//!
//! let learning = Learning::in_memory();
//! let settings = LearningSettings::default();
//! let mail = Mail::parse(b"From: shop@example.com\r\nSubject: cheap watches\r\n\r\nBuy now.\r\n");
//!
//! let learned = learning.learn(&mail, Class::Spam, &settings)?;
//! assert_eq!(learned, Learned::New);
//! // The same message again changes nothing.
//! let learned = learning.learn(&mail, Class::Spam, &settings)?;
//! assert_eq!(learned, Learned::Before);
//! # Ok::<(), gatepost_learning::LearnFailure>(())
//! ```
//!
//! During a scan a [`ScanLearning`] performs the steps that a rule engine needs: it computes the
//! probability of spam by Bayes, moves the score towards the sender's average, and learns the
//! message if its score is clear.
//!
//! In a cluster, all servers learn the same ([`lessons`]).
//!
//! Invariants: this crate depends on no rules, only on the points that rules gave; without a store
//! nothing is written to disk.

pub mod bayes;
pub mod lessons;
pub mod reputation;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_mail::Mail;

use crate::bayes::{
    Autolearn, Bayes, BayesResult, BayesSample, BayesSettings, Class, Learned, Lesson,
    LessonOutcome, PointTotals, Relearn,
};
use crate::lessons::LearningCluster;
use crate::reputation::{
    ReputationSettings, ReputationTable, SENDER_CHANGES_MAX, Sender, SenderChange, SenderLesson,
};

/// The learned data, shared by all rule sets that replace one another.
#[derive(Clone)]
pub struct Learning {
    /// Bayes.
    pub bayes: Arc<Bayes>,
    /// The senders' averages.
    pub reputation: Arc<ReputationTable>,
    /// The cluster, whose servers learn the same.
    pub cluster: Option<LearningCluster>,
}

impl Learning {
    /// Empty learned data without a store.
    pub fn in_memory() -> Self {
        Self {
            bayes: Arc::new(Bayes::in_memory()),
            reputation: Arc::new(ReputationTable::in_memory()),
            cluster: None,
        }
    }

    /// Learns a message that a person classified, in Bayes and TxRep.
    pub fn learn(
        &self,
        mail: &Mail<'_>,
        class: Class,
        settings: &LearningSettings,
    ) -> Result<Learned, LearnFailure> {
        let sample = BayesSample::of(mail, &settings.bayes);
        let learned = self.learn_sample(&sample, class, &settings.bayes)?;
        if settings.reputation.txrep.enabled && learned != Learned::Before {
            let sender = Sender::of(mail, &sample.generated_id);
            let txrep = &settings.reputation.txrep;
            self.count_senders(&self.reputation.txrep_learn(&sender, class, txrep));
        }
        Ok(learned)
    }

    /// Learns a sample of such a message in Bayes. In a cluster, this blocks until the cluster has
    /// the lesson.
    pub fn learn_sample(
        &self,
        sample: &BayesSample,
        class: Class,
        settings: &BayesSettings,
    ) -> Result<Learned, LearnFailure> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| settings.enabled) else {
            return Ok(self.bayes.learn(sample, class, Relearn::Change, settings));
        };
        let lesson = lesson(LearnInstruction::Learn(class), Relearn::Change, sample);
        Ok(match cluster.bayes.teach(lesson)? {
            LessonOutcome::Learned(learned) => learned,
            LessonOutcome::Forgotten(_) => Learned::New,
        })
    }

    /// Forgets a message that was learned; returns false if it was not.
    pub fn forget(
        &self,
        mail: &Mail<'_>,
        settings: &LearningSettings,
    ) -> Result<bool, LearnFailure> {
        let sample = BayesSample::of(mail, &settings.bayes);
        let was_learned = self.forget_sample(&sample, &settings.bayes)?;
        if settings.reputation.txrep.enabled {
            let sender = Sender::of(mail, &sample.generated_id);
            let txrep = &settings.reputation.txrep;
            self.count_senders(&self.reputation.txrep_forget(&sender, txrep));
        }
        Ok(was_learned)
    }

    /// Carries out changes of averages that a person gave. In a cluster, this blocks until the
    /// cluster has them.
    pub fn change_senders(&self, changes: &[SenderChange]) -> Result<(), LearnFailure> {
        let Some(cluster) = &self.cluster else {
            self.reputation.carry_out(changes, now_seconds());
            return Ok(());
        };
        for changes in changes.chunks(SENDER_CHANGES_MAX) {
            cluster.senders.teach(sender_lesson(changes))?;
        }
        Ok(())
    }

    /// Carries out changes of averages by messages. In a cluster, they are sent without waiting,
    /// and dropped if too many wait for it.
    pub fn count_senders(&self, changes: &[SenderChange]) {
        let Some(cluster) = &self.cluster else {
            return self.reputation.carry_out(changes, now_seconds());
        };
        for changes in changes.chunks(SENDER_CHANGES_MAX) {
            cluster.senders.suggest(sender_lesson(changes));
        }
    }

    /// Forgets a sample of a message in Bayes, as [`Learning::learn_sample`] learns it.
    pub fn forget_sample(
        &self,
        sample: &BayesSample,
        settings: &BayesSettings,
    ) -> Result<bool, LearnFailure> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| settings.enabled) else {
            return Ok(self.bayes.forget(sample, settings));
        };
        let lesson = lesson(LearnInstruction::Forget, Relearn::Change, sample);
        let outcome = cluster.bayes.teach(lesson)?;
        Ok(outcome != LessonOutcome::Forgotten(false))
    }

    /// Learns a message automatically: a class that it has is kept.
    fn learn_automatically(
        &self,
        sample: &BayesSample,
        class: Class,
        settings: &BayesSettings,
    ) -> Autolearn {
        let Some(cluster) = &self.cluster else {
            let learned = self.bayes.learn(sample, class, Relearn::Keep, settings);
            return match learned {
                Learned::New | Learned::Changed => Autolearn::Learned(class),
                Learned::Before | Learned::Off => Autolearn::Unavailable,
            };
        };
        if self.bayes.has_learned(sample) {
            return Autolearn::Unavailable;
        }
        let lesson = lesson(LearnInstruction::Learn(class), Relearn::Keep, sample);
        if cluster.bayes.suggest(lesson) {
            Autolearn::Learned(class)
        } else {
            Autolearn::Failed
        }
    }
}

/// A lesson of now.
fn lesson(instruction: LearnInstruction, relearn: Relearn, sample: &BayesSample) -> Lesson {
    Lesson {
        number: lesson_number(),
        instruction,
        relearn,
        time: now_seconds(),
        sample: sample.clone(),
    }
}

/// The same about senders.
fn sender_lesson(changes: &[SenderChange]) -> SenderLesson {
    SenderLesson {
        number: lesson_number(),
        time: now_seconds(),
        changes: changes.to_vec(),
    }
}

/// A number that no other lesson of the cluster has: keys of `RandomState` differ.
fn lesson_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    RandomState::new().hash_one(count)
}

fn now_seconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// A person's instruction about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnInstruction {
    /// Learn the message as this class.
    Learn(Class),
    /// Forget the message, as if it had never been learned.
    Forget,
}

/// The reason why a message was not learned.
#[derive(Debug, thiserror::Error)]
pub enum LearnFailure {
    /// Learning is disabled.
    #[error("nothing is learned here: Bayes is switched off")]
    Off,
    /// The message was learned, but could not be stored.
    #[error("what was learned cannot be kept: {0}")]
    NotKept(String),
    /// The cluster did not take the lesson.
    #[error("the cluster does not learn it: {0}")]
    NotShared(String),
}

impl Learning {
    /// Waits until all learned data is durable.
    pub fn settle(&self) -> Result<(), LearnFailure> {
        let not_kept = |error: &dyn std::error::Error| LearnFailure::NotKept(error.to_string());
        self.bayes.keep().map_err(|error| not_kept(&error))?;
        self.reputation.keep().map_err(|error| not_kept(&error))?;
        self.bayes.settle().map_err(|error| not_kept(&error))
    }
}

/// Directives of rule files about learning.
#[derive(Clone, Debug, Default)]
pub struct LearningSettings {
    /// The settings of Bayes.
    pub bayes: BayesSettings,
    /// The settings of AWL and TxRep.
    pub reputation: ReputationSettings,
}

/// The learning steps during the scan of one message.
pub struct ScanLearning<'a> {
    learning: &'a Learning,
    settings: &'a LearningSettings,
    sample: Option<BayesSample>,
    /// The result of Bayes for the message.
    pub judgement: Option<BayesResult>,
    /// Whether the score set with Bayes applies.
    pub with_bayes: bool,
}

impl<'a> ScanLearning<'a> {
    /// Runs Bayes, if it has learned enough.
    pub fn begin(learning: &'a Learning, settings: &'a LearningSettings, mail: &Mail<'_>) -> Self {
        let with_bayes = learning.bayes.is_ready(&settings.bayes);
        let sample = with_bayes.then(|| BayesSample::of(mail, &settings.bayes));
        let judgement = sample
            .as_ref()
            .and_then(|sample| learning.bayes.classify(sample, &settings.bayes));
        Self {
            learning,
            settings,
            sample,
            judgement,
            with_bayes,
        }
    }

    /// The adjustment of the score of a message whose rules gave `points`, from the sender's
    /// average.
    pub fn reputation(
        &mut self,
        mail: &Mail<'_>,
        reputation: Reputation,
        points: f64,
        points_of_txrep: f64,
    ) -> Option<f64> {
        let settings = &self.settings.reputation;
        if !settings.awl.enabled && !settings.txrep.enabled {
            return None;
        }
        let sender = Sender::of(mail, &self.sample(mail).generated_id);
        let table = &self.learning.reputation;
        let (adjustment, changes) = match reputation {
            Reputation::Awl => table.awl(&sender, points, &settings.awl),
            // SpamAssassin does not run TxRep beside AWL; Gatepost does not either.
            Reputation::Txrep if settings.awl.is_in_force() => return None,
            Reputation::Txrep => table.txrep(&sender, points_of_txrep, &settings.txrep),
        };
        self.learning.count_senders(&changes);
        adjustment
    }

    /// Learns the message if its score is clear.
    pub fn end(mut self, mail: &Mail<'_>, points: &PointTotals, is_spam: bool) -> Autolearn {
        let settings = &self.settings.bayes;
        if !settings.enabled || !settings.autolearn.enabled {
            return Autolearn::Disabled;
        }
        let probability = self.judgement.map(|judgement| judgement.probability);
        let Some(class) = settings.autolearn.decide(points, is_spam, probability) else {
            return Autolearn::No;
        };
        let learning = self.learning;
        learning.learn_automatically(self.sample(mail), class, settings)
    }

    fn sample(&mut self, mail: &Mail<'_>) -> &BayesSample {
        self.sample
            .get_or_insert_with(|| BayesSample::of(mail, &self.settings.bayes))
    }
}

/// The reputation system that a rule calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reputation {
    /// `check_from_in_auto_welcomelist`.
    Awl,
    /// `check_senders_reputation`.
    Txrep,
}

impl Reputation {
    /// The reputation system of an eval function.
    pub fn of_function(name: &str) -> Option<Self> {
        match name {
            "check_from_in_auto_welcomelist" | "check_from_in_auto_whitelist" => Some(Self::Awl),
            "check_senders_reputation" => Some(Self::Txrep),
            _ => None,
        }
    }
}
