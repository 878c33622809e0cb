//! All subscriptions: start, change and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use gatepost_broker::Broker;
use gatepost_store::{Store, StoreError, Ticket};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::endpoint::PushEndpoint;
use super::settings::WebPushSettings;
use super::subscription::{PushSubscription, SubscriptionRequest, delete, id_of, load};
use super::vapid_key::VapidKey;
use super::{NAME_PREFIX, SubscriberRights, WebPushError};
use crate::attempt::RequestPace;
use crate::delivery_loop::{DeliveryLoop, WorkEnd};
use crate::http_client::SharedTls;
use crate::session::client_id;
use crate::session_end::end_session;
use crate::settings::SinkSettings;
use crate::status::{SinkProgress, SinkStatus};

/// The time for which an acknowledgement waits for the session.
const OPEN_TIME_MAX: Duration = Duration::from_secs(10);
/// The shortest and the longest interval at which expired subscriptions are removed.
const SWEEP_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));

/// A subscription that is served.
pub(super) struct RunningSubscription {
    pub(super) subscription: PushSubscription,
    /// The origin of its endpoint.
    pub(super) push_service: String,
    pub(super) progress: Arc<SinkProgress>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

pub(super) struct WebPushCore {
    pub(super) broker: Broker,
    store: Store,
    rights: Arc<dyn SubscriberRights>,
    settings: WebPushSettings,
    runtime: Handle,
    vapid_key: Arc<VapidKey>,
    tls: SharedTls,
    /// By the ids of their endpoints.
    pub(super) running: Mutex<BTreeMap<String, RunningSubscription>>,
    /// Whether the settings did not allow some subscription at the start.
    has_unserved: AtomicBool,
    /// The sums of removed subscriptions.
    pub(super) earlier: Mutex<SinkStatus>,
}

/// All subscriptions. Cheap to clone.
#[derive(Clone)]
pub struct WebPush(pub(super) Arc<WebPushCore>);

impl WebPush {
    /// Serves the subscriptions of earlier runs again.
    pub(crate) fn start(
        broker: Broker,
        store: Store,
        rights: Arc<dyn SubscriberRights>,
        settings: WebPushSettings,
        runtime: Handle,
    ) -> Result<Self, WebPushError> {
        let known = load(&store)?;
        let web_push = Self(Arc::new(WebPushCore {
            vapid_key: Arc::new(VapidKey::open(&store, &settings.contact)?),
            broker,
            store,
            rights,
            settings,
            runtime,
            tls: SharedTls::default(),
            running: Mutex::default(),
            has_unserved: AtomicBool::default(),
            earlier: Mutex::default(),
        }));
        for subscription in known {
            let id = id_of(&subscription.endpoint);
            match web_push.begin(&id, subscription, None) {
                Ok(running) => drop(web_push.0.running.lock().insert(id, running)),
                // The settings no longer allow this subscription; it is kept in case they do again
                // before it ends.
                Err(error) => {
                    web_push.0.has_unserved.store(true, Ordering::Relaxed);
                    tracing::warn!(target: "sinks", id, %error, "a subscription is not served");
                }
            }
        }
        let sweeping = web_push.clone();
        gatepost_tasks::spawn_on(&web_push.0.runtime, async move { sweeping.sweep().await });
        Ok(web_push)
    }

    /// The key that browsers subscribe with.
    pub fn public_key(&self) -> &str {
        self.0.vapid_key.public()
    }

    /// Stores a subscription, or changes or renews the one of the same endpoint. Once this returns,
    /// no message that is published on its topics is missed.
    pub async fn subscribe(
        &self,
        user: Option<&str>,
        request: SubscriptionRequest,
    ) -> Result<String, WebPushError> {
        let core = &self.0;
        let now = core.store.time_to_store();
        let mut wanted = PushSubscription::new(user, request, &core.settings, now)?;
        let id = id_of(&wanted.endpoint);
        let (committed, progress) = {
            let mut running = core.running.lock();
            core.check_room(&running, &id, &wanted)?;
            let earlier = running.get(&id).map(|earlier| &earlier.subscription);
            if let Some(same) = earlier.filter(|earlier| earlier.user == wanted.user) {
                wanted.session.clone_from(&same.session);
            }
            let committed = core.store.submit([wanted.put()])?;
            let next = match running.remove(&id) {
                Some(mut same) if same.subscription.differs_in_end_only(&wanted) => {
                    same.subscription = wanted;
                    same
                }
                Some(earlier) if earlier.subscription.session == wanted.session => {
                    self.begin(&id, wanted, Some(earlier))?
                }
                other => {
                    // The queued messages of another user must not be disclosed to this one.
                    if let Some(other) = other {
                        self.end(&id, other);
                    }
                    self.begin(&id, wanted, None)?
                }
            };
            let progress = Arc::clone(&next.progress);
            running.insert(id.clone(), next);
            (committed, progress)
        };
        committed.committed().await?;
        if tokio::time::timeout(OPEN_TIME_MAX, progress.until_opened())
            .await
            .is_err()
        {
            tracing::warn!(target: "sinks", id, "a subscription has no session yet");
        }
        Ok(id)
    }

