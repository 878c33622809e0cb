//! Records that all nodes share, such as users: a bucket of the engine decides, and each node's
//! database has a view of it.
//!
//! A node reads the whole bucket when it connects and then follows it ([`following`]). A change is
//! written by compare-and-set with the revision that the view had when the change was computed, and
//! is complete when the view has it ([`view`]). The content of an entry is known to its owner only.
//!
//! Invariants:
//! - The revision of an entry is noted after its records are stored, so records that are read after
//!   the revision are not older.
//! - Without a connection, the view stays as it is, and no change is accepted.

pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod entry;
pub(crate) mod followed_bucket;
pub(crate) mod following;
pub(crate) mod view;
