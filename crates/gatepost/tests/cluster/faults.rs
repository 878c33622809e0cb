//! Faults of a cluster under load: nodes and NATS servers that are killed or stand still. Nothing
//! that was acknowledged is lost, no message arrives twice at QoS 2, and each topic keeps its
//! order.
//!
//! Publishers are connected to one node, and number what they publish. One subscriber is connected
//! to the other node, another was there once and returns at the end.
//!
//! Each fault happens once with all tests; `GATEPOST_TEST_CLUSTER_ROUNDS=300` runs a campaign.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::clients::{Publisher, Signals, Subscriber};
use super::nats::{self, Nats};
use super::support::{Gateway, await_some};
use super::{PLAIN, await_joined};

const PUBLISHERS_PER_QOS: usize = 2;
/// Acknowledgements before a fault, and after it.
const ACKNOWLEDGED: u64 = 200;
/// The time for which a NATS server stands still.
const STOPPED_FOR: Duration = Duration::from_secs(3);
/// The longest wait for acknowledgements: the engine's elections take seconds.
const WAIT_MAX: Duration = Duration::from_mins(2);
const SETTINGS: &str = "rules.paths = []\nbroker.queue_messages_max = 10000000\n\
    broker.queue_bytes_max = \"1GB\"\nbackbone.partition_levels = 3\n";

#[derive(Debug, Clone, Copy)]
enum Fault {
    KillPublishersNode,
    KillSubscribersNode,
    KillNats(usize),
    StopNats(usize),
}

const FAULTS: [Fault; 6] = [
    Fault::KillPublishersNode,
    Fault::KillNats(0),
    Fault::KillSubscribersNode,
    Fault::StopNats(1),
    Fault::KillNats(2),
    Fault::KillPublishersNode,
];

struct ClusterNode {
    folder: tempfile::TempDir,
    settings: String,
    gateway: Option<Gateway>,
}

impl ClusterNode {
    fn start(servers: &[Nats], number: u8) -> Self {
        let mut node = Self {
            folder: tempfile::tempdir().expect("a folder"),
            settings: format!(
                "{}{SETTINGS}{PLAIN}",
                Nats::settings_of_all(servers, number)
            ),
            gateway: None,
        };
        node.start_again();
        node
    }

    fn start_again(&mut self) {
        self.gateway
            .get_or_insert_with(|| Gateway::start_in(self.folder.path(), &self.settings));
    }

    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it runs")
    }

    fn kill(&mut self) {
        self.gateway.take().expect("it runs").kill();
    }
}

struct FaultyCluster {
    servers: [Nats; 3],
    /// The publishers' node, and the subscribers'.
    nodes: [ClusterNode; 2],
    publishers: Vec<Publisher>,
    present: Subscriber,
    absent: Subscriber,
}

#[test]
fn nothing_acknowledged_is_lost_by_faults_of_nodes_and_nats_servers() {
    if nats::program().is_none() {
        return;
    }
    let rounds = std::env::var("GATEPOST_TEST_CLUSTER_ROUNDS").ok();
    let rounds = rounds.map_or(FAULTS.len(), |rounds| rounds.parse().expect("a number"));
    let mut cluster = FaultyCluster::start();
    cluster.subscribe();
    for (round, fault) in FAULTS.iter().cycle().take(rounds).enumerate() {
        let begun = Instant::now();
        cluster.round(*fault);
        println!(
            "round {round}, {fault:?}: {:.1} s",
            begun.elapsed().as_secs_f32()
        );
    }
    cluster.settle();
    cluster.present.check("present", &cluster.publishers);
    cluster.absent.check("absent", &cluster.publishers);
    let acknowledged: usize = cluster
        .publishers
        .iter()
        .map(|one| one.acknowledged.len())
        .sum();
    println!("{acknowledged} acknowledged, none lost");
}

