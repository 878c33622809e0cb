//! The token buckets of `/ratelimit`. They are in memory and survive a reload.
//!
//! A bucket fills steadily, and a message takes one token. The number of buckets of a limit is
//! bounded; names beyond the bound share one bucket, so that a flood of new names is limited too.
//! Names are kept as keyed hashes, since a topic or a client id may have 64 KB.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time between two searches of a table for full buckets. All judges wait for a search, and a
/// stranger who invents names would cause one with each message.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// All buckets.
#[derive(Default)]
pub(crate) struct TokenBuckets {
    /// Strangers do not know its key, so they find no name whose hash is that of another.
    hasher: RandomState,
    by_limit: Mutex<HashMap<Arc<str>, LimitBuckets>>,
}

/// The buckets of one limit.
#[derive(Default)]
struct LimitBuckets {
    /// By the hash of the key.
    by_key: HashMap<u64, BucketLevel>,
    /// The bucket of all keys beyond the bound.
    shared: Option<BucketLevel>,
    /// The last search for full buckets.
    searched: Option<Instant>,
}

struct BucketLevel {
    tokens: f64,
    filled: Instant,
}

/// The rate of a limit, in tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRate {
    pub(crate) per_second: f64,
    /// The capacity of a bucket.
    pub(crate) burst: f64,
    /// Keys that have a bucket of their own.
    pub(crate) keys_max: usize,
}

impl TokenBuckets {
    /// Takes a token; if there is none, returns the seconds until there is one.
    pub(crate) fn take(
        &self,
        limit: &Arc<str>,
        key: &str,
        rate: TokenRate,
        now: Instant,
    ) -> Option<f64> {
        let key = self.hasher.hash_one(key);
        let mut by_limit = self.by_limit.lock();
        let buckets = match by_limit.get_mut(limit) {
            Some(buckets) => buckets,
            None => by_limit.entry(Arc::clone(limit)).or_default(),
        };
        if let Some(bucket) = buckets.by_key.get_mut(&key) {
            return bucket.take(rate, now);
        }
        let full = BucketLevel {
            tokens: rate.burst,
            filled: now,
        };
        let bucket = if buckets.has_room(rate, now) {
            buckets.by_key.entry(key).or_insert(full)
        } else {
            buckets.shared.get_or_insert(full)
        };
        bucket.take(rate, now)
    }
}

impl LimitBuckets {
    /// Whether one more key can have a bucket. In a full table, full buckets are removed.
    fn has_room(&mut self, rate: TokenRate, now: Instant) -> bool {
        if self.by_key.len() < rate.keys_max {
            return true;
        }
        let is_due = |at| now.saturating_duration_since(at) >= SEARCH_INTERVAL;
        if self.searched.is_none_or(is_due) {
            self.searched = Some(now);
            self.by_key
                .retain(|_, bucket| bucket.level(rate, now) < rate.burst);
        }
        self.by_key.len() < rate.keys_max
    }
}

impl BucketLevel {
    fn take(&mut self, rate: TokenRate, now: Instant) -> Option<f64> {
        self.tokens = self.level(rate, now);
        self.filled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return None;
        }
        Some((1.0 - self.tokens) / rate.per_second)
    }

    fn level(&self, rate: TokenRate, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.tokens + seconds * rate.per_second).min(rate.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rate(per_second: f64, burst: f64, keys_max: usize) -> TokenRate {
        TokenRate {
            per_second,
            burst,
            keys_max,
        }
    }

    #[test]
    fn a_bucket_fills_steadily_up_to_its_burst() {
        let (buckets, limit) = (TokenBuckets::default(), "/ratelimit".into());
        let start = Instant::now();
        let take = |whose: &str, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            buckets.take(&limit, whose, rate(0.5, 2.0, 10), now)
        };
        assert_eq!((take("a", 0), take("a", 0)), (None, None));
        assert_eq!(take("a", 0), Some(2.0));
        assert_eq!(take("b", 0), None);
        assert_eq!(take("a", 1), Some(1.0));
        assert_eq!(take("a", 2), None);
        assert_eq!((take("a", 1000), take("a", 1000)), (None, None));
        assert_eq!(take("a", 1000), Some(2.0));
    }

    #[test]
    fn those_beyond_the_bound_share_a_bucket_until_others_are_full() {
        let (buckets, limit) = (TokenBuckets::default(), "/ratelimit".into());
        let start = Instant::now();
        let take = |whose: &str, seconds: f64| {
            let now = start + Duration::from_secs_f64(seconds);
            buckets.take(&limit, whose, rate(2.0, 1.0, 2), now)
        };
        assert_eq!((take("a", 0.0), take("b", 0.0)), (None, None));
        assert_eq!((take("c", 0.0), take("d", 0.0)), (None, Some(0.5)));
        // The buckets of `a` and `b` are full, but the table was searched a moment ago.
        assert_eq!((take("c", 0.75), take("d", 0.75)), (None, Some(0.5)));
        assert_eq!((take("c", 1.0), take("d", 1.0)), (None, None));
    }

    #[test]
    fn a_limit_with_many_names_takes_no_bucket_from_another() {
        let buckets = TokenBuckets::default();
        let now = Instant::now();
        let take =
            |limit: &str, whose: &str| buckets.take(&limit.into(), whose, rate(1.0, 1.0, 2), now);
        for stranger in ["a", "b", "c"] {
            assert_eq!(take("/ratelimit -by from", stranger), None);
        }
        assert_eq!(take("/ratelimit -by user", "anna"), None);
        assert_eq!(take("/ratelimit -by user", "bert"), None);
        assert_eq!(take("/ratelimit -by user", "anna"), Some(1.0));
    }
}
