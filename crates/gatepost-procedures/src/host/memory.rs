//! What built-in procedures remember in memory: it outlives a reload, and ends with the process.

use crate::builtin::{Buckets, Storms};

use super::dns::Answers;

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) buckets: Buckets,
    pub(crate) storms: Storms,
    pub(crate) names: Answers,
}
