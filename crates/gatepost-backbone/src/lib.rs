//! The backbone: the topics and messages that several servers share over NATS.
//!
//! The only crate that knows NATS. The broker calls it by [`gatepost_broker::OtherNodes`], and it
//! publishes the messages of others by
//! [`Broker::node_publisher`](gatepost_broker::Broker::node_publisher).
//!
//! - QoS 0: publications of this node go to a core subject (`sending.rs`); each node subscribes to
//!   the subjects of the filters that have subscribers there (`announcing.rs`), and delivers the
//!   received publications as if they had been published there (`receiving.rs`).
//! - QoS 1 and 2: publications of all nodes are appended to a log, which each node reads (`log/`).
//! - A shared subscription with members on several nodes is divided: for each publication, all
//!   nodes compute from the log which of them serves it (`log/division/`, `group_announcing.rs`,
//!   `group_reading.rs`).
//! - Retained messages are also sent to a stream that keeps one message for each topic
//!   (`retained_stream.rs`, `retained.rs`).
//! - Persistent sessions move to the node that their client connects to (`moves/`, `moving/`).
//! - Each node copies its sessions into a stream, from which another one adopts them when the node
//!   fails (`node_stream/`, `node_copying.rs`, `moving/failed_nodes.rs`).
//! - Nodes ask each other on behalf of administrators (`node_questions.rs`, `members.rs`).
//! - Users and other shared records are in a bucket that every node follows (`records/`).
//! - Mailboxes are in a stream that every node reads into its database (`mail/`).
//! - What Bayes learns is in a stream of lessons that every node carries out (`learned/`).
//! - A key in a bucket gives each server the sole use of its number (`membership.rs`).
//!
//! Invariants:
//! - A publication at QoS 1 or 2 is acknowledged when the log has stored it. Each node delivers it
//!   to its persistent sessions exactly once, also over crashes of the node.
//! - At QoS 0, a publication arrives at most once. Those that cannot be sent are dropped and
//!   counted, except retained messages, which are sent later.
//! - A publication from another node is forwarded to no node.

mod announcing;
mod backbone;
mod check;
mod confirmed_changes;
mod connection;
mod division_questions;
mod duplicates;
#[cfg(test)]
mod encoded_examples;
mod encoding;
mod error;
mod group_announcing;
mod group_reading;
mod groups;
mod interest;
mod learned;
mod log;
mod log_end;
mod log_reading;
mod log_streams;
mod log_writing;
mod mail;
mod members;
mod membership;
mod message_size;
mod moves;
mod moving;
mod node_copying;
mod node_epoch;
mod node_questions;
mod node_stream;
mod node_streams;
mod outgoing;
mod passing_on;
mod question_state;
mod receiving;
mod reconnect_pause;
mod records;
mod removed_keys;
mod retained;
mod retained_stream;
mod sending;
mod session;
mod session_rows;
mod settings;
mod shared;
mod stream_creation;
mod stream_reading;
mod subjects;
#[cfg(test)]
mod test_server;
mod unreadable;

pub use backbone::{Backbone, RunningBackbone, leave_cluster};
pub use check::{ClusterNodes, EngineFinding, EngineFindingKind, check, nodes};
pub use error::BackboneError;
pub use membership::NodeRecord;
pub use moves::forget_node;
pub use node_questions::{NodeQuestions, QuestionError};
pub use question_state::ReceivedQuestion;
pub use records::client::RecordsClient;
pub use records::followed_bucket::follows_cluster;
pub use settings::{BackboneMistake, BackboneSettings};
