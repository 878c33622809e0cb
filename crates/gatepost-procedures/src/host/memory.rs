//! In-memory state of built-in procedures: it outlives a reload and ends with the process.

use gatepost_dns::Cache;

use super::repetitions::Repetitions;
use super::token_buckets::TokenBuckets;

#[derive(Default)]
pub(crate) struct SharedMemory {
    pub(crate) token_buckets: TokenBuckets,
    pub(crate) repetitions: Repetitions,
    pub(crate) names: Cache,
}
