//! The bench: runs the five scenarios of the older systems that Gatepost takes the place of,
//! against Gatepost or any other server of the same kind, and says which is better and how
//! surely.
//!
//! How it is arranged: a [`scenario::Scenario`] measures one [`target::Target`] once and gives an
//! [`outcome::Outcome`]; [`series`] runs it against all targets in turn, starting the
//! [`peer`]s that it is asked to; [`report`] shows and keeps the result. The generators are built
//! on [`load`], an epoll loop of its own, because a generator must cost far less than the server.
//!
//! Invariants: nothing here knows any part of Gatepost but the public protocols, so every server
//! is measured alike; a latency counts from the moment at which the message *should* have been
//! sent; what was lost, doubled or reordered is counted from numbers inside the payloads.

pub mod agent;
pub mod arguments;
pub mod clock;
pub mod compare;
pub mod error;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod outcome;
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
