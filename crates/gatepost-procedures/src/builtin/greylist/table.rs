//! The known senders and clients, and the decision about a mail.

use std::time::{Duration, SystemTime};

use gatepost_store::{ValueError, ValueStore};

use super::GreylistSettings;
use super::entry::{GreylistEntry, passed, unix_ms};
use super::triplet::Triplets;
use crate::host::GreylistDecision;

/// The space of values of the table.
const SPACE: &str = "/greylist";
/// An entry is written again only after this part of its lifetime, not with every mail.
const WRITES_PER_LIFETIME: u32 = 32;

/// The decision about one mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GreylistOutcome {
    pub(super) decision: GreylistDecision,
    /// Since the first attempt if the mail is admitted; until the next one if it is deferred.
    time: Duration,
}

impl GreylistOutcome {
    pub(super) const fn of(decision: GreylistDecision) -> Self {
        Self {
            decision,
            time: Duration::ZERO,
        }
    }

    /// The reason for the sender and for the journal.
    pub(super) fn reason(self) -> String {
        let seconds = self.time.as_millis().div_ceil(1000);
        match self.decision {
            GreylistDecision::First | GreylistDecision::Early => {
                format!("greylisted: try again in {seconds} s")
            }
            GreylistDecision::Admitted => format!("greylist: admitted after {seconds} s"),
            GreylistDecision::NotApplicable => String::new(),
            decision => format!("greylist: {}", decision.name()),
        }
    }
}

/// The table at one time.
pub(super) struct GreylistTable<'a> {
    values: &'a ValueStore,
    settings: &'a GreylistSettings,
    now_ms: u64,
}

impl<'a> GreylistTable<'a> {
    pub(super) fn new(
        values: &'a ValueStore,
        settings: &'a GreylistSettings,
        now: SystemTime,
    ) -> Self {
        Self {
            values,
            settings,
            now_ms: unix_ms(now),
        }
    }

    /// The decision about a client that is exempt, or a sender that was admitted before; it is
    /// remembered for longer.
    pub(super) fn known(&self, triplets: &Triplets) -> Option<GreylistOutcome> {
        for client in &triplets.clients {
            let key = client_key(client);
            if let Some(GreylistEntry::Client { retries, last_ms }) = self.entry(&key)
                && self.settings.exempt_after > 0
                && retries >= self.settings.exempt_after
                && self.is_within(last_ms, self.settings.remember.duration())
            {
                self.renew(&key, last_ms, |last_ms| GreylistEntry::Client {
                    retries,
                    last_ms,
                });
                return Some(GreylistOutcome::of(GreylistDecision::KnownClient));
            }
        }
        let mut recipients = triplets.recipients.iter();
        let all_known = recipients.all(|recipient| self.is_admitted(triplets, recipient));
        all_known.then(|| GreylistOutcome::of(GreylistDecision::KnownSender))
    }

    fn is_admitted(&self, triplets: &Triplets, recipient: &str) -> bool {
        triplets.clients.iter().any(|client| {
            let key = triplets.key(client, recipient);
            let Some(GreylistEntry::Passed { last_ms }) = self.entry(&key) else {
                return false;
            };
            let is_known = self.is_within(last_ms, self.settings.remember.duration());
            if is_known {
                self.renew(&key, last_ms, |last_ms| GreylistEntry::Passed { last_ms });
            }
            is_known
        })
    }

    /// Decides about a mail that is not known, and records it.
    pub(super) fn judge(&self, triplets: &Triplets) -> Result<GreylistOutcome, ValueError> {
        match self.try_judge(triplets) {
            Err(error) if is_full(&error) => {
                tracing::warn!(
                    target: "procedures",
                    "the greylist is full, so unknown senders are admitted: see \
                     procedure.\"/greylist\".entries_max and procedures.values_max"
                );
                Ok(GreylistOutcome::of(GreylistDecision::Full))
            }
            other => other,
        }
    }

    fn try_judge(&self, triplets: &Triplets) -> Result<GreylistOutcome, ValueError> {
        let primary = &triplets.clients[0];
        let delay = self.settings.delay.duration();
        let (mut is_new, mut age_least, mut age_most) = (false, Duration::MAX, Duration::ZERO);
        for recipient in &triplets.recipients {
            if self.is_admitted(triplets, recipient) {
                continue;
            }
            if let Some(age) = self.waiting(triplets, recipient) {
                age_least = age_least.min(age);
                age_most = age_most.max(age);
                continue;
            }
            is_new = true;
            let since_ms = self.now_ms;
            let entry = GreylistEntry::Waiting { since_ms };
            self.put(&triplets.key(primary, recipient), entry)?;
        }
        if is_new || age_least < delay {
            let (decision, age) = if is_new {
                (GreylistDecision::First, Duration::ZERO)
            } else {
                (GreylistDecision::Early, age_least)
            };
            let time = delay.saturating_sub(age);
            return Ok(GreylistOutcome { decision, time });
        }
        let last_ms = self.now_ms;
        for recipient in &triplets.recipients {
            let entry = GreylistEntry::Passed { last_ms };
            self.put(&triplets.key(primary, recipient), entry)?;
        }
        match self.count_retry(primary) {
            // The client stays unknown.
            Err(error) if is_full(&error) => {}
            other => other?,
        }
        Ok(GreylistOutcome {
            decision: GreylistDecision::Admitted,
            time: age_most,
        })
    }

