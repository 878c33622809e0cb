//! The services of a running server: everything between the sockets and the disk.
//!
//! A service starts after those it depends on. At the end the services that send messages stop
//! first, and the store closes last, so that each of them can still store its state.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gatepost_alarms::Alarms;
use gatepost_backbone::RunningBackbone;
use gatepost_bans::Bans;
use gatepost_broker::Broker;
use gatepost_gateway::{Attachments, DelayedMessages, Gateway};
use gatepost_listeners::http::HttpServices;
use gatepost_listeners::monitoring::StatsKeeper;
use gatepost_listeners::mqtt;
use gatepost_listeners::workers::Workers;
use gatepost_operations::learner::{Learner, LearnerThread};
use gatepost_operations::quarantine_digest::{QuarantineDigests, SharedDigestSettings};
use gatepost_operations::reload::ReloadRequest;
use gatepost_operations::{
    AskNodes, AuditLog, Operations, ProcedureFiles, RecentLog, RuleScores, SettingsInForce,
    UnsentMailStore,
};
use gatepost_procedures::{DeferredRules, ProcedureHost, Procedures};
use gatepost_sinks::{MailQueue, Sinks};
use gatepost_store::Store;
use gatepost_users::{Users, UsersError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::backbone;
use super::error::StartError;
use super::host;
use super::memory;
use super::other_nodes::{self, BackboneNodes};
use super::reload::Reloader;
use super::removed_users::RemovedUserData;
use super::rules::{self, RuleProblems};
use super::store;
use crate::config::{Config, ConfigSource, Layers, in_force};
use crate::security_report;
use crate::unjudged_mail;
use crate::users_marker;

/// The interval at which bans and scores that have ended are removed.
const BANS_SWEPT_EVERY: Duration = Duration::from_mins(1);

/// The services that listeners, reloads and the end of the server use.
pub(super) struct Services {
    /// The data folder.
    data: PathBuf,
    store: Store,
    learner: Arc<Learner>,
    problems: RuleProblems,
    pub(super) bans: Bans,
    pub(super) users: Users,
    pub(super) broker: Broker,
    backbone: Option<RunningBackbone>,
    mail: MailQueue,
    digest_settings: SharedDigestSettings,
    settings: SettingsInForce,
    pub(super) procedures: Procedures,
    learner_thread: LearnerThread,
    gateway: Gateway,
    delayed: DelayedMessages,
    sinks: Sinks,
    alarms: Alarms,
    stats: Arc<StatsKeeper>,
}

impl Services {
    /// Opens the store and starts all services. The rules are compiled in the background.
    pub(super) async fn start(config: &Config, layers: &Layers) -> Result<Self, StartError> {
        let store = store::open(config)?;
        let learner = open_learner(&store, config)?;
        // Before the learned data is read.
        let backbone = backbone::prepare(config, &store, &learner).await?;
        let problems = RuleProblems::default();
        let rules = rules::deferred(&config.rules, &learner, &problems);
        if rules::are_needed(config) {
            rules.load();
        }
        let bans = Bans::open(&config.bans(), store.clone())?;
        let users = Users::open_with_bans(store.clone(), &config.access, bans.clone())?;
        let rights = mqtt::UsersRights(users.clone());
        let joined = backbone::open_broker(config, backbone, &store, &rights).await;
        let (broker, backbone) = joined?;
        check_users(config, &users)?;
        log_exposure(config, &users);
        let mail = MailQueue::new(broker.clone());
        mail.use_smarthost(config.smarthost()?);
        mail.keep_unsent_in(Arc::new(UnsentMailStore::new(store.clone())));
        let host = host::open(&config.procedures, &store, &broker, &mail)?;
        let procedures = start_procedures(config, layers, rules, host)?;
        let learner_thread = LearnerThread::start(learner.clone(), procedures.clone())
            .map_err(StartError::Threads)?;
        let (gateway, delayed) = open_gateway(config, &broker, &store, &procedures)?;
        let sinks = start_sinks(mail.clone(), &store, rights, config)?;
        let alarms = start_alarms(&broker, &store, config)?;
        let stats = StatsKeeper::new(gateway.clone(), broker.clone(), store.clone());
        let stats = stats.with_sinks(sinks.clone()).with_alarms(alarms.clone());
        let stats = stats.with_learner(learner.clone());
        sinks.opened().await;
        Ok(Self {
            data: config.data.clone(),
            store,
            learner,
            problems,
            bans,
            users,
            broker,
            backbone,
            mail,
            digest_settings: SharedDigestSettings::new(&config.quarantine_digest),
            settings: SettingsInForce::new(in_force::settings(config, layers)),
            procedures,
            learner_thread,
            gateway,
            delayed,
            sinks,
            alarms,
            stats: Arc::new(stats),
        })
    }

    /// The services that HTTP listeners use.
    pub(super) fn for_http(
        &self,
        config: &Config,
        log: RecentLog,
        reloads: mpsc::Sender<ReloadRequest>,
    ) -> HttpServices {
        HttpServices {
            gateway: self.gateway.clone(),
            broker: self.broker.clone(),
            store: self.store.clone(),
            stats: self.stats.clone(),
            operations: Some(Operations {
                gateway: self.gateway.clone(),
                store: self.store.clone(),
                learner: self.learner.clone(),
                payload: config.listeners.smtp.payload,
                broker: self.broker.clone(),
                problems: self.problems.clone(),
                reloads,
                audit_log: AuditLog::of(&config.data),
                scores: RuleScores::of(&config.data),
                procedure_files: ProcedureFiles::new(
                    &config.procedures.path,
                    &config.data,
                    config.procedures.editable,
                    config.procedures.values_limits(),
                ),
                log,
                settings: self.settings.clone(),
                nodes: self.other_nodes(),
                releases_by_ticket: Arc::default(),
                mail: self.mail.clone(),
                mail_routes: None,
            }),
            sinks: Some(self.sinks.clone()),
            alarms: Some(self.alarms.clone()),
        }
    }

    fn other_nodes(&self) -> Option<Arc<dyn AskNodes>> {
        let backbone = self.backbone.as_ref()?;
        Some(Arc::new(BackboneNodes(backbone.questions())))
    }

    /// Answers the questions of other nodes.
    pub(super) fn answer_nodes(&self, operations: Option<&Operations>) {
        if let (Some(backbone), Some(operations)) = (&self.backbone, operations) {
            other_nodes::answer(&backbone.questions(), operations);
        }
    }

    /// The services that a reload of this source changes.
    pub(super) fn reloader<'a>(&'a self, source: &'a ConfigSource) -> Reloader<'a> {
        Reloader {
            source,
            procedures: &self.procedures,
            gateway: &self.gateway,
            store: &self.store,
            learner: &self.learner,
            problems: &self.problems,
            sinks: &self.sinks,
            mail: &self.mail,
            digest_settings: &self.digest_settings,
            settings: &self.settings,
            alarms: &self.alarms,
            broker: &self.broker,
        }
    }

    /// The parts of the server in which removed users may have left data.
    pub(super) fn removed_user_data(&self) -> RemovedUserData {
        RemovedUserData {
            broker: self.broker.clone(),
            sinks: self.sinks.clone(),
            users: self.users.clone(),
        }
    }

    /// Publishes statistics and counts of denied access, follows changes of users, removes expired
    /// bans, and returns memory.
    pub(super) fn start_upkeep(&self) {
        let (users, broker) = (&self.users, &self.broker);
        gatepost_tasks::spawn(self.stats.clone().run());
        gatepost_tasks::spawn(mqtt::follow_users(broker.clone(), users.clone()));
        publish_refusals(broker, users.clone());
        gatepost_tasks::spawn(forget_subscriptions(self.sinks.clone(), users.clone()));
        gatepost_tasks::spawn(self.removed_user_data().follow());
        gatepost_tasks::spawn(forget_senders(self.gateway.clone(), users.clone()));
        let gateway = self.gateway.clone();
        gatepost_tasks::spawn(async move { gateway.follow_senders().await });
        let is_of_cluster = self.backbone.is_some();
        let marker = users_marker::follow(self.data.clone(), users.clone(), is_of_cluster);
        gatepost_tasks::spawn(marker);
        let users = users.clone();
        gatepost_tasks::spawn(async move { users.follow().await });
        gatepost_tasks::spawn(sweep_bans(self.bans.clone()));
        gatepost_tasks::spawn(memory::return_memory_periodically());
    }

    /// Starts the tasks of the broker, of delayed messages and of digests, which end before the
    /// store does.
    pub(super) fn start_housekeeping(
        &self,
        operations: Option<&Operations>,
        is_down: watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let digests = operations.map(|operations| {
            let (mail, settings) = (self.mail.clone(), self.digest_settings.clone());
            QuarantineDigests::new(operations.clone(), mail, settings)
        });
        let (broker, delayed) = (self.broker.clone(), self.delayed.clone());
        let gateway = self.gateway.clone();
        gatepost_tasks::spawn(async move {
            tokio::join!(
                delayed.run(is_down.clone()),
                gateway.remove_expired_files(is_down.clone()),
                send_digests(digests, is_down.clone()),
                broker.run(is_down)
            );
        })
    }

    /// Ends the services once all listeners have closed: first those that publish by themselves,
    /// then those that carry messages to other servers, then the store after its last commit, and
    /// last the workers.
    pub(super) async fn end(self, workers: Workers) {
        self.alarms.stop().await;
        self.sinks.stop().await;
        if let Some(backbone) = self.backbone {
            backbone.stop().await;
        }
        self.learner_thread.end();
        self.store.close();
        workers.stop();
    }
}

/// Sends digests of the quarantine until the server ends.
async fn send_digests(digests: Option<QuarantineDigests>, is_down: watch::Receiver<bool>) {
    if let Some(digests) = digests {
        digests.run(is_down).await;
    }
}

/// Checks that a server that had users has not lost them. In a cluster, the users are those that
/// the cluster has.
fn check_users(config: &Config, users: &Users) -> Result<(), StartError> {
    if !config.backbone.is_set() {
        return Ok(users_marker::check(&config.data, users)?);
    }
    users.reload()?;
    if !users.are_known() {
        tracing::warn!(
            target: "users",
            "this server has never read the users of its cluster: it refuses clients that would \
             need no login on a server without users, until the NATS servers can be reached"
        );
    }
    Ok(users_marker::update(&config.data, users)?)
}

/// Opens the learned data.
fn open_learner(store: &Store, config: &Config) -> Result<Arc<Learner>, StartError> {
    let learner = Learner::open(&config.data, store, &config.rules)?;
    learner.map(Arc::new).ok_or(StartError::Learning)
}

/// Starts the procedures with the rules; mistakes that do not prevent it are logged.
fn start_procedures(
    config: &Config,
    layers: &Layers,
    rules: DeferredRules,
    host: ProcedureHost,
) -> Result<Procedures, StartError> {
    let (procedures, problems) = Procedures::start_in(config.procedures(), rules, host)
        .map_err(|problems| StartError::Procedures(crate::config::located(layers, &problems)))?;
    for mistake in crate::config::located(layers, &problems) {
        tracing::warn!(target: "procedures", "{mistake}");
    }
    Ok(procedures)
}

/// The gateway, with the messages for later between it and the broker.
fn open_gateway(
    config: &Config,
    broker: &Broker,
    store: &Store,
    procedures: &Procedures,
) -> Result<(Gateway, DelayedMessages), StartError> {
    let delayed = DelayedMessages::open(broker.clone(), store.clone(), &config.delayed)?;
    let gateway = Gateway::new(procedures.clone(), Arc::new(delayed.clone()), store.clone());
    gateway.set_journal_unjudged(config.store.journal_unjudged);
    let attachments = Attachments::open(&config.data, store.clone(), &config.attachments);
    gateway.use_attachments(attachments.map_err(StartError::Attachments)?);
    Ok((gateway, delayed))
}

/// Starts webhooks, bridges and notifications, on a thread of their own.
fn start_sinks(
    mail: MailQueue,
    store: &Store,
    rights: mqtt::UsersRights,
    config: &Config,
) -> Result<Sinks, StartError> {
    let sinks = Sinks::start(mail, &config.sink).map_err(StartError::Threads)?;
    sinks.start_web_push(store, Arc::new(rights), &config.web_push)?;
    Ok(sinks)
}

/// Starts the alarms, on a thread of their own.
fn start_alarms(broker: &Broker, store: &Store, config: &Config) -> Result<Alarms, StartError> {
    let alarms = Alarms::start(broker.clone(), store.clone(), &config.alarm);
    alarms.map_err(StartError::Threads)
}

/// Ends the notifications of users who are removed or disabled, and of tokens that are revoked;
/// runs until dropped.
async fn forget_subscriptions(sinks: Sinks, users: Users) {
    let mut changes = users.changes();
    while let Some(web_push) = sinks.web_push() {
        web_push.forget_ended_logins();
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Removes the lists of senders of users who are removed; runs until dropped.
async fn forget_senders(gateway: Gateway, users: Users) {
    let mut changes = users.changes();
    loop {
        for user in gateway.users_with_senders() {
            // The database is asked: in a cluster, it has a new user before a new list, while the
            // users in memory may be older than the lists in memory.
            let removed = match users.is_stored(&user) {
                Ok(true) => Ok(()),
                Ok(false) => gateway
                    .forget_senders_of(&user)
                    .await
                    .map_err(UsersError::from),
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::warn!(target: "users", user, %error,
                    "a removed user's list of senders remains");
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Periodically removes expired bans and scores; runs until dropped.
async fn sweep_bans(bans: Bans) {
    loop {
        tokio::time::sleep(BANS_SWEPT_EVERY).await;
        bans.sweep();
    }
}

/// Logs the exposure of the config, the warnings only; `gatepost check --security` shows all. Mail
/// that no scope judges is no warning: many servers receive none.
fn log_exposure(config: &Config, users: &Users) {
    for finding in security_report::report(config, Some(users.any())) {
        if finding.is_warning {
            tracing::warn!(target: "security", "{}", finding.text);
        }
    }
    if let Some(note) = unjudged_mail::note(config) {
        tracing::info!(target: "security", "{note}");
    }
}

/// Publishes counts of denied access under `$SYS`.
fn publish_refusals(broker: &Broker, users: Users) {
    broker.add_figures(move || {
        let refusals = users.refusals();
        vec![
            ("access/denied/publish".to_owned(), refusals.publications),
            ("access/denied/subscribe".to_owned(), refusals.subscriptions),
        ]
    });
}
