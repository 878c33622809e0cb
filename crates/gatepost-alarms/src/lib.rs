//! Alarms: topics that fall silent, and values beyond their limits.
//!
//! An alarm reads the topics under its filter like any other reader within the process, and keeps a
//! state for each topic (`watch.rs`, which knows neither broker nor clock). Changes are published
//! (`notice.rs`) and stored (`stored.rs`), so that a restart neither repeats nor forgets an alarm.
//! All alarms run on one thread (`alarms.rs`), each as a task of its own (`running.rs`).
//!
//! Invariants:
//! - For a publisher, an alarm costs no more than another reader: values are parsed from payloads
//!   on the alarms' thread.
//! - The state is stored after its notice is published: a crash in between repeats the notice.
//! - The topics of one alarm are bounded in number (`topics_max`).
//! - No alarm watches the notices of alarms, so alarms cannot raise each other endlessly.

mod alarms;
mod limit;
mod mistake;
mod notice;
mod payload_field;
mod running;
mod settings;
mod status;
mod stored;
mod topic_state;
mod watch;

pub use alarms::{Alarms, UnknownAlarm};
pub use mistake::{AlarmMistake, mistakes};
pub use settings::{AlarmPayload, AlarmSettings};
pub use status::{AlarmStatus, RaisedTopic};
