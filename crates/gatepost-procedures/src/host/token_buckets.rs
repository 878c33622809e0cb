//! The token buckets of `/ratelimit`. They are in memory and survive a reload.
//!
//! A bucket fills steadily, and a message takes one token. The number of buckets is bounded; names
//! beyond the bound share one bucket of their limit, so that a flood of new names is limited too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// All buckets, by limit and by key.
#[derive(Default)]
pub(crate) struct TokenBuckets(Mutex<HashMap<BucketKey, BucketLevel>>);

pub(crate) type BucketKey = (Arc<str>, Box<str>);

struct BucketLevel {
    tokens: f64,
    filled: Instant,
}

impl TokenBuckets {
    /// Takes a token; if there is none, returns the seconds until there is one.
    pub(crate) fn take(
        &self,
        key: BucketKey,
        rate: f64,
        burst: f64,
        keys_max: usize,
        now: Instant,
    ) -> Option<f64> {
        let mut buckets = self.0.lock();
        let key = if buckets.len() < keys_max || buckets.contains_key(&key) {
            key
        } else {
            // A full bucket can be removed.
            buckets.retain(|(limit, _), bucket| {
                *limit != key.0 || bucket.level(rate, burst, now) < burst
            });
            if buckets.len() < keys_max {
                key
            } else {
                (key.0, "".into())
            }
        };
        let bucket = buckets.entry(key).or_insert(BucketLevel {
            tokens: burst,
            filled: now,
        });
        bucket.tokens = bucket.level(rate, burst, now);
        bucket.filled = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return None;
        }
        Some((1.0 - bucket.tokens) / rate)
    }
}

impl BucketLevel {
    fn level(&self, rate: f64, burst: f64, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.tokens + seconds * rate).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(whose: &str) -> BucketKey {
        ("/ratelimit".into(), whose.into())
    }

    #[test]
    fn a_bucket_fills_steadily_up_to_its_burst() {
        let buckets = TokenBuckets::default();
        let start = Instant::now();
        let take = |whose: &str, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            buckets.take(key(whose), 0.5, 2.0, 10, now)
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
        let buckets = TokenBuckets::default();
        let start = Instant::now();
        let take = |whose: &str, now: Instant| buckets.take(key(whose), 1.0, 1.0, 2, now);
        assert_eq!((take("a", start), take("b", start)), (None, None));
        assert_eq!((take("c", start), take("d", start)), (None, Some(1.0)));
        let later = start + Duration::from_secs(5);
        assert_eq!((take("c", later), take("d", later)), (None, None));
    }
}
