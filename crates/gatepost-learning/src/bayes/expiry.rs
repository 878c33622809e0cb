//! Expiry: removes tokens that were not used for a long time.
//!
//! Once the number of tokens exceeds the limit, the least recently used ones are removed, down to
//! about three quarters of the limit. Candidate ages are powers of two of half a day, and the
//! smallest one that does not remove more than that is chosen; a run that would remove almost
//! nothing removes nothing. As in SpamAssassin, the ids of learned messages are kept.

use super::classifier::{Bayes, now_seconds};
use super::record::{ExpiryRecord, LearnedRecord};
use super::settings::BayesSettings;
use super::store::TokenStoreError;
use super::table::TokenEntry;

/// The shortest time between two runs, in seconds.
const PERIOD_SECONDS: u32 = 43_200;
/// The first candidate age, in seconds.
const AGE_MIN_SECONDS: u32 = 43_200;
/// The number of times that the age is doubled: up to 256 days.
const DOUBLINGS: u32 = 9;
/// The number of tokens that always remain.
const KEPT_TOKENS_MIN: usize = 100_000;
/// The target after expiry, as a share of the limit: 75 %.
const KEPT_PERCENT: usize = 75;
/// A run that would remove fewer tokens than this is skipped.
const REMOVED_TOKENS_MIN: usize = 1_000;

impl Bayes {
    /// Runs an expiry if it is due; returns the number of removed tokens.
    pub fn expire(&self, settings: &BayesSettings) -> Result<usize, TokenStoreError> {
        self.expire_at(settings, now_seconds())
    }

    fn expire_at(&self, settings: &BayesSettings, now: u32) -> Result<usize, TokenStoreError> {
        let table = self.table();
        let too_many = table.len() > settings.tokens_max.max(KEPT_TOKENS_MIN);
        let mut learner = self.learner();
        // A run of the future is one of a wrong clock, and must not prevent all others until then.
        let since = now.checked_sub(learner.expiry.time);
        let is_early = since.is_some_and(|since| since < PERIOD_SECONDS);
        if !settings.enabled || !settings.auto_expire || !too_many || is_early {
            return Ok(0);
        }
        let goal = (settings.tokens_max / 100 * KEPT_PERCENT).max(KEPT_TOKENS_MIN);
        let to_remove = table.len().saturating_sub(goal);
        let newest = table.entries().map(|entry| entry.time).max();
        let newest = newest.unwrap_or(now).min(now);
        let age = age_to_remove(to_remove, newest, table.entries());
        let mut removed = 0;
        if let Some(age) = age {
            let oldest_kept = newest.saturating_sub(age);
            for entry in table.entries().filter(|entry| entry.time < oldest_kept) {
                let counts = super::combine::TokenCounts::default();
                self.set_token(TokenEntry { counts, ..entry }, true);
                removed += 1;
            }
        }
        learner.expiry = ExpiryRecord {
            time: now,
            age: age.unwrap_or(0),
            removed: u32::try_from(removed).unwrap_or(u32::MAX),
        };
        let expiry = learner.expiry;
        learner.waiting.push(LearnedRecord::Expiry(expiry));
        self.keep_locked(&mut learner)?;
        Ok(removed)
    }
}

/// The smallest age at which at most `to_remove` tokens are older; `None` if that would remove
/// almost nothing.
fn age_to_remove(
    to_remove: usize,
    newest: u32,
    entries: impl Iterator<Item = TokenEntry>,
) -> Option<u32> {
    let mut older = [0usize; DOUBLINGS as usize + 1];
    for entry in entries {
        let age = newest.saturating_sub(entry.time);
        for (doubling, count) in (0..).zip(&mut older) {
            if age <= AGE_MIN_SECONDS << doubling {
                break;
            }
            *count += 1;
        }
    }
    (0..)
        .zip(older)
        .find(|(_, count)| *count <= to_remove)
        .filter(|(_, count)| *count >= REMOVED_TOKENS_MIN)
        .map(|(doubling, _): (u32, usize)| AGE_MIN_SECONDS << doubling)
}

#[cfg(test)]
mod tests {
    use super::super::combine::TokenCounts;
    use super::super::token::Token;
    use super::*;

    const NOW: u32 = 1_700_000_000;
    const DAY: u32 = 86_400;

    fn with_tokens(tokens: u64, age: impl Fn(u64) -> u32) -> Bayes {
        let bayes = Bayes::in_memory();
        for number in 0..tokens {
            let entry = TokenEntry {
                token: Token::from_u64(number),
                counts: TokenCounts { spam: 1, ham: 0 },
                time: NOW - age(number),
            };
            bayes.set_token(entry, false);
        }
        bayes
    }

    #[test]
    fn old_tokens_go_when_there_are_too_many() {
        let settings = BayesSettings::default();
        let bayes = with_tokens(160_000, |number| if number < 40_000 { 30 * DAY } else { 0 });
        assert_eq!(bayes.expire_at(&settings, NOW), Ok(40_000));
        assert_eq!(bayes.statistics().tokens, 120_000);
        assert_eq!(
            bayes.expire_at(&settings, NOW + 2 * DAY),
            Ok(0),
            "few enough"
        );
    }

    #[test]
    fn a_run_at_a_wrong_time_delays_no_other() {
        let settings = BayesSettings::default();
        let bayes = with_tokens(160_000, |number| if number < 40_000 { 30 * DAY } else { 0 });
        bayes.learner().expiry.time = NOW + 3_650 * DAY;
        assert_eq!(bayes.expire_at(&settings, NOW), Ok(40_000));
        assert_eq!(bayes.learner().expiry.time, NOW);
    }

    #[test]
    fn nothing_expires_if_all_tokens_are_in_use_or_expiry_is_disabled() {
        let mut settings = BayesSettings::default();
        let bayes = with_tokens(160_000, |_| 0);
        assert_eq!(bayes.expire_at(&settings, NOW), Ok(0));
        let bayes = with_tokens(160_000, |number| (number % 100) as u32 * DAY);
        settings.auto_expire = false;
        assert_eq!(bayes.expire_at(&settings, NOW), Ok(0));
    }
}