    /// Forgets a subscription of this user; returns whether there was one. Its record is deleted
    /// from the disk when this returns.
    pub async fn unsubscribe(
        &self,
        user: Option<&str>,
        endpoint: &str,
    ) -> Result<bool, WebPushError> {
        let id = id_of(endpoint);
        let is_own = |running: &RunningSubscription| running.subscription.user.as_deref() == user;
        let Some(removed) = self.remove_if(&id, is_own)? else {
            return Ok(false);
        };
        removed.committed().await?;
        Ok(true)
    }

    /// Forgets the subscriptions of logins that are no longer valid.
    pub fn forget_ended_logins(&self) {
        let rights = &self.0.rights;
        self.forget_all("its login is no longer valid", |subscription| {
            let user = subscription.user.as_deref();
            user.is_some_and(|user| rights.has_ended(user, subscription.login.as_ref()))
        });
    }

    /// Forgets the subscriptions of removed users: a later user of the name must not find them.
    pub fn forget_users(&self, is_removed: impl Fn(&str) -> bool) {
        self.forget_all("its user was removed", |subscription| {
            subscription.user.as_deref().is_some_and(&is_removed)
        });
    }

    /// Stops all subscriptions; queued messages stay in the sessions.
    pub(crate) async fn stop(&self) {
        let running = std::mem::take(&mut *self.0.running.lock());
        for running in running.values() {
            running.stop.send_replace(true);
        }
        for running in running.into_values() {
            let _ = running.task.await;
        }
    }

    /// Serves a subscription, after an earlier one of the same endpoint.
    fn begin(
        &self,
        id: &str,
        subscription: PushSubscription,
        earlier: Option<RunningSubscription>,
    ) -> Result<RunningSubscription, WebPushError> {
        let core = &self.0;
        let tls = core.tls.clone();
        let endpoint =
            PushEndpoint::new(&subscription, &core.settings, core.vapid_key.clone(), tls)?;
        let push_service = subscription.target(&core.settings)?.web_origin();
        let progress: Arc<SinkProgress> = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let name = &subscription.session;
        let user = subscription.user.as_deref();
        let work = DeliveryLoop {
            broker: core.broker.clone(),
            settings: SinkSettings {
                name: name.clone(),
                filters: subscription.topics.clone(),
                ..SinkSettings::default()
            },
            authorization: Some(core.rights.of_subscriber(
                user,
                subscription.login.as_ref(),
                &client_id(name),
            )),
            transport: Box::new(endpoint),
            concurrency: 1,
            digest: None,
            progress: Arc::clone(&progress),
            dead_letter: None,
            pace: RequestPace::new(0),
            stop: stopped,
        };
        let (this, id) = (self.clone(), id.to_owned());
        let own = Arc::clone(&progress);
        let task = gatepost_tasks::spawn_on(&core.runtime, async move {
            if let Some(earlier) = earlier {
                earlier.stop.send_replace(true);
                let _ = earlier.task.await;
            }
            if work.run().await == WorkEnd::Gone {
                let is_this = |running: &RunningSubscription| Arc::ptr_eq(&running.progress, &own);
                this.forget(&id, "the push service no longer knows it", is_this);
            }
        });
        Ok(RunningSubscription {
            subscription,
            push_service,
            progress,
            stop,
            task,
        })
    }

    fn forget(&self, id: &str, reason: &str, condition: impl FnOnce(&RunningSubscription) -> bool) {
        match self.remove_if(id, condition) {
            Ok(None) => {}
            Ok(Some(_)) => tracing::info!(target: "sinks", id, reason, "a subscription has ended"),
            Err(error) => tracing::warn!(target: "sinks", id, reason, %error,
                "an ended subscription could not be removed"),
        }
    }

    /// Ends a subscription, deleting its record first; returns `None` if no subscription satisfies
    /// the condition.
    fn remove_if(
        &self,
        id: &str,
        condition: impl FnOnce(&RunningSubscription) -> bool,
    ) -> Result<Option<Ticket>, StoreError> {
        let core = &self.0;
        let mut all = core.running.lock();
        if !all.get(id).is_some_and(condition) {
            return Ok(None);
        }
        let ticket = core.store.submit([delete(id)])?;
        let Some(removed) = all.remove(id) else {
            return Ok(None);
        };
        self.end(id, removed);
        Ok(Some(ticket))
    }

