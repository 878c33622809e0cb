//! Benchmarks: the scenarios of the older systems that Gatepost replaces, run against Gatepost or
//! any other server of the same kind, with statistics that show which is better and with what
//! certainty.
//!
//! A [`scenario::Scenario`] measures one [`target::RunningTarget`] once and returns an
//! [`outcome::RunOutcome`]. [`series`] runs it against all targets in turn and starts the requested
//! [`peer`]s; [`report`] prints and stores the result. The load generators use [`load`], an epoll
//! loop of this crate, because a generator must cost far less than the server.
//!
//! Invariants: this crate uses only Gatepost's public protocols, so every server is measured in the
//! same way. A latency starts when the message *should* have been sent. Loss, duplicates and
//! reordering are counted from numbers inside the payloads.

pub mod agent;
pub mod arguments;
mod bounds;
pub mod clock;
pub mod compare;
pub mod error;
pub mod hosts;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod outcome;
mod password_file;
pub mod peer;
pub mod process;
pub mod progress;
pub mod pubsub;
pub mod record;
pub mod report;
mod run;
pub mod scenario;
pub mod series;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod timeline;

pub use arguments::BenchArguments;
pub use run::run;
