//! All sinks of the server: start, change and end.
//!
//! Sinks run on a thread of their own, so that templates and connections delay no listener.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

use gatepost_broker::{Broker, IN_PROCESS_PREFIX};
use gatepost_message::Topic;
use gatepost_store::Store;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::attempt::RequestPace;
use crate::bridge::{Bridge, RunningBridge};
use crate::delivery_loop::{DeliveryLoop, DigestSchedule};
use crate::field_mistake::FieldMistake;
use crate::file_text::digest_of;
use crate::mail::{
    MailQueue, MailSink, MailTransport, NO_SMARTHOST, OUTGOING_CONCURRENCY, OUTGOING_NAME,
    OutgoingSink, outgoing_settings,
};
use crate::session::client_id;
use crate::session_end::{end_session, forget_bridge_state};
use crate::settings::SinkSettings;
use crate::status::{SinkProgress, SinkState, SinkStatus};
use crate::transport::SinkTransport;
use crate::web_push::{self, SubscriberRights, WebPush, WebPushError, WebPushSettings};
use crate::webhook::Webhook;

/// The longest time for which stopping sinks may finish requests that have begun.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest time that the start of the server waits for the sessions of sinks.
const OPEN_TIME_MAX: Duration = Duration::from_secs(10);

/// One sink that is configured.
struct RunningSink {
    settings: SinkSettings,
    /// The digest of the files that the settings name, when the sink was started.
    files: Vec<u8>,
    kind: &'static str,
    target: String,
    progress: Arc<SinkProgress>,
    stop: watch::Sender<bool>,
    /// `None` for a sink that is switched off.
    task: Option<JoinHandle<()>>,
}

/// The work of a sink until it is stopped.
enum SinkTask {
    DeliveryLoop(Box<DeliveryLoop>),
    Bridge(Box<RunningBridge>),
}

impl SinkTask {
    /// The kind and the destination.
    fn named(&self) -> (&'static str, String) {
        match self {
            Self::DeliveryLoop(work) => (work.transport.kind(), work.transport.target()),
            Self::Bridge(work) => ("bridge", work.bridge.target()),
        }
    }

    async fn run(self) {
        match self {
            Self::DeliveryLoop(work) => {
                work.run().await;
            }
            Self::Bridge(work) => work.run().await,
        }
    }
}

struct SinksCore {
    broker: Broker,
    mail: MailQueue,
    runtime: Handle,
    running: Mutex<BTreeMap<String, RunningSink>>,
    web_push: OnceLock<WebPush>,
    thread: Mutex<Option<(ThreadHandle<()>, oneshot::Sender<()>)>>,
}

/// The sinks. Cheap to clone.
#[derive(Clone)]
pub struct Sinks(Arc<SinksCore>);

