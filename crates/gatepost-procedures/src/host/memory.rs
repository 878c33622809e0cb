//! In-memory state of built-in procedures: it outlives a reload and ends with the process.

use std::sync::OnceLock;

use gatepost_dns::Cache;

use super::KnownSenders;
use super::greylist_counts::GreylistCounts;
use super::repetitions::Repetitions;
use super::token_buckets::TokenBuckets;

#[derive(Default)]
pub(crate) struct SharedMemory {
    pub(crate) token_buckets: TokenBuckets,
    pub(crate) repetitions: Repetitions,
    pub(crate) names: Cache,
    pub(crate) greylist: GreylistCounts,
    /// The senders that an operator allows, once there is such a list.
    pub(crate) allowed_senders: OnceLock<Box<dyn KnownSenders>>,
}
