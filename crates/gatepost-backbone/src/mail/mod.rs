//! Mailboxes and the quarantine, which all nodes share: a stream of the engine decides, and each
//! node's database has all mail.
//!
//! A mail is one message of the stream, or several pieces that the engine stores together
//! ([`piece`], [`stream`]). It has a subject of its own; its removal replaces it there. Each node
//! reads the stream into its database and continues where it ended ([`reading`]); before, it adds
//! the mail that only its database has, and removes the mail that the stream no longer has
//! ([`joining`]). The owners of mailboxes see the [`view`].
//!
//! A client has a mailbox while its node renews a message on the mailbox's subject, which expires
//! ([`claim`]). Since that message is in the same stream, a node whose database has it has all mail
//! that was acknowledged before.
//!
//! Mail in quarantine is mail at another place, with its journal entry. A node releases it while it
//! has a claim to it. What leaves a node's quarantine by age or by a limit is removed from the
//! stream afterwards ([`joining::remove_left`]).
//!
//! Invariants:
//! - A delivery or removal is acknowledged when the stream has it.
//! - Mail leaves the database only if its removal is in the stream, or if the stream that had it no
//!   longer has it.
//! - The position is stored in the same commit as the mail up to it.

mod claim;
mod current;
pub(crate) mod following;
mod joining;
pub(crate) mod piece;
pub(crate) mod position;
mod reading;
mod stream;
pub(crate) mod view;
