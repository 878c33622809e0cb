//! FANOUT from several hosts: agents generate and watch, one conductor leads.
//!
//! `gatepost bench agent --join mqtt://CONTROL` waits on each client or server host. The conductor
//! (`gatepost bench fanout TARGET --join mqtt://CONTROL …`) gives each its share of publishers and
//! subscribers, or the server to watch, compares their clocks with its own, tells all when to
//! begin, and puts their histograms and counts together. They speak through any MQTT broker; best
//! one that is not under test.
//!
//! Invariants: a one-way latency is shown only where the clocks' offset is known better than the
//! latency itself. An agent that dies is named, its share is reported missing, and nothing is ever
//! rescaled to hide it.

mod clocks;
mod conductor;
mod gather;
mod link;
mod message;
mod session;
mod shares;
mod worker;

pub(crate) use conductor::conduct;
pub(crate) use message::{Orders, Seconds};
pub use shares::{HostArguments, Role, Share};
pub use worker::{AgentArguments, run};
