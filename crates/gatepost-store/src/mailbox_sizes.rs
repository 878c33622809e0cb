//! The sizes of mailboxes, which each recipient of an arriving mail is compared with.
//!
//! The database has a mailbox's size only as the sum of its mails, and to add them up reads much
//! of the mailbox: 100 MB for 100,000 mails. So a size is remembered for a while: for at least
//! [`REMEMBERED_MIN`], and for longer if it took long to count, so that counting takes at most a
//! hundredth of the time. Mail that this server delivers meanwhile is added; mail that another
//! server of a cluster delivers counts from the next count on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The shortest time for which a size is remembered.
const REMEMBERED_MIN: Duration = Duration::from_secs(1);
/// The time for which a size is remembered, in multiples of the time that counting it took.
const REMEMBERED_COUNTS: u32 = 100;
/// Mailboxes whose sizes are remembered. The next one forgets all of them.
const MAILBOXES_MAX: usize = 10_000;

/// The sizes of the mailboxes that mail arrived for, by user.
#[derive(Debug, Default)]
pub(crate) struct MailboxSizes {
    remembered: Mutex<HashMap<String, RememberedSize>>,
    /// Locked by the thread that counts: one at a time, or many recipients would keep all disks
    /// and processors busy.
    counting: Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct RememberedSize {
    bytes: u64,
    until: Instant,
}

impl MailboxSizes {
    /// The size of a mailbox, if it is remembered.
    pub(crate) fn remembered(&self, user: &str, now: Instant) -> Option<u64> {
        let remembered = self.remembered.lock();
        let size = remembered.get(user).filter(|size| size.until > now)?;
        Some(size.bytes)
    }

    /// The size of a mailbox: remembered, or else counted, which blocks.
    pub(crate) fn get_or_count<E>(
        &self,
        user: &str,
        count: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        let _only = self.counting.lock();
        let began = Instant::now();
        if let Some(bytes) = self.remembered(user, began) {
            return Ok(bytes);
        }
        let bytes = count()?;
        let counted = Instant::now();
        let for_time = counted.saturating_duration_since(began) * REMEMBERED_COUNTS;
        let until = counted + for_time.max(REMEMBERED_MIN);
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAILBOXES_MAX {
            remembered.clear();
        }
        remembered.insert(user.to_owned(), RememberedSize { bytes, until });
        Ok(bytes)
    }

    /// Adds a mail that is delivered.
    pub(crate) fn add(&self, users: &[String], bytes: u64) {
        let mut remembered = self.remembered.lock();
        for user in users {
            if let Some(size) = remembered.get_mut(user) {
                size.bytes = size.bytes.saturating_add(bytes);
            }
        }
    }

    /// Has the size counted again, since mail was removed.
    pub(crate) fn forget(&self, user: &str) {
        self.remembered.lock().remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn count(sizes: &MailboxSizes, user: &str, found: u64) -> u64 {
        let Ok(bytes) = sizes.get_or_count(user, || Ok::<_, Infallible>(found));
        bytes
    }

    #[test]
    fn a_size_follows_deliveries_until_it_is_counted_again() {
        let sizes = MailboxSizes::default();
        let start = Instant::now();
        assert_eq!(sizes.remembered("anna", start), None);
        assert_eq!(count(&sizes, "anna", 100), 100);
        sizes.add(&["anna".to_owned(), "bert".to_owned()], 20);
        assert_eq!(sizes.remembered("anna", start), Some(120));
        assert_eq!(sizes.remembered("bert", start), None);
        let later = Instant::now() + REMEMBERED_MIN + Duration::from_mins(1);
        assert_eq!(sizes.remembered("anna", later), None);
        sizes.forget("anna");
        assert_eq!(sizes.remembered("anna", start), None);
        assert_eq!(count(&sizes, "anna", 7), 7);
    }

    #[test]
    fn a_size_that_took_long_to_count_is_remembered_for_longer() {
        let sizes = MailboxSizes::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(50));
            Ok::<_, Infallible>(1)
        };
        let start = Instant::now();
        let Ok(_) = sizes.get_or_count("anna", slow);
        let later = start + 4 * REMEMBERED_MIN;
        assert_eq!(sizes.remembered("anna", later), Some(1));
    }

    #[test]
    fn the_number_of_sizes_is_bounded() {
        let sizes = MailboxSizes::default();
        for number in 0..=MAILBOXES_MAX {
            count(&sizes, &number.to_string(), 1);
        }
        assert_eq!(sizes.remembered.lock().len(), 1);
    }
}
