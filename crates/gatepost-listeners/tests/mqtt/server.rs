//! A server of its own for each test, on a free port.

use std::net::SocketAddr;
use std::sync::Arc;

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_gateway::Gateway;
use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::mqtt::{self, MqttContext, MqttSettings};
use gatepost_listeners::workers::{Workers, WorkersSettings};
use gatepost_message::Listener;
use gatepost_procedures::Procedures;
use gatepost_settings::Bind;
use gatepost_store::Store;
use gatepost_users::{AccessSettings, ListenerAuth, Users, UsersError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A running server; ends when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) broker: Broker,
    pub(crate) store: Store,
    pub(crate) users: Users,
    shutdown: watch::Sender<bool>,
    workers: Workers,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(BrokerSettings::default(), MqttSettings::default())
    }

    /// Waits for a change of users or rules.
    pub(crate) fn change<T>(&self, change: impl Future<Output = Result<T, UsersError>>) -> T {
        let runtime = self.runtime.as_ref().expect("running");
        runtime.block_on(change).expect("a change")
    }

    /// As an administrator does.
    pub(crate) fn end_sessions(&self, client_id: &str, user: Option<&str>) -> usize {
        let runtime = self.runtime.as_ref().expect("running");
        let ended = self.broker.end_sessions(client_id, user);
        runtime.block_on(ended).expect("durable")
    }

    /// With the users anna and otto, whose passwords are `secret`.
    pub(crate) fn with_users(settings: MqttSettings) -> Self {
        let server = Self::with(BrokerSettings::default(), settings);
        for name in ["anna", "otto"] {
            server.change(server.users.add(name, "secret".into(), false));
        }
        server
    }

    pub(crate) fn with(broker: BrokerSettings, settings: MqttSettings) -> Self {
        Self::with_judges(broker, settings, None)
    }

    /// As [`Server::with`], with procedures that judge publications.
    pub(crate) fn with_judges(
        broker: BrokerSettings,
        settings: MqttSettings,
        judges: Option<Procedures>,
    ) -> Self {
        let store = Store::in_memory().expect("a store");
        Self::with_store(broker, settings, judges, store)
    }

    /// As [`Server::with_judges`], over a database of the test's own.
    pub(crate) fn with_store(
        broker: BrokerSettings,
        settings: MqttSettings,
        judges: Option<Procedures>,
        store: Store,
    ) -> Self {
        let access = AccessSettings {
            scram_iterations: 4_096,
            ..AccessSettings::default()
        };
        let users = Users::open(store.clone(), &access).expect("users");
        Self::for_users(broker, settings, judges, store, users)
    }

    /// With users who may log in by tokens of an issuer.
    #[allow(dead_code)] // the measurement of memory alone needs it
    pub(crate) fn with_access(access: &AccessSettings, settings: MqttSettings) -> Self {
        let store = Store::in_memory().expect("a store");
        let users = Users::open(store.clone(), access).expect("users");
        Self::for_users(BrokerSettings::default(), settings, None, store, users)
    }

    fn for_users(
        broker: BrokerSettings,
        settings: MqttSettings,
        judges: Option<Procedures>,
        store: Store,
        users: Users,
    ) -> Self {
        let rights = mqtt::UsersRights(users.clone());
        let broker = Broker::open_with_rights(broker, store.clone(), &rights).expect("a broker");
        let gateway = judges
            .map(|procedures| Gateway::new(procedures, Arc::new(broker.clone()), store.clone()));
        let runtime = Runtime::new().expect("a runtime");
        let workers = Workers::start(&WorkersSettings::default()).expect("workers");
        let (shutdown, down) = watch::channel(false);
        let auth = ListenerAuth::new(users.clone(), Listener::Mqtt, settings.anonymous, true);
        let context = MqttContext::new(settings, broker.clone(), gateway, &SharedLimits::default());
        let context = Arc::new(context.with_auths(auth.clone(), auth));
        let bind: Bind = "127.0.0.1:0".parse().expect("an address");
        let acceptor = runtime.block_on(async { Acceptor::bind(&bind).expect("a free port") });
        let Bind::Tcp(address) = *acceptor.local() else {
            unreachable!("bound to TCP")
        };
        runtime.spawn(broker.clone().run(down.clone()));
        runtime.spawn(mqtt::follow_users(broker.clone(), users.clone()));
        runtime.spawn(mqtt::serve(acceptor, context, workers.clone(), down));
        Self {
            address,
            broker,
            store,
            users,
            shutdown,
            workers,
            runtime: Some(runtime),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.send_replace(true);
        self.workers.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
