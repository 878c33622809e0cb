//! The journal of all nodes of a cluster.
//!
//! Each node keeps the journal entries of the messages that it has received. An operator asks any
//! node, which asks the others: all of them for a list, and one for a message, which its id or the
//! operator names. The other nodes carry out the same operations as this one
//! (`Operations::carry_out`), so a list of one server is a list of a cluster with one node.
//!
//! - `question.rs`: questions and answers as bytes;
//! - `answering.rs`: a node's part in a question;
//! - `asking.rs`: which nodes are asked, and those that did not answer;
//! - `journal.rs`: the answers of all nodes as one list;
//! - `limits.rs`: their bounds in size and time.
//!
//! Invariants: a node that did not answer is named in the result; every answer is bounded in size
//! and time; the node that is asked by the administrator checks the rights, before any other is
//! asked.

mod answering;
mod asking;
mod journal;
mod limits;
mod question;
