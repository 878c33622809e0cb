//! The number of mails that each client may still send by ntfy's `X-Email`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Clients whose mails are counted. Beyond it all share one count.
const CLIENTS_MAX: usize = 10_000;
const HOUR: Duration = Duration::from_hours(1);

/// The instant at which each client has its whole allowance again.
#[derive(Debug, Default)]
pub(super) struct EmailAllowances(Mutex<HashMap<String, Instant>>);

impl EmailAllowances {
    /// Takes a mail from a client's allowance, or returns the time to wait for one.
    pub(super) fn take(&self, client: String, per_hour: u32, now: Instant) -> Result<(), Duration> {
        let mut whole_at = self.0.lock();
        if whole_at.len() >= CLIENTS_MAX {
            whole_at.retain(|_, whole_at| *whole_at > now);
        }
        let client = if whole_at.len() < CLIENTS_MAX || whole_at.contains_key(&client) {
            client
        } else {
            String::new()
        };
        let cost = HOUR / per_hour.max(1);
        let before = whole_at.get(&client).copied();
        let after = before.map_or(now, |before| before.max(now)) + cost;
        match after.duration_since(now).checked_sub(HOUR) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                whole_at.insert(client, after);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_spent_and_comes_back() {
        let allowances = EmailAllowances::default();
        let start = Instant::now();
        let take = |client: &str, minutes| {
            let now = start + Duration::from_mins(minutes);
            allowances.take(client.to_owned(), 4, now)
        };
        for _ in 0..4 {
            assert_eq!(take("anna", 0), Ok(()));
        }
        assert_eq!(take("anna", 0), Err(Duration::from_mins(15)));
        assert_eq!(take("bert", 0), Ok(()));
        assert_eq!(take("anna", 15), Ok(()));
        assert!(take("anna", 15).is_err());
    }
}
