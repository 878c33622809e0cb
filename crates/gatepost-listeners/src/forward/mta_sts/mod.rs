//! MTA-STS (RFC 8461): a domain publishes over HTTPS which hosts receive its mail, and that their
//! certificates must be valid.
//!
//! A policy is kept for its own `max_age`, in the database too: an attacker who forges or
//! suppresses DNS answers cannot remove it (RFC 8461, section 10.2). If a policy cannot be fetched,
//! there is none, unless an earlier one is still valid.

mod fetch;
mod policy;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_store::{Store, StoreChange};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::ForwardContext;
pub(super) use policy::{MtaStsMode, MtaStsPolicy};

/// The key space of policies among the records, by their domain.
const SPACE: &str = "mta-sts";
/// The pause before a policy that could not be fetched is requested again (RFC 8461, section 3.3).
const RETRY_AFTER: Duration = Duration::from_mins(5);
/// A policy is fetched again after this time, so that it does not run out (RFC 8461, section 10.2).
const REFRESH_AFTER: Duration = Duration::from_hours(24);
/// Policies that are fetched at the same time; messages for further domains wait.
const FETCHES_MAX: usize = 4;

/// The policies that are known.
pub(super) struct MtaStsPolicies {
    store: Option<Store>,
    known: Mutex<HashMap<String, KnownPolicy>>,
    /// The time of the last failure to fetch a domain's policy, and the id that was announced.
    failed: Mutex<HashMap<String, (Instant, String)>>,
    fetches: Semaphore,
}

impl Default for MtaStsPolicies {
    fn default() -> Self {
        Self {
            store: None,
            known: Mutex::default(),
            failed: Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
        }
    }
}

#[derive(Debug, Clone)]
struct KnownPolicy {
    id: String,
    fetched: SystemTime,
    policy: Arc<MtaStsPolicy>,
}

/// A policy in the database.
#[derive(Serialize, Deserialize)]
struct StoredPolicy {
    id: String,
    /// Unix seconds.
    fetched: u64,
    text: String,
}

impl KnownPolicy {
    fn new(kept: &StoredPolicy) -> Option<Self> {
        Some(Self {
            id: kept.id.clone(),
            fetched: UNIX_EPOCH.checked_add(Duration::from_secs(kept.fetched))?,
            policy: Arc::new(MtaStsPolicy::parse(&kept.text)?),
        })
    }

    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.fetched).unwrap_or_default()
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        self.age(now) < self.policy.max_age
    }

    /// Whether the policy has the announced id, and no refresh is due.
    fn is_current(&self, announced: Option<&str>, now: SystemTime) -> bool {
        announced.is_none_or(|id| id == self.id) && self.age(now) < REFRESH_AFTER
    }
}

