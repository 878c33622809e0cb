//! Three nodes and three NATS servers, and what can be done to each.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::nats::{self, Nats};
use crate::network::{Host, Network};
use crate::support::Gateway;
use crate::{PLAIN, answer_on, await_joined_on, metrics_on};

/// Sizes of the disks that become full, in megabytes.
const NATS_DISK: u32 = 256;
const NODE_DISK: u32 = 512;
/// The longest time after a fault until all replicas are complete.
const REPLICAS_WITHIN: Duration = Duration::from_mins(2);
/// The time for which a server that led the others, and stood still, answers from what it had.
const OUTDATED_FOR: Duration = Duration::from_secs(2);
/// The pieces by which a disk is filled.
static PIECE: [u8; 1 << 16] = [0; 1 << 16];
const SETTINGS: &str = "rules.paths = []\nbroker.queue_messages_max = 10000000\n\
    broker.queue_bytes_max = \"1GB\"\nbackbone.partition_levels = 3\n\
    listeners.mqtt.anonymous = \"yes\"\n";

/// The setting of the time after which the nodes adopt sessions, if a campaign sets it.
fn adoption() -> String {
    let time = std::env::var("GATEPOST_TEST_CLUSTER_ADOPT_AFTER").unwrap_or_default();
    if time.is_empty() {
        return time;
    }
    format!("backbone.adopt_after = \"{time}\"\n")
}

/// The settings of a node's share of the cluster, with the partitions that a campaign sets.
fn cluster_settings(servers: &[Nats], node: u8) -> String {
    let settings = Nats::settings_of_all(servers, node);
    let Ok(partitions) = std::env::var("GATEPOST_TEST_CLUSTER_PARTITIONS") else {
        return settings;
    };
    if partitions.is_empty() {
        return settings;
    }
    let usual = format!("backbone.partitions = {}\n", nats::PARTITIONS);
    assert!(settings.contains(&usual), "{settings}");
    settings.replace(&usual, &format!("backbone.partitions = {partitions}\n"))
}

/// One machine of the cluster, by its place in [`Machines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    Node(usize),
    Nats(usize),
    /// The place of publishers and subscribers.
    Clients,
}

pub(crate) struct ClusterNode {
    host: Host,
    folder: PathBuf,
    settings: String,
    /// The library that shifts its clock, and the file of the shift.
    clock: [PathBuf; 2],
    gateway: Option<Gateway>,
    /// Its listener, which another start may move.
    pub(crate) mqtt: Arc<Mutex<SocketAddr>>,
    _own_folder: Option<tempfile::TempDir>,
}

impl ClusterNode {
    fn start(servers: &[Nats], number: u8, host: Host, disk: Option<PathBuf>) -> Self {
        let own = disk.is_none();
        let own = own.then(|| tempfile::tempdir().expect("a folder"));
        let folder = own.as_ref().map(|own| own.path().to_owned());
        let bind = format!("listeners.mqtt.bind = [\"{}:0\"]\n", host.address);
        let cluster = cluster_settings(servers, number);
        let folder = disk.or(folder).expect("one of both");
        let mut node = Self {
            clock: clock_library(&folder),
            host,
            folder,
            settings: [&cluster, SETTINGS, &adoption(), PLAIN, &bind].concat(),
            gateway: None,
            mqtt: Arc::new(Mutex::new(SocketAddr::from(([127, 0, 0, 1], 1)))),
            _own_folder: own,
        };
        node.start_again();
        node
    }

    pub(crate) fn start_again(&mut self) {
        if self.gateway.is_some() {
            return;
        }
        let [library, offset] = self.clock.each_ref().map(|path| path.display());
        let clock = format!("export LD_PRELOAD={library} CLOCK_OFFSET={offset}");
        let prefix = self.host.prefix().join(" ");
        let script = if prefix.is_empty() {
            clock
        } else {
            format!("{clock}; exec {prefix} -- \"$@\"")
        };
        let gateway = Gateway::start_after(&script, &self.folder, &self.settings);
        *self.mqtt.lock() = gateway.address("mqtt");
        self.gateway = Some(gateway);
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it runs")
    }

