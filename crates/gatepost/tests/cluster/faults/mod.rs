//! Faults of a cluster under load: processes that are killed or stand still, networks that lose or
//! delay, full disks, and clocks that are set. Nothing that was acknowledged is lost, no message
//! arrives twice at QoS 2, and each topic keeps its order.
//!
//! Publishers are connected to the first node, and number what they publish. One subscriber is
//! connected to the second node, another was at the third once and returns after each series.
//!
//! Some faults happen once with all tests. `GATEPOST_TEST_CLUSTER_ROUNDS=300` runs a campaign of
//! all faults, or of those that `GATEPOST_TEST_CLUSTER_FAULTS='Kill;Stop'` names by how their text
//! begins. In two of three series, a fault lasts until the sessions of a node that it stops are
//! adopted, if `GATEPOST_TEST_CLUSTER_ADOPT_AFTER=1s` switches adoption on.
//! `GATEPOST_TEST_CLUSTER_PARTITIONS=1` sets the partitions of the log. If
//! `GATEPOST_TEST_NATS_OTHER` names the program of another version of nats-server, one fault of a
//! series replaces the NATS servers.

mod fault;
pub(crate) mod machines;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::clients::{Publisher, Signals, Subscriber};
use super::nats;
use super::network::{self, Network, Place};
use super::support::await_some;
use fault::{Effect, Fault, FaultTable};
use machines::Machines;

const PUBLISHERS_PER_QOS: usize = 2;
/// Acknowledgements of each publisher before a fault, and after it; more than can be under way.
const ACKNOWLEDGED: u64 = 50;
/// The times that a fault takes at least, in successive series. In the second one, a node loses its
/// key, and returns while others adopt its sessions; in the third one, later.
const HELD_FOR: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(12),
    Duration::from_secs(15),
];
/// The longest wait for acknowledgements: the engine's elections take seconds, and so does each
/// publication at QoS 2 in a slow network, where four changes are stored one after the other.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// The time for which publishers publish as fast as they can, after the begin and the end of a
/// fault.
const FAST_FOR: Duration = Duration::from_secs(1);
/// The longest time for a subscriber that receives all messages of a series at its end.
const SETTLED_WITHIN: Duration = Duration::from_mins(3);
/// The pause of a publisher or subscriber that lost its connection.
const RETRY_EVERY: Duration = Duration::from_millis(10);

