//! Scenarios from several hosts: agents generate and watch, one conductor leads.
//!
//! `gatepost bench agent --join mqtt://CONTROL` waits on each client or server host. The conductor
//! (`gatepost bench fanout TARGET --join mqtt://CONTROL …`) gives each its share of the
//! connections, or the server to watch, compares their clocks with its own, tells all when to
//! begin, and puts their histograms and counts together. They speak through any MQTT broker; best
//! one that is not under test.
//!
//! FANOUT's publishers and subscribers depend on each other, so it has a schedule and shares of its
//! own (`fanout`, `session`, `gather`). Of every other scenario an agent runs the whole, with its
//! share of the clients, and meets the others at gates between its phases (`spread`, `party`,
//! `merge`).
//!
//! Invariants: a one-way latency is shown only where the clocks' offset is known better than the
//! latency itself. An agent that dies is named, its share is reported missing, and nothing is ever
//! rescaled to hide it.

mod clocks;
mod conductor;
mod fanout;
mod gather;
mod link;
mod merge;
mod message;
mod part;
mod party;
mod session;
mod shares;
mod spread;
mod worker;

pub(crate) use fanout::conduct;
pub(crate) use message::{Orders, Seconds};
pub(crate) use part::Part;
pub use shares::{HostArguments, Role, Share};
pub(crate) use spread::Spread;
pub use worker::{AgentArguments, run};
