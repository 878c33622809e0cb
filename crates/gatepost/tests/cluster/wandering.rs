//! Clients that wander between nodes under load, some of which are killed: sessions move with them,
//! nothing acknowledged is lost, nothing arrives twice at QoS 2, and topics keep their order.
//!
//! Each client alternates between the nodes. A further client connects under the names of the
//! others, so that sessions also leave a live connection.
//!
//! One round of each kind happens with all tests; `GATEPOST_TEST_CLUSTER_ROUNDS` sets a number.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::clients::{Publisher, Signals, Subscriber};
use super::faults::machines::{Machine, Machines};
use super::support::await_some;
use super::wire::{Connection, Version};
use super::{metric, nats};

/// Acknowledgements of a round.
const ACKNOWLEDGED: u64 = 2_000;
/// The longest wait for acknowledgements: the engine's elections take seconds.
const WAIT_MAX: Duration = Duration::from_mins(2);
/// The pause between two takeovers.
const TAKEOVER_EVERY: Duration = Duration::from_millis(40);
/// The time for which clients wander after a node was killed: those whose session was there are
/// refused.
const WITHOUT_NODE_FOR: Duration = Duration::from_millis(300);
/// The rounds: the node that is killed in the middle, if one is.
const ROUNDS: [Option<usize>; 4] = [None, Some(0), None, Some(1)];

struct WanderingClients {
    machines: Machines,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
}

#[test]
fn sessions_follow_wandering_clients_without_loss() {
    if nats::program().is_none() {
        return;
    }
    let rounds = std::env::var("GATEPOST_TEST_CLUSTER_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS.len(), |rounds| rounds.parse().expect("a number"));
    let mut clients = WanderingClients::start();
    let mut moved = 0;
    for (round, killed) in ROUNDS.iter().cycle().take(rounds).enumerate() {
        let begun = Instant::now();
        moved += clients.round(*killed);
        println!(
            "round {round}, {killed:?}: {:.1} s, {moved} moves",
            begun.elapsed().as_secs_f32()
        );
    }
    clients.settle();
    for subscriber in &clients.subscribers {
        subscriber.check(&subscriber.client_id, &clients.publishers);
    }
    let acknowledged: usize = clients
        .publishers
        .iter()
        .map(|one| one.acknowledged.len())
        .sum();
    println!("{acknowledged} acknowledged, none lost, {moved} moves");
    assert!(moved >= rounds as u64, "{moved} moves in {rounds} rounds");
}

/// The address of a client's attempt.
fn address(addresses: [SocketAddr; 3], attempt: usize) -> SocketAddr {
    addresses[attempt % addresses.len()]
}

impl WanderingClients {
    fn start() -> Self {
        let publishers = [1, 2]
            .into_iter()
            .flat_map(|qos| (0..2).map(move |number| Publisher::new(qos, number)));
        let subscribers = (0..3).map(|number| Subscriber::new(&format!("wanderer-{number}")));
        let mut clients = Self {
            machines: Machines::start(None),
            publishers: publishers.collect(),
            subscribers: subscribers.collect(),
        };
        let addresses = clients.addresses();
        for (number, subscriber) in clients.subscribers.iter_mut().enumerate() {
            let subscribed = subscriber.run(address(addresses, number), Subscriber::is_subscribed);
            subscribed.expect("no fault yet");
        }
        clients
    }

    fn addresses(&self) -> [SocketAddr; 3] {
        self.machines.nodes.each_ref().map(|node| *node.mqtt.lock())
    }

    /// Runs all clients until enough is acknowledged; returns the number of moves.
    fn round(&mut self, killed: Option<usize>) -> u64 {
        let addresses = self.addresses();
        let (signals, is_over) = (&Signals::default(), &AtomicBool::new(false));
        let names = self.names();
        let machines = &mut self.machines;
        let moved_before = moves(machines);
        let mut moved = 0;
        thread::scope(|scope| {
            for (number, publisher) in self.publishers.iter_mut().enumerate() {
                scope.spawn(move || {
                    let mut attempt = number;
                    while publisher.run(address(addresses, attempt), signals).is_err()
                        && !is_over.load(Ordering::Acquire)
                    {
                        attempt += 1;
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            for (number, subscriber) in self.subscribers.iter_mut().enumerate() {
                scope.spawn(move || {
                    let is_enough = |_: &_| is_over.load(Ordering::Acquire);
                    let mut attempt = number;
                    while subscriber
                        .run(address(addresses, attempt), is_enough)
                        .is_err()
                        && !is_over.load(Ordering::Acquire)
                    {
                        attempt += 1;
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            scope.spawn(move || take_over(&names, addresses, is_over));
            await_acknowledged(signals, machines);
            moved = moves(machines) - moved_before;
            if let Some(killed) = killed {
                machines.kill(Machine::Node(killed));
                thread::sleep(WITHOUT_NODE_FOR);
            }
            signals.finish.store(true, Ordering::Release);
            is_over.store(true, Ordering::Release);
        });
        if let Some(killed) = killed {
            self.machines.start_again(Machine::Node(killed));
        }
        self.machines.await_nodes();
        moved
    }

    /// The names of all clients, with their versions.
    fn names(&self) -> Vec<(String, Version)> {
        let publishers = self.publishers.iter();
        let publishers = publishers.map(|one| (one.client_id.clone(), one.version));
        let subscribers = self.subscribers.iter();
        let subscribers = subscribers.map(|one| (one.client_id.clone(), Version::Mqtt311));
        publishers.chain(subscribers).collect()
    }

    /// The publishers complete their publications, and all subscribers get the rest.
    fn settle(&mut self) {
        let addresses = self.addresses();
        let signals = Signals::default();
        signals.finish.store(true, Ordering::Release);
        for (number, publisher) in self.publishers.iter_mut().enumerate() {
            await_some("the publications are complete", || {
                publisher.run(address(addresses, number), &signals).ok()
            });
        }
        let deadline = Instant::now() + WAIT_MAX;
        for (number, subscriber) in self.subscribers.iter_mut().enumerate() {
            for publisher in &self.publishers {
                subscriber.expect(&publisher.topic, &publisher.acknowledged);
            }
            let is_enough = |one: &Subscriber| one.has_everything() || Instant::now() > deadline;
            let received = subscriber.run(address(addresses, number), is_enough);
            received.expect("there are no more faults");
        }
    }
}

/// Waits until enough is acknowledged.
fn await_acknowledged(signals: &Signals, machines: &Machines) {
    let deadline = Instant::now() + WAIT_MAX;
    while signals.acknowledged.load(Ordering::Acquire) < ACKNOWLEDGED {
        assert!(
            Instant::now() < deadline,
            "too little is acknowledged:\n{}",
            machines.report()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sessions that have moved since the nodes were started.
fn moves(machines: &Machines) -> u64 {
    let name = "gatepost_backbone_sessions_adopted_total ";
    let nodes = machines.nodes.iter();
    nodes.map(|node| metric(node.gateway(), name)).sum()
}

/// Connects under the names of other clients, until the round is over.
fn take_over(names: &[(String, Version)], addresses: [SocketAddr; 3], is_over: &AtomicBool) {
    for (attempt, (name, version)) in names.iter().cycle().enumerate() {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        // The node may be one that was killed.
        let node = address(addresses, attempt / names.len());
        drop(Connection::open(node, *version, name));
        thread::sleep(TAKEOVER_EVERY);
    }
}