    /// Stops a subscription, and ends its session.
    fn end(&self, id: &str, removed: RunningSubscription) {
        let core = &self.0;
        let status = core.status_of(id, &removed);
        core.earlier.lock().add(SinkStatus {
            queued: 0,
            lag_seconds: 0,
            ..status
        });
        removed.stop.send_replace(true);
        let broker = core.broker.clone();
        gatepost_tasks::spawn_on(&core.runtime, async move {
            let _ = removed.task.await;
            end_session(&broker, &client_id(&removed.subscription.session)).await;
        });
    }

    pub(super) fn forget_expired(&self, now: SystemTime) {
        self.forget_all("it was not renewed", |one| one.has_ended(now));
    }

    fn forget_all(&self, reason: &str, is_over: impl Fn(&PushSubscription) -> bool) {
        let over: Vec<String> = {
            let running = self.0.running.lock();
            let over = running.iter().filter(|(_, one)| is_over(&one.subscription));
            over.map(|(id, _)| id.clone()).collect()
        };
        for id in over {
            self.forget(&id, reason, |one| is_over(&one.subscription));
        }
        if self.0.has_unserved.load(Ordering::Relaxed)
            && let Err(error) = self.forget_unserved(reason, is_over)
        {
            tracing::warn!(target: "sinks", %error,
                "ended subscriptions that are not served could not be removed");
        }
    }

    /// Removes the records of such subscriptions among those that the settings do not allow.
    fn forget_unserved(
        &self,
        reason: &str,
        is_over: impl Fn(&PushSubscription) -> bool,
    ) -> Result<(), StoreError> {
        let core = &self.0;
        let stored = load(&core.store)?;
        // Held, so that none of them is renewed meanwhile.
        let running = core.running.lock();
        for subscription in stored.into_iter().filter(is_over) {
            let id = id_of(&subscription.endpoint);
            if !running.contains_key(&id) {
                core.store.submit([delete(&id)])?;
                tracing::info!(target: "sinks", id, reason, "a subscription has ended");
            }
        }
        Ok(())
    }

    /// Forgets subscriptions that were not renewed, and those of logins that have expired; runs
    /// until dropped.
    async fn sweep(&self) {
        let (shortest, longest) = SWEEP_EVERY;
        let every = self.0.settings.expiry.duration() / 10;
        loop {
            tokio::time::sleep(every.clamp(shortest, longest)).await;
            // A clock that is far ahead ends no subscription until it has been confirmed.
            let now = self.0.store.time_for_ages();
            self.forget_expired(now);
            self.forget_ended_logins();
        }
    }
}

impl WebPushCore {
    /// Checks whether this subscription may be added to the others, or may replace the earlier one.
    fn check_room(
        &self,
        running: &BTreeMap<String, RunningSubscription>,
        id: &str,
        wanted: &PushSubscription,
    ) -> Result<(), WebPushError> {
        let earlier = running.get(id).map(|running| &running.subscription);
        if let Some(earlier) = earlier {
            if earlier.user == wanted.user {
                return Ok(());
            }
            // Another user of the same browser: the shared secret proves that the browser is the
            // same.
            if !earlier.has_secret_of(wanted) {
                return Err(WebPushError::Taken);
            }
        }
        let settings = &self.settings;
        if earlier.is_none() && running.len() >= settings.subscriptions_max {
            return Err(WebPushError::TooMany(settings.subscriptions_max));
        }
        let of_user = running
            .values()
            .filter(|one| one.subscription.user == wanted.user);
        if of_user.count() >= settings.subscriptions_per_user_max {
            return Err(WebPushError::TooMany(settings.subscriptions_per_user_max));
        }
        Ok(())
    }
}

/// Ends the sessions of removed subscriptions: all of them if Web Push is off.
pub(crate) fn end_unknown_sessions(broker: &Broker, runtime: &Handle, known: Option<&WebPush>) {
    let known: BTreeSet<String> = known.map_or_else(BTreeSet::new, |web_push| {
        let running = web_push.0.running.lock();
        let sessions = running
            .values()
            .map(|one| client_id(&one.subscription.session));
        sessions.collect()
    });
    let prefix = client_id(NAME_PREFIX);
    let (sessions, _) = broker.sessions(&prefix, 0, usize::MAX);
    for session in sessions.into_iter().map(|session| session.stats) {
        let is_push = session.user.is_none() && session.client.starts_with(&prefix);
        if is_push && !known.contains(&*session.client) {
            let broker = broker.clone();
            gatepost_tasks::spawn_on(runtime, async move {
                end_session(&broker, &session.client).await;
            });
        }
    }
}