    /// The time since the first attempt, if that was seen and is recent enough.
    fn waiting(&self, triplets: &Triplets, recipient: &str) -> Option<Duration> {
        let ages = triplets.clients.iter().filter_map(|client| {
            let entry = self.entry(&triplets.key(client, recipient))?;
            let GreylistEntry::Waiting { since_ms } = entry else {
                return None;
            };
            passed(since_ms, self.now_ms)
        });
        let retry_within = self.settings.retry_within.duration();
        ages.filter(|age| *age <= retry_within).max()
    }

    /// Counts a mail that the client has retried.
    fn count_retry(&self, client: &str) -> Result<(), ValueError> {
        let key = client_key(client);
        let before = match self.entry(&key) {
            Some(GreylistEntry::Client { retries, last_ms })
                if self.is_within(last_ms, self.settings.remember.duration()) =>
            {
                retries
            }
            _ => 0,
        };
        let entry = GreylistEntry::Client {
            retries: before.saturating_add(1),
            last_ms: self.now_ms,
        };
        self.put(&key, entry)
    }

    fn entry(&self, key: &[u8]) -> Option<GreylistEntry> {
        let (value, _) = self.values.get(SPACE, key)?;
        GreylistEntry::read(&value)
    }

    fn put(&self, key: &[u8], entry: GreylistEntry) -> Result<(), ValueError> {
        let lifetime = match entry {
            GreylistEntry::Waiting { .. } => self.settings.retry_within,
            GreylistEntry::Passed { .. } | GreylistEntry::Client { .. } => self.settings.remember,
        };
        let entries_max = self.settings.entries_max;
        let lifetime = Some(lifetime.duration());
        self.values
            .set_within(SPACE, key, entry.write(), lifetime, entries_max)
    }

    /// Writes the time of an entry again, if it has not been written for a while.
    fn renew(&self, key: &[u8], last_ms: u64, entry: impl Fn(u64) -> GreylistEntry) {
        let every = self.settings.remember.duration() / WRITES_PER_LIFETIME;
        if passed(last_ms, self.now_ms).is_none_or(|age| age >= every)
            && let Err(error) = self.put(key, entry(self.now_ms))
        {
            tracing::warn!(target: "procedures", "a known sender is not renewed: {error}");
        }
    }

    /// Whether a time is not further back than this. After the clock was set back, it is not.
    fn is_within(&self, last_ms: u64, time: Duration) -> bool {
        passed(last_ms, self.now_ms).is_none_or(|age| age <= time)
    }
}

const fn is_full(error: &ValueError) -> bool {
    matches!(
        error,
        ValueError::Full(_) | ValueError::FullBytes(_) | ValueError::FullSpace(_)
    )
}

/// Not the key of a sender, which has two NULs.
fn client_key(client: &str) -> Vec<u8> {
    client.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{Envelope, Listener, Peer};
    use gatepost_settings::{ByteSize, Period};
    use gatepost_store::ValueLimits;
    use std::time::UNIX_EPOCH;

    /// Blocks of attempts: `AT CLIENT SENDER RECIPIENTS DECISION`, each at a time since the start
    /// of its block; a domain after the address of the client is one that SPF confirms.
    const CASES: &str = include_str!("../../../tests/data/greylist.txt");

    fn attempt(table: &GreylistTable<'_>, client: &str, sender: &str, to: &str) -> &'static str {
        let (address, domain) = client.split_once('=').unwrap_or((client, ""));
        let peer = Peer::Address((address.parse::<std::net::IpAddr>().expect(address), 25).into());
        let mut envelope = Envelope::new(Listener::Smtp, peer);
        envelope.sender = Some(sender.trim_matches(['<', '>']).to_owned());
        envelope.recipients = to.split(',').map(str::to_owned).collect();
        let (mut triplets, _) = Triplets::of(&envelope).expect("applicable");
        if !domain.is_empty() {
            triplets = triplets.of_domain(domain);
        }
        let known = table.known(&triplets);
        let outcome = known.unwrap_or_else(|| table.judge(&triplets).expect("values"));
        outcome.decision.name()
    }

    #[test]
    fn attempts_are_decided_as_the_cases_say() {
        let mut checked = 0;
        for block in CASES.split("\n\n") {
            let values = ValueStore::in_memory(ValueLimits {
                count_max: 1_000,
                bytes_max: ByteSize::mebibytes(1),
            });
            let mut settings = GreylistSettings::default();
            for line in block.lines().filter(|line| !line.starts_with('#')) {
                if let Some(bound) = line.strip_prefix("entries_max ") {
                    settings.entries_max = bound.parse().expect("a number");
                    continue;
                }
                let words: Vec<&str> = line.split_whitespace().collect();
                let [at, client, sender, to, expected] = words[..] else {
                    panic!("not an attempt: {line}");
                };
                let at: Period = at.parse().expect("a time");
                let now = UNIX_EPOCH + Duration::from_hours(500_000) + at.duration();
                let table = GreylistTable::new(&values, &settings, now);
                assert_eq!(
                    attempt(&table, client, sender, to),
                    expected,
                    "{block}\n{line}"
                );
                checked += 1;
            }
        }
        assert!(checked > 40, "{checked} attempts");
    }
}
