//! Rules for topics: which payloads, rates and retained messages a topic permits, and how much of
//! its history is kept.
//!
//! The broker looks the rule of a topic up when a publisher first uses the topic, together with its
//! route, so a publication on a topic without a rule costs nothing more.
//!
//! The first table whose filter matches a topic applies, as a whole: tables are not merged, so one
//! table shows all that applies to a topic. A table that an earlier one covers would never apply,
//! and is a mistake.

mod allowance;
mod mistake;
mod rule;
mod schema;
mod settings;

pub use allowance::MessageAllowance;
pub use mistake::{TopicMistake, mistakes};
pub use rule::{RuleViolation, TopicRule, TopicRules};
pub use schema::JsonSchema;
pub use settings::TopicSettings;