    fn kill(&mut self) {
        self.gateway.take().expect("it runs").kill();
    }

    fn set_clock(&self, seconds: i64) {
        let file = OpenOptions::new().write(true).open(&self.clock[1]);
        let written = file.and_then(|file| file.write_all_at(&seconds.to_ne_bytes(), 0));
        written.expect("the shift of the clock is written");
    }
}

/// Compiles `clock.c` into this folder, with no shift.
fn clock_library(folder: &Path) -> [PathBuf; 2] {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/faults/clock.c");
    let [library, offset] = [folder.join("libclock.so"), folder.join("clock-offset")];
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .expect("cc runs");
    assert!(status.success(), "clock.c is compiled");
    std::fs::write(&offset, 0_i64.to_ne_bytes()).expect("written");
    [library, offset]
}

pub(crate) struct Machines {
    pub(crate) servers: [Nats; 3],
    pub(crate) nodes: [ClusterNode; 3],
    /// Absent if they share this machine's loopback.
    pub(crate) network: Option<Network>,
    disks: [Option<PathBuf>; 2],
}

impl Machines {
    pub(crate) fn start(network: Option<Network>) -> Self {
        let host = |name: &str, number| match &network {
            Some(_) => Network::add_host(name, number),
            None => Host::loopback(),
        };
        let disk = |name, megabytes| network.as_ref().map(|_| Network::disk(name, megabytes));
        let disks = [disk("nats", NATS_DISK), disk("node", NODE_DISK)];
        let hosts = [("nats1", 11), ("nats2", 12), ("nats3", 13)];
        let hosts = hosts.map(|(name, number)| host(name, number));
        let servers = Nats::cluster_on(hosts, [None, None, disks[0].as_deref()]);
        let nodes = [("node1", 21), ("node2", 22), ("node3", 23)];
        let mut number = 0;
        let nodes = nodes.map(|(name, address)| {
            number += 1;
            let disk = (number == 1).then(|| disks[1].clone()).flatten();
            ClusterNode::start(&servers, number, host(name, address), disk)
        });
        let machines = Self {
            servers,
            nodes,
            network,
            disks,
        };
        machines.await_nodes();
        machines
    }

    pub(crate) fn await_nodes(&self) {
        for node in &self.nodes {
            await_joined_on(&node.host, node.gateway(), 2);
        }
    }

