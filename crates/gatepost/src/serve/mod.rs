//! Serving: starts store, procedures, broker and, last, the listeners, and waits for signals.

pub(crate) mod backbone;
mod binding;
mod encryption;
mod error;
mod host;
pub(crate) mod huge_pages;
mod listener_auth;
mod listening;
mod log_limit;
mod log_lines;
mod logging;
mod memory;
mod notify;
mod other_nodes;
mod passed_sockets;
mod privileges;
mod reload;
mod removed_users;
mod rules;
mod sandbox;
mod services;
mod signals;
mod store;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use gatepost_listeners::in_flight::InFlight;
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::workers::Workers;
use gatepost_operations::RecentLog;
use gatepost_operations::reload::{ReloadRequest, requests};
use gatepost_users::Users;
use tokio::sync::{mpsc, watch};

use crate::config::{Config, ConfigSource, Layers};
use binding::BoundListener;
pub(crate) use encryption::Encryption;
use error::StartError;
use listening::OpenListeners;
use log_limit::LogLimit;
use notify::Notifier;
use passed_sockets::PassedSockets;
use reload::Reloader;
use services::Services;
use signals::{OperatorSignal, Signals};

/// Serves until SIGTERM or SIGINT. The source is read again at SIGHUP.
pub(crate) fn run(config: Config, layers: &Layers, source: &ConfigSource) -> ExitCode {
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
    // The folder of a Unix socket decides who may connect, not the umask of the start.
    rustix::process::umask(rustix::fs::Mode::empty());
    let bound = binding::bind_all(&config, &encryption, passed)?;
    // Files created from here on are for the server's own user: the database holds mail and hashes.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    privileges::drop_privileges(&config, layers)?;
    create_data_folder(&config.data);
    create_procedures_folder(&config);
    sandbox::enter(&config, source)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(StartError::Threads)?
        .block_on(async {
            let log = log_limit.recent();
            gatepost_tasks::spawn(log_limit.report());
            Box::pin(serve(
                config, layers, source, encryption, bound, notifier, log,
            ))
            .await
        })
}

/// Makes the data folder before the sandbox, which can permit only existing folders. If this fails,
/// opening the store reports the cause.
fn create_data_folder(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    let _ = builder.recursive(true).mode(0o700).create(folder);
}

/// Makes the folder of procedures too, if administrators may change it; a change reports the cause
/// of a failure.
fn create_procedures_folder(config: &Config) {
    if config.procedures.editable {
        let _ = std::fs::create_dir_all(&config.procedures.path);
    }
}

async fn serve(
    config: Config,
    layers: &Layers,
    source: &ConfigSource,
    encryption: Encryption,
    bound: Vec<BoundListener>,
    notifier: &Notifier,
    log: RecentLog,
) -> Result<(), StartError> {
    let mut signals = Signals::catch().map_err(StartError::Threads)?;
    let extending = notifier.extend_start();
    let services = Services::start(&config, layers).await;
    extending.abort();
    let services = services?;
    let workers = Workers::start(&config.workers).map_err(StartError::Threads)?;

    let (reloads, mut requested) = requests();
    let http_services = services.for_http(&config, log, reloads);
    let limits = SharedLimits {
        bans: Some(services.bans.clone()),
        in_flight: InFlight::new(&config.in_flight),
    };
    // A client of a later user must not find the session of the earlier one.
    services.removed_user_data().remove().await;
    let users = &services.users;
    let listening = OpenListeners::open(
        &config,
        encryption,
        bound,
        http_services,
        users,
        &limits,
        &workers,
    )?;
    services.start_upkeep();
    services.answer_nodes(listening.operations());
    let (down, is_down) = watch::channel(false);
    let housekeeping = services.start_housekeeping(listening.operations(), is_down);
    announce(&listening);
    notifier.ready();
    memory::give_back();
    notifier.start_notifications(
        services.broker.clone(),
        services.procedures.clone(),
        workers.clone(),
    );
    let reloader = services.reloader(source);
    while let Some(request) = next_reload(&mut signals, &mut requested).await {
        carry_out(request, &reloader, &listening, users, notifier);
    }
    notifier.stopping();
    tracing::info!("shutting down: listeners close, accepted work is finished");
    // First the listeners close, then the connections, then the store after its last commit.
    listening.close();
    let _ = down.send(true);
    let _ = housekeeping.await;
    listening.closed().await;
    services.end(workers).await;
    Ok(())
}

/// Waits for a reload, by a signal (`None` in it) or by the API; `None` when the server is to end.
async fn next_reload(
    signals: &mut Signals,
    requested: &mut mpsc::Receiver<ReloadRequest>,
) -> Option<Option<ReloadRequest>> {
    tokio::select! {
        signal = signals.next() => match signal {
            OperatorSignal::Reload => Some(None),
            OperatorSignal::Stop => None,
        },
        Some(request) = requested.recv() => Some(Some(request)),
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