#[test]
fn nothing_acknowledged_is_lost_by_faults_of_nodes_and_nats_servers() {
    if nats::program().is_some() {
        campaign(&fault::OF_PROCESSES, None);
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_faults_of_networks_and_disks() {
    if nats::program().is_none() {
        return;
    }
    let test = "faults::nothing_acknowledged_is_lost_by_faults_of_networks_and_disks";
    if let Place::Inside(network) = network::enter(test) {
        campaign(&fault::OF_HOSTS, Some(network));
    }
}

/// The faults that happen, and how many in all; with a number of rounds, further ones too.
fn chosen(table: &FaultTable) -> (Vec<(Fault, Effect)>, usize) {
    let named = std::env::var("GATEPOST_TEST_CLUSTER_FAULTS").unwrap_or_default();
    let rounds = std::env::var("GATEPOST_TEST_CLUSTER_ROUNDS").ok();
    let further = rounds.as_ref().map_or(&[][..], |_| table.further);
    let upgrade = nats::other_version().map(|_| &fault::NATS_UPGRADE);
    let faults = table.always.iter().chain(further).chain(upgrade);
    let is_named = |fault: &Fault| {
        let text = format!("{fault:?}");
        named.split(';').any(|begin| text.starts_with(begin))
    };
    let faults = faults.filter(|(fault, _)| is_named(fault));
    let faults: Vec<(Fault, Effect)> = faults.copied().collect();
    let rounds = rounds.map_or(faults.len(), |rounds| rounds.parse().expect("a number"));
    (faults, rounds)
}

fn campaign(table: &FaultTable, network: Option<Network>) {
    let (faults, rounds) = chosen(table);
    if faults.is_empty() {
        return; // GATEPOST_TEST_CLUSTER_FAULTS names faults of the other test.
    }
    let mut cluster = FaultyCluster::start(network);
    cluster.subscribe();
    let mut recoveries = BTreeMap::<String, Vec<Duration>>::new();
    for (round, (fault, effect)) in faults.iter().cycle().take(rounds).enumerate() {
        let held = HELD_FOR[round / faults.len() % HELD_FOR.len()];
        let begun = Instant::now();
        let recovery = cluster.round(*fault, *effect, held);
        println!(
            "round {round}, {fault:?}: recovered in {:.1} s, {:.1} s in all",
            recovery.as_secs_f32(),
            begun.elapsed().as_secs_f32()
        );
        recoveries
            .entry(format!("{fault:?}"))
            .or_default()
            .push(recovery);
        let is_end_of_series = (round + 1) % faults.len() == 0;
        if is_end_of_series || round + 1 == rounds {
            cluster.settle();
        }
    }
    let acknowledged = cluster.publishers.iter().map(|one| one.acknowledged.len());
    for (fault, mut times) in recoveries {
        times.sort_unstable();
        println!(
            "{fault}: {} times, recovered in {:.1} s (median), {:.1} s (longest)",
            times.len(),
            times[times.len() / 2].as_secs_f32(),
            times[times.len() - 1].as_secs_f32()
        );
    }
    println!(
        "{} acknowledged, none lost, none twice at QoS 2, all in order",
        acknowledged.sum::<usize>()
    );
}

struct FaultyCluster {
    machines: Machines,
    publishers: Vec<Publisher>,
    present: Subscriber,
    absent: Subscriber,
}

/// The state that the threads of the clients share.
struct Load {
    signals: Signals,
    is_over: AtomicBool,
    addresses: [Arc<Mutex<SocketAddr>>; 3],
    /// Acknowledgements of each publisher.
    counts: Vec<Arc<AtomicU64>>,
}

impl Load {
    fn address(&self, node: usize) -> SocketAddr {
        *self.addresses[node].lock()
    }

    /// Until the round is over, or everything is complete.
    fn publish(&self, publisher: &mut Publisher) {
        // A refusal ends the connection, and the publication is sent again.
        while publisher.run(self.address(0), &self.signals).is_err()
            && !self.is_over.load(Ordering::Acquire)
        {
            thread::sleep(RETRY_EVERY);
        }
    }

    fn receive(&self, subscriber: &mut Subscriber) {
        let is_over = |_: &Subscriber| self.is_over.load(Ordering::Acquire);
        while subscriber.run(self.address(1), is_over).is_err() && !is_over(subscriber) {
            thread::sleep(RETRY_EVERY);
        }
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Acquire))
    }

    /// The longest time without an acknowledgement for some publisher, until the round is over.
    fn longest_pause(&self) -> Duration {
        let mut since: Vec<(u64, Instant)> =
            self.counts().map(|count| (count, Instant::now())).collect();
        let mut longest = Duration::ZERO;
        while !self.is_over.load(Ordering::Acquire) {
            for (now, (count, since)) in self.counts().zip(&mut since) {
                longest = longest.max(since.elapsed());
                if now != *count {
                    (*count, *since) = (now, Instant::now());
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        longest
    }

    /// Waits for further acknowledgements of each publisher.
    fn await_acknowledged(&self, machines: &Machines) {
        let begun = Instant::now();
        self.signals.is_slow.store(false, Ordering::Release);
        let enough: Vec<u64> = self.counts().map(|count| count + ACKNOWLEDGED).collect();
        while self
            .counts()
            .zip(&enough)
            .any(|(count, enough)| count < *enough)
        {
            assert!(
                begun.elapsed() < WAIT_MAX,
                "not enough is acknowledged ({:?} of {enough:?}):\n{}",
                self.counts().collect::<Vec<u64>>(),
                machines.report()
            );
            // The others do not publish without end while one waits.
            if begun.elapsed() > FAST_FOR {
                self.signals.is_slow.store(true, Ordering::Release);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The end of the clients' threads, also when the test fails.
struct EndOfLoad<'a>(&'a Load);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.signals.finish.store(true, Ordering::Release);
        self.0.is_over.store(true, Ordering::Release);
    }
}

impl FaultyCluster {
    fn start(network: Option<Network>) -> Self {
        let publishers = [1, 2]
            .into_iter()
            .flat_map(|qos| (0..PUBLISHERS_PER_QOS).map(move |number| Publisher::new(qos, number)));
        Self {
            machines: Machines::start(network),
            publishers: publishers.collect(),
            present: Subscriber::new("present"),
            absent: Subscriber::new("absent"),
        }
    }

    fn addresses(&self) -> [Arc<Mutex<SocketAddr>>; 3] {
        self.machines.nodes.each_ref().map(|node| node.mqtt.clone())
    }

    /// Both subscribers exist before the first publication.
    fn subscribe(&mut self) {
        let addresses = self.addresses().map(|address| *address.lock());
        for (subscriber, address) in [
            (&mut self.present, addresses[1]),
            (&mut self.absent, addresses[2]),
        ] {
            let subscribed = subscriber.run(address, Subscriber::is_subscribed);
            subscribed.expect("no fault yet");
        }
    }

    /// Returns the time that publishers had to wait: the longest pause, or the time from the end of
    /// a fault for which they had to wait.
    fn round(&mut self, fault: Fault, effect: Effect, held: Duration) -> Duration {
        let load = Load {
            signals: Signals::default(),
            is_over: AtomicBool::new(false),
            addresses: self.addresses(),
            counts: self
                .publishers
                .iter()
                .map(|one| one.count.clone())
                .collect(),
        };
        let machines = &mut self.machines;
        let recovery = thread::scope(|scope| {
            let load = &load;
            let end = EndOfLoad(load);
            for publisher in &mut self.publishers {
                scope.spawn(move || load.publish(publisher));
            }
            let present = &mut self.present;
            scope.spawn(move || load.receive(present));
            load.await_acknowledged(machines);
            let pause = scope.spawn(|| load.longest_pause());
            let begun = Instant::now();
            fault.begin(machines);
            if effect == Effect::Continue {
                load.await_acknowledged(machines);
            }
            load.signals.is_slow.store(true, Ordering::Release);
            thread::sleep(held.saturating_sub(begun.elapsed()));
            let ended = Instant::now();
            fault.end(machines);
            load.await_acknowledged(machines);
            let since_end = ended.elapsed();
            drop(end);
            match effect {
                Effect::Continue => pause.join().expect("it counts"),
                Effect::Wait => since_end,
            }
        });
        self.machines.await_nodes();
        self.machines.await_replicas();
        recovery
    }

    /// The publishers complete their publications, and both subscribers get the rest. Then
    /// everything is accounted for.
    fn settle(&mut self) {
        let addresses = self.addresses().map(|address| *address.lock());
        let signals = Signals::default();
        signals.finish.store(true, Ordering::Release);
        for publisher in &mut self.publishers {
            await_some("the publications are complete", || {
                publisher.run(addresses[0], &signals).ok()
            });
        }
        let deadline = Instant::now() + SETTLED_WITHIN;
        for (subscriber, address) in [
            (&mut self.present, addresses[1]),
            (&mut self.absent, addresses[2]),
        ] {
            for publisher in &self.publishers {
                subscriber.expect(&publisher.topic, &publisher.acknowledged);
            }
            let is_enough = |one: &Subscriber| one.has_everything() || Instant::now() > deadline;
            // An adopter that was restarted itself refuses a session until a node begins again.
            while let Err(error) = subscriber.run(address, is_enough) {
                assert!(Instant::now() < deadline, "there is no fault: {error}");
                thread::sleep(RETRY_EVERY);
            }
        }
        if !self.present.has_everything() || !self.absent.has_everything() {
            println!("not everything has arrived:\n{}", self.machines.report());
        }
        self.present.check("present", &self.publishers);
        self.absent.check("absent", &self.publishers);
    }
}
