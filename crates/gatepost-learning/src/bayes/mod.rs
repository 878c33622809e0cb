//! Bayes: the probability that a message is spam, from the words of learned messages.
//!
//! Compatible with SpamAssassin: the tokens, the probability and the record of learned messages are
//! the same, so either program can use the database of the other. The steps for a message:
//!
//! - `sample` extracts the input from the views of a [`Mail`](gatepost_mail::Mail): its tokens
//!   (`words`, `fields`, `token`), its ids and its time.
//! - [`Bayes`] classifies a sample (`classifier`, `combine`), learns it and forgets it
//!   (`learning`). Its tokens are in memory (`table`); any number of threads read them without a
//!   lock while one thread learns.
//! - Each change is passed as a [`LearnedRecord`] to a [`TokenStore`].
//! - `expiry` removes tokens that were not used for a long time; `backup` reads and writes the text
//!   format of `sa-learn --backup`; `autolearn` decides which scanned messages are learned
//!   automatically.
//!
//! Invariants: a message is learned once, as one class, however often it is presented;
//! classification never waits for learning or for the disk; memory is bounded by [`BayesLimits`].

mod autolearn;
mod backup;
mod chew;
mod classifier;
mod combine;
mod expiry;
mod fields;
mod interval;
mod learner;
mod learning;
mod lesson;
mod message_key;
mod received_time;
mod record;
mod sample;
mod seen;
mod settings;
mod store;
mod table;
mod token;
mod words;

pub use autolearn::{Autolearn, PointTotals, RuleFlags, RulePlace, RulePoints};
pub use backup::{BayesBackupError, ImportSummary};
pub use classifier::{Bayes, BayesLimits, BayesResult, BayesStatistics};
pub use combine::{TokenCounts, Totals};
pub use fields::BayesField;
pub use interval::Interval;
pub use lesson::{Learned, Lesson, LessonError, LessonOutcome, Relearn};
pub use message_key::MessageKey;
pub use record::{Class, ExpiryRecord, LearnedRecord, LessonPosition, RecordChange};
pub use sample::{BayesSample, Sources};
pub use settings::{AutolearnSettings, BayesSettings, TokenSources};
pub use store::{MemoryStore, NoStore, TokenStore, TokenStoreError};
pub use token::Token;
