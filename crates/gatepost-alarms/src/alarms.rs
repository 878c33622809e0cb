//! All alarms of the server: start, change and end.
//!
//! Alarms run on a thread of their own, so that no listener waits while payloads are parsed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

use gatepost_broker::Broker;
use gatepost_message::TopicFilter;
use gatepost_store::Store;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;

use crate::running::{AlarmClock, RunningAlarm, retire};
use crate::settings::AlarmSettings;
use crate::status::AlarmStatus;
use crate::stored;
use crate::watch::AlarmWatch;

/// The time that stopping alarms may take to store their states.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// No alarm has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownAlarm;

/// One alarm that is configured.
struct ConfiguredAlarm {
    alarm: Arc<RunningAlarm>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

struct AlarmsCore {
    broker: Broker,
    store: Store,
    clock: AlarmClock,
    runtime: Handle,
    configured: Mutex<BTreeMap<String, ConfiguredAlarm>>,
    thread: Mutex<Option<(ThreadHandle<()>, oneshot::Sender<()>)>>,
}

/// The alarms. Cheap to clone.
#[derive(Clone)]
pub struct Alarms(Arc<AlarmsCore>);

impl Alarms {
    /// Starts the alarms of these settings, which have been checked for mistakes.
    pub fn start(broker: Broker, store: Store, settings: &[AlarmSettings]) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("alarms".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
            })?;
        let alarms = Self(Arc::new(AlarmsCore {
            broker,
            store,
            clock: AlarmClock::start(),
            runtime: handle,
            configured: Mutex::default(),
            thread: Mutex::new(Some((thread, end))),
        }));
        alarms.apply(settings);
        Ok(alarms)
    }

    /// Adds, changes and removes alarms, so that those of `settings` run. A removed alarm that was
    /// raised is cleared.
    pub fn apply(&self, settings: &[AlarmSettings]) {
        let mut configured = self.0.configured.lock();
        let mut before = std::mem::take(&mut *configured);
        for wanted in settings {
            let Ok(filter) = TopicFilter::new(&wanted.filter) else {
                // Such settings were refused by the earlier check.
                continue;
            };
            let running = match before.remove(&wanted.name) {
                Some(earlier) if earlier.alarm.settings == *wanted => earlier,
                earlier => self.begin(wanted, filter, earlier),
            };
            configured.insert(wanted.name.clone(), running);
        }
        let kept: Vec<String> = configured.keys().cloned().collect();
        drop(configured);
        let core = self.0.clone();
        gatepost_tasks::spawn_on(&self.0.runtime, async move {
            for removed in before.into_values() {
                removed.stop.send_replace(true);
                let _ = removed.task.await;
            }
            // The states that these alarms have stored are read next.
            core.store.flush().await;
            core.retire_others(&kept);
        });
    }

    /// Starts an alarm, after an earlier one of its name has ended.
    fn begin(
        &self,
        settings: &AlarmSettings,
        filter: TopicFilter,
        earlier: Option<ConfiguredAlarm>,
    ) -> ConfiguredAlarm {
        let core = &self.0;
        let alarm = Arc::new(RunningAlarm {
            broker: core.broker.clone(),
            store: core.store.clone(),
            clock: core.clock,
            watch: Mutex::new(AlarmWatch::new(settings, &filter)),
            settings: settings.clone(),
            filter,
            woken: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let running = alarm.clone();
        let store = core.store.clone();
        let task = gatepost_tasks::spawn_on(&core.runtime, async move {
            if let Some(earlier) = earlier {
                earlier.stop.send_replace(true);
                let _ = earlier.task.await;
                // The states that the earlier alarm has stored are read next.
                store.flush().await;
            }
            running.run(stopped).await;
        });
        ConfiguredAlarm { alarm, stop, task }
    }

    /// The alarms, sorted by name, each with up to `count` of the topics that it is raised for.
    pub fn status(&self, count: usize) -> Vec<AlarmStatus> {
        let configured = self.0.configured.lock();
        let now = self.0.clock.now();
        let statuses = configured.values().map(|one| {
            let settings = &one.alarm.settings;
            let mut status = AlarmStatus {
                name: settings.name.clone(),
                filter: settings.filter.clone(),
                ..AlarmStatus::default()
            };
            status.describe(&one.alarm.watch.lock(), count, now.steady);
            status
        });
        statuses.collect()
    }

    fn change(
        &self,
        alarm: &str,
        change: impl FnOnce(&RunningAlarm, &mut AlarmWatch) -> usize,
    ) -> Result<usize, UnknownAlarm> {
        let configured = self.0.configured.lock();
        let alarm = &configured.get(alarm).ok_or(UnknownAlarm)?.alarm;
        let changed = change(alarm, &mut alarm.watch.lock());
        alarm.woken.notify_one();
        Ok(changed)
    }

    /// Acknowledges an alarm, for one topic or all: it is not published again while it remains
    /// raised. Returns the number of topics.
    pub fn acknowledge(
        &self,
        alarm: &str,
        topic: Option<&str>,
        by: &str,
    ) -> Result<usize, UnknownAlarm> {
        self.change(alarm, |_, watch| watch.acknowledge(topic, by))
    }

    /// Suppresses an alarm's notices for a time, for one topic or all; a time of zero ends that.
    /// Returns the number of topics.
    pub fn snooze(
        &self,
        alarm: &str,
        topic: Option<&str>,
        time: Duration,
    ) -> Result<usize, UnknownAlarm> {
        self.change(alarm, |alarm, watch| {
            watch.snooze(topic, time, alarm.clock.now())
        })
    }

    /// Stops watching a topic until the next message on it. Returns whether it was watched.
    pub fn forget(&self, alarm: &str, topic: &str) -> Result<usize, UnknownAlarm> {
        self.change(alarm, |alarm, watch| {
            usize::from(watch.forget(topic, alarm.clock.now()))
        })
    }

    /// Stops all alarms; their states are kept for the next start.
    pub async fn stop(&self) {
        let configured = std::mem::take(&mut *self.0.configured.lock());
        for one in configured.values() {
            one.stop.send_replace(true);
        }
        let all = async {
            for one in configured.into_values() {
                let _ = one.task.await;
            }
        };
        if tokio::time::timeout(STOP_TIME_MAX, all).await.is_err() {
            tracing::warn!(target: "alarms", "some alarms did not end in time");
        }
        let thread = self.0.thread.lock().take();
        if let Some((thread, end)) = thread {
            let _ = end.send(());
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl AlarmsCore {
    /// Clears and deletes the stored states of alarms with other names.
    fn retire_others(&self, kept: &[String]) {
        let others = || {
            let mut names = stored::names(&self.store)?;
            names.retain(|name| !kept.contains(name));
            let mut all = Vec::new();
            for name in names {
                let topics = stored::of_alarm(&self.store, &name)?;
                all.extend(topics.into_iter().map(|topic| (name.clone(), topic)));
            }
            Ok::<_, gatepost_store::StoreError>(all)
        };
        match others() {
            Ok(all) => {
                for (name, known) in all {
                    retire(&self.broker, &self.store, &name, known);
                }
            }
            Err(error) => tracing::error!(target: "alarms", %error,
                "the stored states of removed alarms cannot be read"),
        }
    }
}