    /// Waits until each stream has three complete replicas. A stream that a node made while a NATS
    /// server was down has two at first: it has no leader if another server fails before it has the
    /// third.
    pub(crate) fn await_replicas(&self) {
        thread::sleep(OUTDATED_FOR);
        let deadline = Instant::now() + REPLICAS_WITHIN;
        for server in &self.servers {
            loop {
                let incomplete = server.incomplete_streams(self.servers.len() as u64);
                if incomplete.is_empty() {
                    break;
                }
                assert!(
                    Instant::now() < deadline,
                    "incomplete: {incomplete:?}\n{}",
                    self.report()
                );
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Metrics of the cluster, sessions and logs, for the reader of a failure.
    pub(crate) fn report(&self) -> String {
        let of_node = |node: &ClusterNode| {
            let sessions = ["", "/present", "/absent"].map(|one| {
                let path = format!("/admin/sessions{one}");
                answer_on(&node.host, node.gateway(), &path)
            });
            let metrics = metrics_on(&node.host, node.gateway());
            let metrics = metrics.lines();
            let of_cluster = metrics.filter(|line| line.starts_with("gatepost_backbone"));
            let of_cluster: Vec<&str> = of_cluster.collect();
            let parts = [
                of_cluster.join("\n"),
                sessions.join("\n"),
                node.gateway().log(),
            ];
            parts.join("\n")
        };
        let nodes = self.nodes.each_ref().map(of_node);
        let servers = self.servers.each_ref().map(Nats::log);
        [nodes, servers].concat().join("\n")
    }

    pub(crate) fn kill(&mut self, machine: Machine) {
        match machine {
            Machine::Node(number) => self.nodes[number].kill(),
            Machine::Nats(number) => self.servers[number].kill(),
            Machine::Clients => unreachable!("the clients are this process"),
        }
    }

    pub(crate) fn start_again(&mut self, machine: Machine) {
        match machine {
            Machine::Node(number) => self.nodes[number].start_again(),
            Machine::Nats(number) => self.servers[number].start_again(),
            Machine::Clients => unreachable!("the clients are this process"),
        }
    }

    /// Ends it in order, and starts it again.
    pub(crate) fn restart(&mut self, machine: Machine) {
        match machine {
            Machine::Node(number) => {
                let gateway = self.nodes[number].gateway.take().expect("it runs");
                assert_eq!(gateway.terminate(), Some(0));
            }
            Machine::Nats(number) => self.servers[number].terminate(),
            Machine::Clients => unreachable!("the clients are this process"),
        }
        self.start_again(machine);
    }

    /// Replaces each NATS server by one of another version, as an operator does: the next one when
    /// all replicas are complete.
    pub(crate) fn change_nats_version(&mut self) {
        for number in 0..self.servers.len() {
            let before = self.servers[number].version();
            self.servers[number].change_version();
            self.restart(Machine::Nats(number));
            assert_ne!(self.servers[number].version(), before);
            self.await_nodes();
            self.await_replicas();
        }
    }

    pub(crate) fn signal(&self, machine: Machine, name: &str) {
        match machine {
            Machine::Node(number) => self.nodes[number].gateway().signal(name),
            Machine::Nats(number) => self.servers[number].signal(name),
            Machine::Clients => unreachable!("the clients are this process"),
        }
    }

    pub(crate) fn set_clock(&self, machine: Machine, seconds: i64) {
        let Machine::Node(number) = machine else {
            unreachable!("no library comes between a NATS server and the clock")
        };
        self.nodes[number].set_clock(seconds);
    }

    pub(crate) fn host(&self, machine: Machine) -> &Host {
        match machine {
            Machine::Node(number) => &self.nodes[number].host,
            Machine::Nats(number) => self.servers[number].host(),
            Machine::Clients => &self.network.as_ref().expect("a network").clients,
        }
    }

    /// The NATS server that a node is connected to, as its log says.
    pub(crate) fn server_of(&self, node: usize) -> Machine {
        let log = self.nodes[node].gateway().log();
        let last_mention = |server: &Nats| log.rfind(&format!("server=\"{}\"", server.name()));
        let last =
            (0..self.servers.len()).max_by_key(|number| last_mention(&self.servers[*number]));
        Machine::Nats(last.expect("three servers"))
    }

    /// All hosts reach all others again.
    pub(crate) fn mend_cuts(&self) {
        let nodes = self.nodes.iter().map(|node| &node.host);
        let hosts = nodes.chain(self.servers.iter().map(Nats::host));
        for host in hosts.chain([self.host(Machine::Clients)]) {
            Network::mend_cuts(host);
        }
    }

    /// Leaves no space on the disk of NATS server 3, or of node 1.
    pub(crate) fn fill_disk(&self, machine: Machine) {
        let mut file = std::fs::File::create(self.filling(machine)).expect("a file");
        while file.write_all(&PIECE).is_ok() {}
    }

    pub(crate) fn free_disk(&self, machine: Machine) {
        std::fs::remove_file(self.filling(machine)).expect("removed");
    }

    fn filling(&self, machine: Machine) -> PathBuf {
        let disk = match machine {
            Machine::Nats(2) => &self.disks[0],
            Machine::Node(0) => &self.disks[1],
            _ => &None,
        };
        disk.as_ref().expect("a disk of its own").join("filling")
    }
}
