//! A server of its own for each test, on a free port.

use std::net::SocketAddr;
use std::sync::Arc;

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::gateway::Gateway;
use gatepost_listeners::mqtt::{self, MqttContext, MqttSettings};
use gatepost_listeners::workers::{Workers, WorkersSettings};
use gatepost_procedures::Procedures;
use gatepost_settings::Bind;
use gatepost_store::Store;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A running server; ends when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) broker: Broker,
    pub(crate) store: Store,
    shutdown: watch::Sender<bool>,
    workers: Workers,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(BrokerSettings::default(), MqttSettings::default())
    }

    pub(crate) fn with(broker: BrokerSettings, settings: MqttSettings) -> Self {
        Self::with_judges(broker, settings, None)
    }

    /// As [`Server::with`], with procedures that judge what is published.
    pub(crate) fn with_judges(
        broker: BrokerSettings,
        settings: MqttSettings,
        judges: Option<Procedures>,
    ) -> Self {
        let store = Store::in_memory().expect("a store");
        let broker = Broker::open(broker, store.clone()).expect("a broker");
        let gateway = judges
            .map(|procedures| Gateway::new(procedures, Arc::new(broker.clone()), store.clone()));
        let runtime = Runtime::new().expect("a runtime");
        let workers = Workers::start(&WorkersSettings::default()).expect("workers");
        let (shutdown, down) = watch::channel(false);
        let context = Arc::new(MqttContext::new(settings, broker.clone(), gateway));
        let bind: Bind = "127.0.0.1:0".parse().expect("an address");
        let acceptor = runtime.block_on(async { Acceptor::bind(&bind).expect("a free port") });
        let Bind::Tcp(address) = *acceptor.local() else {
            unreachable!("bound to TCP")
        };
        runtime.spawn(broker.clone().run(down.clone()));
        runtime.spawn(mqtt::serve(acceptor, context, workers.clone(), down));
        Self {
            address,
            broker,
            store,
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
