//! Bayes: what the words of a message say, from what was learned.
//!
//! Compatible with SpamAssassin: the same tokens (a database of either serves the other), the same
//! probability, the same bookkeeping of what was learned. The way of a message:
//!
//! - `sample` takes from the views of a [`Mail`](gatepost_mail::Mail) what is needed: its tokens
//!   (`words`, `fields`, `token`), its ids, its time.
//! - [`Bayes`] judges a sample (`classifier`, `combine`), learns it and forgets it (`learning`). Its
//!   tokens are in memory (`table`), read by any number of threads without a lock while one learns.
//! - What was learned is handed, fact by fact ([`Record`]), to a [`TokenStore`].
//! - `expiry` forgets tokens that were of no use for long; `backup` reads and writes the text
//!   format of `sa-learn --backup`; `autolearn` tells which judged messages are learned by
//!   themselves.
//!
//! Invariants: a message is learned once, as one class, however often it is given; judging never
//! waits for learning or for the disk; memory is bounded by [`BayesLimits`].

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

pub use autolearn::{Autolearn, Points, PointsOf, RuleFlags, RulePlace};
pub use backup::{BackupError, ImportSummary};
pub use classifier::{Bayes, BayesLimits, BayesStatistics, Judgement};
pub use combine::{Counts, Totals};
pub use fields::Field;
pub use interval::Interval;
pub use learning::{Learned, Relearn};
pub use message_key::MessageKey;
pub use record::{Class, ExpiryRecord, Record, Row};
pub use sample::{Sample, Sources};
pub use settings::{AutolearnSettings, BayesSettings, TokenSources};
pub use store::{MemoryStore, NoStore, TokenStore, TokenStoreError};
pub use token::Token;
