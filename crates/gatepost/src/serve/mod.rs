//! Serving: opens the rooms in the order of the flow, the listeners last, and waits for signals.

mod doors;
mod encryption;
mod error;
mod host;
mod huge_pages;
mod listening;
mod logging;
mod metrics;
mod operations;
mod reload;
mod rooms;
mod signals;
mod stats;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use gatepost_broker::Broker;
use gatepost_listeners::gateway::Gateway;
use gatepost_listeners::mqtt;
use gatepost_listeners::workers::Workers;
use gatepost_procedures::Procedures;
use gatepost_store::Store;
use gatepost_users::Users;
use tokio::sync::watch;

use crate::cli::ConfigSource;
use crate::config::{Config, Origins};
use crate::learning::{Learner, Lessons};
pub(crate) use encryption::Encryption;
use error::StartError;
use listening::Listening;
use operations::Operator;
use parking_lot::RwLock;
use reload::Reloader;
use rooms::Behind;
use signals::{Signals, Wish};
use stats::StatsKeeper;

/// Serves until SIGTERM or SIGINT. The source is read again at SIGHUP.
pub(crate) fn run(config: Config, origins: &Origins, source: &ConfigSource) -> ExitCode {
    logging::start(&config.log);
    let served = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(StartError::Threads)
        .and_then(|runtime| runtime.block_on(Box::pin(serve(config, origins, source))));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn serve(config: Config, origins: &Origins, source: &ConfigSource) -> Result<(), StartError> {
    raise_descriptor_limit();
    let mut signals = Signals::catch().map_err(StartError::Threads)?;
    let store = open_store(&config)?;
    let learner =
        Learner::open(&config.data, &store, &config.rules)?.ok_or(StartError::Learning)?;
    let learner = Arc::new(learner);
    let (rules, unusable) = reload::load_rules(&config.rules, &learner);
    let unusable = Arc::new(RwLock::new(unusable));
    let lessons = Lessons::start(learner.clone(), rules.learning_settings().clone())
        .map_err(StartError::Threads)?;
    let lessons = Arc::new(lessons);
    let users = Users::open(store.clone(), &config.access)?;
    let broker = Broker::open(config.broker.clone(), store.clone())?;
    let host = host::open(&config.procedures, &store, &broker)?;
    let (procedures, problems) = Procedures::start_in(config.procedures(), rules, host)
        .map_err(|problems| StartError::Procedures(crate::config::told(origins, &problems)))?;
    for mistake in crate::config::told(origins, &problems) {
        tracing::warn!(target: "procedures", "{mistake}");
    }
    let gateway = Gateway::new(procedures.clone(), Arc::new(broker.clone()), store.clone());
    gateway.set_journal_unjudged(config.store.journal_unjudged);
    let stats = Arc::new(StatsKeeper::new(gateway.clone(), broker.clone()));
    let workers = Workers::start(&config.workers).map_err(StartError::Threads)?;

    let (reloads, mut asked) = reload::requests();
    let operator = Operator {
        gateway: gateway.clone(),
        store: store.clone(),
        learner: learner.clone(),
        lessons: lessons.clone(),
        payload: config.listeners.smtp.payload,
        broker: broker.clone(),
        problems: unusable.clone(),
        reloads,
    };
    let behind = Behind {
        gateway: gateway.clone(),
        broker: broker.clone(),
        store: store.clone(),
        users: users.clone(),
        stats: stats.clone(),
    };
    let listening = Listening::open(&config, Arc::new(behind), operator, &workers)?;
    tokio::spawn(stats.run(stats::stats_topic()));
    tokio::spawn(mqtt::follow_users(broker.clone(), users.clone()));
    publish_refusals(&broker, users.clone());
    let followed = users.clone();
    tokio::spawn(async move { followed.follow().await });
    let (down, is_down) = watch::channel(false);
    let housekeeping = tokio::spawn(broker.clone().run(is_down));
    announce(&listening);
    if config.rules.warm_up {
        reload::warm_up(procedures.rules());
    }
    let reloader = Reloader {
        source,
        procedures: &procedures,
        gateway: &gateway,
        learner: &learner,
        lessons: &lessons,
        problems: &unusable,
    };
    loop {
        let request = tokio::select! {
            wish = signals.next() => match wish {
                Wish::Reload => None,
                Wish::End => break,
            },
            Some(request) = asked.recv() => Some(request),
        };
        let only_checks = request.as_ref().is_some_and(|request| request.only_checks);
        let report = reloader.reload(only_checks);
        if !only_checks {
            listening.reload();
            reload::reload_users(&users);
        }
        if let Some(request) = request {
            // Fails where nobody waits any more.
            let _ = request.reply.send(report);
        }
    }
    tracing::info!("ending: listeners close, what was accepted is finished");
    // First nobody new, then good-bye to those connected, then the last commit.
    listening.close();
    let _ = down.send(true);
    let _ = housekeeping.await;
    listening.closed().await;
    lessons.end();
    store.close();
    workers.stop();
    Ok(())
}

fn open_store(config: &Config) -> Result<Store, StartError> {
    let (store, recovery) = Store::open(&config.data, &config.store)?;
    if let Some(aside) = recovery.set_aside {
        tracing::warn!(
            target: "store",
            "the database was damaged; it is kept as {}, and {} rows of it were taken over{}",
            aside.display(),
            recovery.rows_recovered,
            if recovery.tables_incomplete.is_empty() {
                String::new()
            } else {
                format!("; not whole: {}", recovery.tables_incomplete.join(", "))
            }
        );
    }
    Ok(store)
}

/// Shows under `$SYS` what access rules denied.
fn publish_refusals(broker: &Broker, users: Users) {
    broker.add_figures(move || {
        let refusals = users.refusals();
        vec![
            ("access/denied/publish".to_owned(), refusals.publications),
            ("access/denied/subscribe".to_owned(), refusals.subscriptions),
        ]
    });
}

/// One line for each listener, and the dashboard's address last: whoever starts us from a script
/// reads these.
fn announce(listening: &Listening) {
    let mut output = std::io::stdout().lock();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // A closed standard output is no reason not to serve.
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