impl Sinks {
    /// Starts the sinks of these settings, which have been checked for mistakes.
    pub fn start(mail: MailQueue, settings: &[SinkSettings]) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("sinks".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
            })?;
        let sinks = Self(Arc::new(SinksCore {
            broker: mail.broker().clone(),
            mail,
            runtime: handle,
            running: Mutex::default(),
            web_push: OnceLock::new(),
            thread: Mutex::new(Some((thread, end))),
        }));
        sinks.apply(settings);
        sinks.end_unknown_sessions(settings);
        Ok(sinks)
    }

    /// Serves subscriptions of browsers, if the settings enable that.
    pub fn start_web_push(
        &self,
        store: &Store,
        rights: Arc<dyn SubscriberRights>,
        settings: &WebPushSettings,
    ) -> Result<(), WebPushError> {
        let (broker, runtime) = (&self.0.broker, &self.0.runtime);
        if settings.is_on() {
            let (broker, store) = (broker.clone(), store.clone());
            let started = WebPush::start(broker, store, rights, settings.clone(), runtime.clone())?;
            let _ = self.0.web_push.set(started);
        }
        web_push::end_unknown_sessions(broker, runtime, self.web_push());
        Ok(())
    }

    /// The subscriptions of browsers; `None` if they are switched off.
    pub fn web_push(&self) -> Option<&WebPush> {
        self.0.web_push.get()
    }

    /// The queue of mail that the server itself sends.
    pub fn mail(&self) -> &MailQueue {
        &self.0.mail
    }

    /// Waits, for a bounded time, until each sink has its session and so misses no later message.
    pub async fn opened(&self) {
        let all: Vec<_> = {
            let running = self.0.running.lock();
            let sinks = running.values();
            sinks.map(|sink| Arc::clone(&sink.progress)).collect()
        };
        let opened = async {
            for progress in all {
                progress.until_opened().await;
            }
        };
        if tokio::time::timeout(OPEN_TIME_MAX, opened).await.is_err() {
            tracing::warn!(target: "sinks", "some sinks have no session yet");
        }
    }

    /// Adds, changes and removes sinks, so that those of `settings` run. A sink is started again
    /// if a file that it names has changed. A removed sink ends, and its queued messages are
    /// discarded.
    pub fn apply(&self, settings: &[SinkSettings]) {
        let core = &self.0;
        let mut running = core.running.lock();
        let mut before = std::mem::take(&mut *running);
        // Without a smarthost, mail that waits is kept, as by a sink that is switched off.
        let is_on = core.mail.is_on();
        let has_outgoing = is_on || before.contains_key(OUTGOING_NAME);
        let outgoing = has_outgoing.then(|| SinkSettings {
            enabled: is_on,
            ..outgoing_settings()
        });
        for wanted in settings.iter().chain(&outgoing) {
            let earlier = before.remove(&wanted.name);
            let files = digest_of(wanted.files());
            let is_same = |sink: &RunningSink| {
                let is_stopped = sink.progress.state() == SinkState::Gone;
                sink.settings == *wanted && sink.files == files && !is_stopped
            };
            let sink = match earlier {
                Some(earlier) if is_same(&earlier) => earlier,
                earlier => self.begin(wanted, files, earlier),
            };
            running.insert(wanted.name.clone(), sink);
        }
        for (name, removed) in before {
            removed.stop.send_replace(true);
            let broker = core.broker.clone();
            gatepost_tasks::spawn_on(&core.runtime, async move {
                if let Some(task) = removed.task {
                    let _ = task.await;
                }
                end_session(&broker, &client_id(&name)).await;
                forget_bridge_state(&broker, &name);
            });
        }
    }

    /// Starts a sink, after an earlier one of its name has ended.
    fn begin(
        &self,
        settings: &SinkSettings,
        files: Vec<u8>,
        earlier: Option<RunningSink>,
    ) -> RunningSink {
        let core = &self.0;
        let (stop, stopped) = watch::channel(false);
        let (progress, before) = match earlier {
            Some(earlier) => {
                earlier.stop.send_replace(true);
                (earlier.progress, earlier.task)
            }
            None => (Arc::default(), None),
        };
        let mut running = RunningSink {
            settings: settings.clone(),
            files,
            kind: "",
            target: String::new(),
            progress: progress.clone(),
            stop,
            task: None,
        };
        let work = match self.work(settings, &progress, stopped) {
            Ok(work) => work,
            Err(mistake) => {
                // The settings were checked before, so only a file that has changed since leads
                // here.
                let reason = format!("{}: {}", mistake.field, mistake.reason);
                tracing::error!(target: "sinks", sink = settings.name, reason, "not started");
                progress.failed(&reason, SinkState::Gone);
                progress.opened();
                return running;
            }
        };
        (running.kind, running.target) = work.named();
        let is_enabled = settings.enabled;
        running.task = Some(gatepost_tasks::spawn_on(&core.runtime, async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            if is_enabled {
                progress.set_state(SinkState::Starting);
                work.run().await;
            } else {
                progress.set_state(SinkState::Off);
                progress.opened();
            }
        }));
        running
    }

    fn work(
        &self,
        settings: &SinkSettings,
        progress: &Arc<SinkProgress>,
        stop: watch::Receiver<bool>,
    ) -> Result<SinkTask, FieldMistake> {
        let broker = self.0.broker.clone();
        let (settings, progress) = (settings.clone(), Arc::clone(progress));
        let dead_letter = Topic::new(&settings.dead_letter).ok();
        if let Some(bridge) = &settings.bridge {
            let bridge = Bridge::new(&settings.name, bridge)?;
            return Ok(SinkTask::Bridge(Box::new(RunningBridge {
                broker,
                settings,
                bridge,
                progress,
                dead_letter,
                stop,
            })));
        }
        let (transport, pace) = self.transport(&settings)?;
        Ok(SinkTask::DeliveryLoop(Box::new(DeliveryLoop {
            broker,
            transport,
            authorization: None,
            concurrency: concurrency(&settings),
            digest: digest(&settings),
            progress,
            dead_letter,
            pace,
            stop,
            settings,
        })))
    }

    /// The transport of a sink that is no bridge.
    fn transport(
        &self,
        settings: &SinkSettings,
    ) -> Result<(Box<dyn SinkTransport>, RequestPace), FieldMistake> {
        let (name, smarthost) = (&settings.name, self.0.mail.smarthost());
        if name == OUTGOING_NAME {
            let transport = OutgoingSink::new(self.0.mail.clone());
            return Ok((Box::new(transport), RequestPace::new(0)));
        }
        if let Some(mail) = &settings.mail {
            let transport = MailSink::new(name, mail, smarthost)?;
            return Ok((Box::new(transport), RequestPace::new(0)));
        }
        let webhook = settings.webhook.clone().unwrap_or_default();
        let transport = Webhook::new(name, &webhook)?;
        Ok((Box::new(transport), RequestPace::new(webhook.rate_max)))
    }

    /// Ends the sessions that earlier runs of the server left for sinks that are no longer
    /// configured.
    fn end_unknown_sessions(&self, settings: &[SinkSettings]) {
        let broker = &self.0.broker;
        let (sessions, _) = broker.sessions(IN_PROCESS_PREFIX, 0, usize::MAX);
        for session in sessions.into_iter().map(|session| session.stats) {
            let name = session.client.strip_prefix(IN_PROCESS_PREFIX);
            let is_known =
                |name: &str| settings.iter().any(|sink| sink.name == name) || name == OUTGOING_NAME;
            let is_push = |name: &str| name.starts_with(web_push::NAME_PREFIX);
            if session.user.is_none() && name.is_some_and(|name| !is_known(name) && !is_push(name))
            {
                let broker = broker.clone();
                gatepost_tasks::spawn_on(&self.0.runtime, async move {
                    end_session(&broker, &session.client).await;
                    if let Some(name) = session.client.strip_prefix(IN_PROCESS_PREFIX) {
                        forget_bridge_state(&broker, name);
                    }
                });
            }
        }
    }

    /// The status of each sink, sorted by name.
    pub fn status(&self) -> Vec<SinkStatus> {
        let running = self.0.running.lock();
        let statuses = running.iter().map(|(name, sink)| {
            let mut status = SinkStatus {
                name: name.clone(),
                kind: sink.kind,
                target: sink.target.clone(),
                ..SinkStatus::default()
            };
            sink.progress.describe(&mut status);
            status.count_queue(&self.0.broker, &client_id(name));
            status
        });
        statuses
            .chain(self.web_push().map(WebPush::status))
            .collect()
    }

    /// Stops all sinks: requests that have begun may finish, waiting messages stay in the sessions.
    pub async fn stop(&self) {
        let sinks = std::mem::take(&mut *self.0.running.lock());
        for sink in sinks.values() {
            sink.stop.send_replace(true);
        }
        let all = async {
            for task in sinks.into_values().filter_map(|sink| sink.task) {
                let _ = task.await;
            }
            if let Some(web_push) = self.web_push() {
                web_push.stop().await;
            }
        };
        if tokio::time::timeout(STOP_TIME_MAX, all).await.is_err() {
            tracing::warn!(target: "sinks", "some sinks did not end in time");
        }
        let thread = self.0.thread.lock().take();
        if let Some((thread, end)) = thread {
            let _ = end.send(());
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Messages at once.
fn concurrency(settings: &SinkSettings) -> u16 {
    match &settings.webhook {
        Some(webhook) => webhook.concurrency,
        None if settings.name == OUTGOING_NAME => OUTGOING_CONCURRENCY,
        None => 1,
    }
}

/// The schedule of a sink that collects messages.
fn digest(settings: &SinkSettings) -> Option<DigestSchedule> {
    let mail = settings.mail.as_ref()?;
    let every = mail.digest_every.duration();
    (!every.is_zero()).then_some(DigestSchedule {
        every,
        messages_max: mail.digest_messages_max,
    })
}

/// Connects to the destination of a sink without sending a message; returns the destination's name
/// and the failure, if any.
pub async fn check(
    settings: &SinkSettings,
    smarthost: Option<Arc<dyn MailTransport>>,
) -> (String, Result<(), String>) {
    if settings.mail.is_some() {
        return match smarthost {
            Some(smarthost) => (smarthost.target(), smarthost.check().await),
            None => (String::new(), Err(NO_SMARTHOST.to_owned())),
        };
    }
    if let Some(bridge) = &settings.bridge {
        return match Bridge::new(&settings.name, bridge) {
            Ok(mut bridge) => (bridge.target(), bridge.check().await),
            Err(mistake) => (String::new(), Err(mistake.reason)),
        };
    }
    let webhook = settings.webhook.clone().unwrap_or_default();
    match Webhook::new(&settings.name, &webhook) {
        Ok(webhook) => (webhook.origin(), webhook.check().await),
        Err(mistake) => (String::new(), Err(mistake.reason)),
    }
}

#[cfg(test)]
mod tests;
