//! The backbone: live publications and retained messages of several servers, over NATS.
//!
//! The only crate that knows NATS. The broker calls it by [`gatepost_broker::OtherNodes`], and it
//! publishes the messages of others by
//! [`Broker::node_publisher`](gatepost_broker::Broker::node_publisher).
//!
//! - Live: publications of this node go to a core subject (`sending.rs`); each node subscribes to
//!   the subjects of the filters that have subscribers there (`announcing.rs`), and delivers the
//!   received publications as if they had been published there (`receiving.rs`).
//! - Retained messages are also sent to a stream that keeps one message for each topic
//!   (`retained_stream.rs`, `retained.rs`).
//! - A key in a bucket gives each server the sole use of its number (`membership.rs`).
//!
//! Invariants:
//! - Between nodes a publication arrives at most once, whatever its quality of service; an
//!   acknowledgement to a publisher promises nothing about other nodes.
//! - A publication from another node is forwarded to no node.
//! - Nothing here delays a publisher. Publications that cannot be sent are dropped and counted,
//!   except retained messages, which are sent later.

mod announcing;
mod backbone;
mod check;
mod connection;
mod duplicates;
mod encoding;
mod error;
mod interest;
mod membership;
mod outgoing;
mod receiving;
mod retained;
mod retained_stream;
mod sending;
mod session;
mod settings;
mod shared;
mod subjects;

pub use backbone::{Backbone, RunningBackbone};
pub use check::{EngineFinding, EngineFindingKind, check, nodes};
pub use error::BackboneError;
pub use membership::NodeRecord;
pub use settings::{BackboneMistake, BackboneSettings};