/// Waits for so many acknowledgements.
fn await_acknowledged(signals: &Signals, count: u64, gateway: &Gateway) {
    let deadline = Instant::now() + WAIT_MAX;
    while signals.acknowledged.load(Ordering::Acquire) < count {
        assert!(
            Instant::now() < deadline,
            "nothing is acknowledged:\n{}",
            gateway.log()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

impl FaultyCluster {
    fn start() -> Self {
        let servers = Nats::cluster();
        let nodes = [1, 2].map(|number| ClusterNode::start(&servers, number));
        let publishers = [1, 2]
            .into_iter()
            .flat_map(|qos| (0..PUBLISHERS_PER_QOS).map(move |number| Publisher::new(qos, number)));
        let cluster = Self {
            servers,
            nodes,
            publishers: publishers.collect(),
            present: Subscriber::new("present"),
            absent: Subscriber::new("absent"),
        };
        cluster.await_nodes();
        cluster
    }

    fn await_nodes(&self) {
        for node in &self.nodes {
            await_joined(node.gateway(), 1);
        }
    }

    /// Both subscribers exist before the first publication.
    fn subscribe(&mut self) {
        let address = self.nodes[1].gateway().address("mqtt");
        for subscriber in [&mut self.present, &mut self.absent] {
            let subscribed = subscriber.run(address, Subscriber::is_subscribed);
            subscribed.expect("no fault yet");
        }
    }

    fn round(&mut self, fault: Fault) {
        let addresses = self
            .nodes
            .each_ref()
            .map(|node| node.gateway().address("mqtt"));
        let signals = Signals::default();
        let is_over = AtomicBool::new(false);
        let [publishers_node, subscribers_node] = &mut self.nodes;
        thread::scope(|scope| {
            let (signals, is_over) = (&signals, &is_over);
            for publisher in &mut self.publishers {
                scope.spawn(move || {
                    // A refusal ends the connection, and the publication is sent again.
                    while publisher.run(addresses[0], signals).is_err()
                        && !is_over.load(Ordering::Acquire)
                    {
                        thread::sleep(Duration::from_millis(10));
                    }
                });
            }
            let present = &mut self.present;
            scope.spawn(move || {
                drop(present.run(addresses[1], |_| is_over.load(Ordering::Acquire)));
            });
            await_acknowledged(signals, ACKNOWLEDGED, publishers_node.gateway());
            match fault {
                Fault::KillPublishersNode => {
                    is_over.store(true, Ordering::Release);
                    return publishers_node.kill();
                }
                Fault::KillSubscribersNode => subscribers_node.kill(),
                Fault::KillNats(number) => self.servers[number].kill(),
                Fault::StopNats(number) => {
                    self.servers[number].signal("STOP");
                    thread::sleep(STOPPED_FOR);
                    self.servers[number].signal("CONT");
                }
            }
            let count = signals.acknowledged.load(Ordering::Acquire);
            await_acknowledged(signals, count + ACKNOWLEDGED, publishers_node.gateway());
            signals.finish.store(true, Ordering::Release);
            is_over.store(true, Ordering::Release);
        });
        if let Fault::KillNats(number) = fault {
            self.servers[number].start_again();
        }
        self.nodes.iter_mut().for_each(ClusterNode::start_again);
        self.await_nodes();
    }

    /// The publishers complete their publications, and both subscribers get the rest.
    fn settle(&mut self) {
        let addresses = self
            .nodes
            .each_ref()
            .map(|node| node.gateway().address("mqtt"));
        let signals = Signals::default();
        signals.finish.store(true, Ordering::Release);
        for publisher in &mut self.publishers {
            await_some("the publications are complete", || {
                publisher.run(addresses[0], &signals).ok()
            });
        }
        let deadline = Instant::now() + WAIT_MAX;
        for subscriber in [&mut self.present, &mut self.absent] {
            for publisher in &self.publishers {
                subscriber.expect(&publisher.topic, &publisher.acknowledged);
            }
            let is_enough = |one: &Subscriber| one.has_everything() || Instant::now() > deadline;
            let received = subscriber.run(addresses[1], is_enough);
            received.expect("there are no more faults");
        }
    }
}
