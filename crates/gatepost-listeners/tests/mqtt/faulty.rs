//! A server over a disk that can fail, and its clients.

use std::time::{Duration, Instant};

use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{Connect, Packet, PropertiesBuffer, Property, Reason, Version};

use crate::disk::Disk;
use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);

/// A server over a disk that can fail, whose clients speak one version of the protocol.
pub(crate) struct Faulty {
    pub(crate) disk: Disk,
    pub(crate) server: Server,
    version: Version,
}

impl Faulty {
    pub(crate) fn new(version: Version) -> Self {
        let (disk, store) = Disk::new();
        let server = server(store);
        Self {
            disk,
            server,
            version,
        }
    }

    /// The server that starts after a crash at this moment, and the folder of its database.
    pub(crate) fn after_a_crash(&self) -> (tempfile::TempDir, Server) {
        let (folder, store) = self.disk.after_a_crash();
        (folder, server(store))
    }

    pub(crate) fn begin(&self, client_id: &str) -> Wire {
        begin(&self.server, self.version, client_id)
    }

    pub(crate) fn lasting(&self, client_id: &str) -> Wire {
        lasting(&self.server, self.version, client_id)
    }

    /// A client whose session ends with its connection.
    pub(crate) fn passing(&self, client_id: &str) -> Wire {
        Wire::connected(self.server.address, self.version, client_id)
    }

    /// A session with a subscription, whose client is not connected.
    pub(crate) fn absent(&self, client_id: &str, qos: Qos) {
        let mut wire = self.lasting(client_id);
        wire.subscribe("a", qos);
        drop(wire);
        await_that("the subscriber is gone", || {
            self.server.broker.stats(0, 0).sessions_connected == 0
        });
    }

    pub(crate) fn await_messages(&self, count: u64) {
        await_that("the publications came", || {
            self.server.broker.stats(0, 0).messages_in >= count
        });
    }

    /// The memory has the subscriptions that the disk has.
    pub(crate) fn assert_same_subscriptions(&self) {
        let in_memory = self.server.broker.stats(0, 0).subscriptions;
        let mut on_disk = 0;
        let visited = self.server.store.each_subscription(|_| on_disk += 1);
        visited.expect("readable");
        assert_eq!(in_memory, on_disk, "{}", self.version);
    }
}

fn server(store: gatepost_store::Store) -> Server {
    let (broker, settings) = (BrokerSettings::default(), MqttSettings::default());
    Server::with_store(broker, settings, None, store)
}

pub(crate) fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a CONNECT for a session that lasts.
fn begin(server: &Server, version: Version, client_id: &str) -> Wire {
    let mut properties = PropertiesBuffer::new();
    if version == Version::Mqtt5 {
        properties
            .push(&Property::SessionExpiryInterval(1_000))
            .expect("short");
    }
    let mut wire = Wire::open(server.address, version);
    wire.send(&Packet::Connect(Connect {
        clean_start: false,
        properties: properties.as_properties(),
        ..plain_connect(version, client_id)
    }));
    wire
}

/// The CONNACK: its reason, and whether the session was present.
pub(crate) fn connack(wire: &mut Wire) -> (Reason, bool) {
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => (connack.reason, connack.session_present),
        other => panic!("not a CONNACK: {other:?}"),
    })
}

/// Connects as soon as the session can be stored.
pub(crate) fn lasting(server: &Server, version: Version, client_id: &str) -> Wire {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut wire = begin(server, version, client_id);
        let (reason, _) = connack(&mut wire);
        if reason == Reason::SUCCESS {
            return wire;
        }
        assert!(Instant::now() < deadline, "{reason}");
    }
}
