//! Serving: starts store, procedures, broker and, last, the listeners, and waits for signals.

mod backbone;
mod binding;
mod encryption;
mod error;
mod host;
mod huge_pages;
mod listener_auth;
mod listening;
mod log_limit;
mod logging;
mod memory;
mod notify;
mod passed_sockets;
mod privileges;
mod reload;
mod rules;
mod sandbox;
mod signals;
mod store;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use gatepost_alarms::Alarms;
use gatepost_backbone::RunningBackbone;
use gatepost_bans::Bans;
use gatepost_broker::Broker;
use gatepost_gateway::{DelayedMessages, Gateway};
use gatepost_listeners::http::HttpServices;
use gatepost_listeners::in_flight::InFlight;
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::monitoring::StatsKeeper;
use gatepost_listeners::mqtt;
use gatepost_listeners::workers::Workers;
use gatepost_operations::learner::{Learner, LearnerThread};
use gatepost_operations::reload::{ReloadRequest, requests};
use gatepost_operations::{AuditLog, Operations};
use gatepost_procedures::{DeferredRules, ProcedureHost, Procedures};
use gatepost_sinks::{MailQueue, Sinks};
use gatepost_store::Store;
use gatepost_users::Users;
use tokio::sync::{mpsc, watch};

use crate::config::{Config, ConfigSource, Layers};
use crate::security_report;
use crate::users_marker;
use binding::BoundListener;
pub(crate) use encryption::Encryption;
use error::StartError;
use listening::OpenListeners;
use log_limit::LogLimit;
use notify::Notifier;
use passed_sockets::PassedSockets;
use reload::Reloader;
use rules::RuleProblems;
use signals::{OperatorSignal, Signals};

/// The interval at which bans and scores that have ended are removed.
const BANS_SWEPT_EVERY: Duration = Duration::from_mins(1);