impl MtaStsPolicies {
    /// Continues with the policies in this database.
    pub(super) fn open(store: &Store) -> Self {
        let policies = Self {
            store: Some(store.clone()),
            ..Self::default()
        };
        let mut known = policies.known.lock();
        let now = SystemTime::now();
        match store.records(SPACE, b"") {
            Ok(records) => {
                for (domain, record) in records {
                    let kept = serde_json::from_slice(&record).ok();
                    let policy = kept.as_ref().and_then(KnownPolicy::new);
                    match (String::from_utf8(domain.to_vec()), policy) {
                        (Ok(domain), Some(policy)) if policy.is_valid(now) => {
                            known.insert(domain, policy);
                        }
                        _ => policies.change(StoreChange::DeleteRecord {
                            space: SPACE,
                            key: domain,
                        }),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(target: "smtp", %error, "kept MTA-STS policies cannot be read");
            }
        }
        drop(known);
        policies
    }

    fn valid(&self, domain: &str, now: SystemTime) -> Option<KnownPolicy> {
        let known = self.known.lock();
        let policy = known.get(domain)?;
        policy.is_valid(now).then(|| policy.clone())
    }

    fn has_failed(&self, domain: &str, id: &str) -> bool {
        let mut failed = self.failed.lock();
        failed.retain(|_, (at, _)| at.elapsed() < RETRY_AFTER);
        failed.get(domain).is_some_and(|(_, failed)| failed == id)
    }

    /// Stores a policy; returns `None` for a text that is not a policy.
    fn keep(
        &self,
        domain: &str,
        id: &str,
        text: String,
        now: SystemTime,
    ) -> Option<Arc<MtaStsPolicy>> {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let kept = StoredPolicy {
            id: id.to_owned(),
            fetched: since.as_secs(),
            text,
        };
        let known = KnownPolicy::new(&kept)?;
        let policy = Arc::clone(&known.policy);
        self.known.lock().insert(domain.to_owned(), known);
        if let Ok(value) = serde_json::to_vec(&kept) {
            self.change(StoreChange::PutRecord {
                space: SPACE,
                key: Bytes::copy_from_slice(domain.as_bytes()),
                value: value.into(),
            });
        }
        Some(policy)
    }

    fn change(&self, change: StoreChange) {
        let Some(store) = &self.store else { return };
        if let Err(error) = store.submit_deferred([change]) {
            tracing::warn!(target: "smtp", %error, "an MTA-STS policy is not kept");
        }
    }
}

impl ForwardContext {
    /// The policy of a domain, if it has one.
    pub(super) async fn policy(&self, domain: &str, until: Instant) -> Option<Arc<MtaStsPolicy>> {
        let policies = &self.policies;
        let now = SystemTime::now();
        let texts = self.dns.texts(&format!("_mta-sts.{domain}"), until).await;
        let announced = policy::announced_id(&texts);
        let known = policies.valid(domain, now);
        let is_current = |known: &KnownPolicy| known.is_current(announced.as_deref(), now);
        if let Some(known) = known.as_ref().filter(|known| is_current(known)) {
            return Some(Arc::clone(&known.policy));
        }
        let earlier = known.map(|known| known.policy);
        // Without a record only a known policy applies (RFC 8461, section 3.1).
        let Some(id) = announced.clone() else {
            return earlier;
        };
        if policies.has_failed(domain, &id) {
            return earlier;
        }
        let Ok(_permit) = policies.fetches.acquire().await else {
            return earlier;
        };
        // Another message may have had it fetched meanwhile.
        if let Some(known) = policies.valid(domain, now).filter(is_current) {
            return Some(known.policy);
        }
        match self.fetch(domain, until).await {
            Ok(text) => {
                if let Some(policy) = policies.keep(domain, &id, text, now) {
                    return Some(policy);
                }
                tracing::warn!(target: "smtp", domain, "the file on its MTA-STS host is not a \
                    policy");
            }
            Err(cause) => {
                tracing::warn!(
                    target: "smtp",
                    domain,
                    "its MTA-STS policy is not fetched: {cause}",
                );
            }
        }
        let failure = (Instant::now(), id);
        policies.failed.lock().insert(domain.to_owned(), failure);
        earlier
    }

    async fn fetch(&self, domain: &str, until: Instant) -> Result<String, String> {
        let host = format!("mta-sts.{domain}");
        let port = self.settings.mta_sts_port;
        let addresses = self.addresses(&host, port, until).await;
        let authorities = if self.settings.tls_ca.as_os_str().is_empty() {
            Vec::new()
        } else {
            let authorities = self.authorities.authorities();
            authorities.map_err(|error| error.to_string())?
        };
        let request = fetch::PolicyRequest {
            addresses: addresses.map_err(|error| error.to_string())?,
            host,
            authorities,
            timeout: until.saturating_duration_since(Instant::now()),
        };
        request.send().await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: STSv1\nmode: enforce\nmx: mx.example.org\nmax_age: 100000\n";

    #[tokio::test]
    async fn a_policy_outlives_the_process_and_ends_with_its_age() {
        let store = Store::in_memory().expect("a store");
        let now = SystemTime::now();
        let policies = MtaStsPolicies::open(&store);
        let kept = policies.keep("example.org", "1", POLICY.to_owned(), now);
        assert!(kept.is_some());
        let old = now - Duration::from_secs(200_000);
        let kept = policies.keep("old.example", "1", POLICY.to_owned(), old);
        assert!(kept.is_some());
        let none = policies.keep("none.example", "1", "nothing".to_owned(), now);
        assert_eq!(none, None);
        let done = store.submit([StoreChange::DeleteRecord {
            space: "none",
            key: Bytes::new(),
        }]);
        done.expect("submitted")
            .committed()
            .await
            .expect("committed");

        let policies = MtaStsPolicies::open(&store);
        let later = |seconds| now + Duration::from_secs(seconds);
        let known = policies.valid("example.org", now).expect("it is valid");
        assert!(known.policy.has("mx.example.org"));
        assert!(policies.valid("example.org", later(99_998)).is_some());
        assert!(policies.valid("example.org", later(100_001)).is_none());
        assert!(policies.valid("old.example", now).is_none());

        // A missing announcement keeps the policy; a new id or its age renews it.
        assert!(known.is_current(None, now));
        assert!(known.is_current(Some("1"), now));
        assert!(!known.is_current(Some("2"), now));
        assert!(!known.is_current(None, later(90_000)));
    }
}