/// Serves until SIGTERM or SIGINT. The source is read again at SIGHUP.
pub(crate) fn run(config: Config, layers: &Layers, source: &ConfigSource) -> ExitCode {
    huge_pages::only_for_rules();
    let log_limit = logging::start(&config.log);
    let passed = PassedSockets::take();
    let notifier = Notifier::from_environment();
    let started =
        passed.and_then(|passed| start(config, layers, source, log_limit, passed, &notifier));
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notifier.failed(&error);
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Performs the privileged steps, gives up the privileges, and serves. Until the sandbox is entered
/// there must be no second thread: privileges and sandbox are those of a thread and of its
/// children.
fn start(
    config: Config,
    layers: &Layers,
    source: &ConfigSource,
    log_limit: LogLimit,
    passed: PassedSockets,
    notifier: &Notifier,
) -> Result<(), StartError> {
    raise_descriptor_limit();
    let encryption = Encryption::open(&config)?;
    let bound = binding::bind_all(&config, &encryption, passed)?;
    // Files created from here on are for the server's own user: the database holds mail and hashes.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    privileges::drop_privileges(&config, layers)?;
    create_data_folder(&config.data);
    sandbox::enter(&config, source)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(StartError::Threads)?
        .block_on(async {
            tokio::spawn(log_limit.report());
            Box::pin(serve(config, layers, source, encryption, bound, notifier)).await
        })
}

/// Makes the data folder before the sandbox, which allows only what exists. If this fails, opening
/// the store reports the cause.
fn create_data_folder(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    let _ = builder.recursive(true).mode(0o700).create(folder);
}

async fn serve(
    config: Config,
    layers: &Layers,
    source: &ConfigSource,
    encryption: Encryption,
    bound: Vec<BoundListener>,
    notifier: &Notifier,
) -> Result<(), StartError> {
    let mut signals = Signals::catch().map_err(StartError::Threads)?;
    let store = store::open(&config)?;
    let learner = open_learner(&store, &config)?;
    let unusable = RuleProblems::default();
    let rules = rules::deferred(&config.rules, &learner, &unusable);
    if rules::are_needed(&config) {
        rules.load();
    }
    let bans = Bans::open(&config.bans(), store.clone())?;
    let users = Users::open_with_bans(store.clone(), &config.access, bans.clone())?;
    users_marker::check(&config.data, &users)?;
    log_exposure(&config, &users);
    let rights = mqtt::UsersRights(users.clone());
    let (broker, backbone) = backbone::open_broker(&config, &store, &rights).await?;
    let mail = MailQueue::new(broker.clone());
    mail.use_smarthost(config.smarthost()?);
    let host = host::open(&config.procedures, &store, &broker, &mail)?;
    let procedures = start_procedures(&config, layers, rules, host)?;
    let learner_thread =
        LearnerThread::start(learner.clone(), procedures.clone()).map_err(StartError::Threads)?;
    let (gateway, delayed) = open_gateway(&config, &broker, &store, &procedures)?;
    let sinks = start_sinks(mail.clone(), &store, rights, &config)?;
    let alarms = start_alarms(&broker, &store, &config)?;
    let stats = StatsKeeper::new(gateway.clone(), broker.clone(), store.clone());
    let stats = Arc::new(stats.with_sinks(sinks.clone()).with_alarms(alarms.clone()));
    sinks.opened().await;
    let workers = Workers::start(&config.workers).map_err(StartError::Threads)?;

    let (reloads, mut asked) = requests();
    let operations = Operations {
        gateway: gateway.clone(),
        store: store.clone(),
        learner: learner.clone(),
        payload: config.listeners.smtp.payload,
        broker: broker.clone(),
        problems: unusable.clone(),
        reloads,
        audit_log: AuditLog::of(&config.data),
        mail_routes: None,
    };
    let services = HttpServices {
        gateway: gateway.clone(),
        broker: broker.clone(),
        store: store.clone(),
        stats: stats.clone(),
        operations: Some(operations),
        sinks: Some(sinks.clone()),
        alarms: Some(alarms.clone()),
    };
    let limits = SharedLimits {
        bans: Some(bans.clone()),
        in_flight: InFlight::new(&config.in_flight),
    };
    let listening = OpenListeners::open(
        &config, encryption, bound, services, &users, &limits, &workers,
    )?;
    tokio::spawn(stats.run());
    start_upkeep(&broker, &sinks, &users, bans);
    let (down, is_down) = watch::channel(false);
    let housekeeping = tokio::spawn(keep_house(broker.clone(), delayed, is_down));
    announce(&listening);
    notifier.ready();
    memory::give_back();
    notifier.keep_informed(broker.clone(), procedures.clone(), workers.clone());
    let reloader = Reloader {
        source,
        procedures: &procedures,
        gateway: &gateway,
        store: &store,
        learner: &learner,
        problems: &unusable,
        sinks: &sinks,
        mail: &mail,
        alarms: &alarms,
        broker: &broker,
    };
    while let Some(request) = next_reload(&mut signals, &mut asked).await {
        carry_out(request, &reloader, &listening, &users, notifier);
    }
    notifier.stopping();
    tracing::info!("shutting down: listeners close, accepted work is finished");
    // First the listeners close, then the connections, then the store after its last commit.
    listening.close();
    let _ = down.send(true);
    let _ = housekeeping.await;
    listening.closed().await;
    end_carriers(&alarms, &sinks, backbone).await;
    learner_thread.end();
    store.close();
    workers.stop();
    Ok(())
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

/// Waits for a reload, by a signal (`None` in it) or by the API; `None` when the server is to end.
async fn next_reload(
    signals: &mut Signals,
    asked: &mut mpsc::Receiver<ReloadRequest>,
) -> Option<Option<ReloadRequest>> {
    tokio::select! {
        signal = signals.next() => match signal {
            OperatorSignal::Reload => Some(None),
            OperatorSignal::Stop => None,
        },
        Some(request) = asked.recv() => Some(Some(request)),
    }
}

/// Reloads, or checks what a reload would change, and reports the result to the requester, if there
/// is one.
fn carry_out(
    request: Option<ReloadRequest>,
    reloader: &Reloader<'_>,
    listening: &OpenListeners,
    users: &Users,
    notifier: &Notifier,
) {
    let only_checks = request.as_ref().is_some_and(|request| request.only_checks);
    if !only_checks {
        notifier.reloading();
    }
    let report = reloader.reload(only_checks);
    if !only_checks {
        listening.reload();
        reload::reload_users(users);
        notifier.ready();
    }
    if let Some(request) = request {
        // Fails if the receiver is gone.
        let _ = request.reply.send(report);
    }
}

/// Opens the learned data.
fn open_learner(store: &Store, config: &Config) -> Result<Arc<Learner>, StartError> {
    let learner = Learner::open(&config.data, store, &config.rules)?;
    learner.map(Arc::new).ok_or(StartError::Learning)
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
    Ok((gateway, delayed))
}

/// The tasks of the broker, and of messages for later, that end before the store does.
async fn keep_house(broker: Broker, delayed: DelayedMessages, is_down: watch::Receiver<bool>) {
    tokio::join!(delayed.run(is_down.clone()), broker.run(is_down));
}

/// Starts the alarms, on a thread of their own.
fn start_alarms(broker: &Broker, store: &Store, config: &Config) -> Result<Alarms, StartError> {
    let alarms = Alarms::start(broker.clone(), store.clone(), &config.alarm);
    alarms.map_err(StartError::Threads)
}

/// Ends what publishes by itself and what carries messages to other servers, in this order.
async fn end_carriers(alarms: &Alarms, sinks: &Sinks, backbone: Option<RunningBackbone>) {
    alarms.stop().await;
    sinks.stop().await;
    if let Some(backbone) = backbone {
        backbone.stop().await;
    }
}

/// Follows changes of users, publishes counts of denied access, removes expired bans, and returns
/// memory.
fn start_upkeep(broker: &Broker, sinks: &Sinks, users: &Users, bans: Bans) {
    tokio::spawn(mqtt::follow_users(broker.clone(), users.clone()));
    publish_refusals(broker, users.clone());
    tokio::spawn(forget_subscriptions(sinks.clone(), users.clone()));
    let users = users.clone();
    tokio::spawn(async move { users.follow().await });
    tokio::spawn(sweep_bans(bans));
    tokio::spawn(memory::return_memory_periodically());
}

/// Ends the notifications of users who are removed or disabled; runs until dropped.
async fn forget_subscriptions(sinks: Sinks, users: Users) {
    let mut changes = users.changes();
    while let Some(web_push) = sinks.web_push() {
        web_push.forget_users(|user| users.owner(Some(user), "").is_revoked());
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

/// Logs the exposure of the config, the warnings only; `gatepost check --security` shows all.
fn log_exposure(config: &Config, users: &Users) {
    for finding in security_report::report(config, Some(users.any())) {
        if finding.is_warning {
            tracing::warn!(target: "security", "{}", finding.text);
        }
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

/// Prints one line for each listener, and the dashboard's address last. Scripts that start the
/// server read these lines.
fn announce(listening: &OpenListeners) {
    let mut output = std::io::stdout().lock();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // The server runs even if standard output is closed.
        let _ = writeln!(output, "{text}");
    };
    line(format_args!("gatepost {}", env!("CARGO_PKG_VERSION")));
    for address in listening.addresses() {
        line(format_args!("  {address}"));
    }
    if let Some(address) = listening.dashboard() {
        line(format_args!("  {:<10} {address}", "dashboard"));
    }
    let _ = output.flush();
}

/// Each connection takes a descriptor; the soft limit is often far below what is allowed.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}
