//! The faults: each begins and ends.

use super::machines::Machine::{self, Clients, Nats, Node};
use super::machines::Machines;
use crate::network::Network;

/// A fault that lasts for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The end by `kill -9`, and a start at the end.
    Kill(&'static [Machine]),
    /// SIGSTOP, and SIGCONT at the end.
    Stop(Machine),
    /// The end in order and another start of each NATS server, then of each node, under load.
    RollingRestart,
    /// The replacement of each NATS server by one of another version, one after the other.
    NatsUpgrade,
    /// Losses of what the first ones send to the others.
    OneWay(&'static [Machine], &'static [Machine]),
    /// Losses of what they send to each other.
    Partition(&'static [Machine], &'static [Machine]),
    /// The NATS server of this node, cut off from the other NATS servers: it stores nothing.
    ServerAlone(usize),
    /// Delay and losses of what it sends and receives.
    SlowNetwork(Machine),
    /// Lack of space for its data.
    FullDisk(Machine),
    /// The setting of its clock by so many seconds while it runs, and back.
    ClockSet(Machine, i64),
    /// A kill with a start under another clock; the same with the right clock at the end.
    ClockSetAtStart(Machine, i64),
}

/// The effect on publishers of the first node while the fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Acknowledgements, after an election at most.
    Continue,
    /// Acknowledgements only after its end.
    Wait,
}

/// Faults of one kind.
pub(crate) struct FaultTable {
    /// The faults that happen with all tests.
    pub(crate) always: &'static [(Fault, Effect)],
    /// Faults from which the NATS servers recover late, or that resemble others.
    pub(crate) further: &'static [(Fault, Effect)],
}

/// The fault that needs another version of nats-server: up in a series, back in the next one.
pub(crate) const NATS_UPGRADE: (Fault, Effect) = (Fault::NatsUpgrade, Effect::Continue);

const ALL_NODES: &[Machine] = &[Node(0), Node(1), Node(2)];
const ALL_NATS: &[Machine] = &[Nats(0), Nats(1), Nats(2)];

/// Faults of processes, which need no hosts of their own.
pub(crate) const OF_PROCESSES: FaultTable = FaultTable {
    always: &[
        (Fault::Kill(&[Node(0)]), Effect::Wait),
        (Fault::Kill(&[Nats(0)]), Effect::Continue),
        (Fault::Kill(&[Node(1)]), Effect::Continue),
        (Fault::Stop(Nats(1)), Effect::Continue),
        (Fault::Kill(&[Nats(0), Nats(1)]), Effect::Wait),
        (Fault::Stop(Node(0)), Effect::Wait),
        (Fault::ClockSet(Node(0), 60), Effect::Continue),
        (Fault::Stop(Node(1)), Effect::Continue),
        (Fault::ClockSetAtStart(Node(0), -60), Effect::Continue),
        (Fault::RollingRestart, Effect::Continue),
        (Fault::Kill(&[Node(0)]), Effect::Wait),
    ],
    further: &[
        (Fault::Kill(&[Nats(2)]), Effect::Continue),
        (Fault::Kill(&[Node(2)]), Effect::Continue),
        (Fault::ClockSet(Node(1), -60), Effect::Continue),
        (Fault::ClockSetAtStart(Node(1), 60), Effect::Continue),
        (Fault::Kill(&[Nats(1), Node(0)]), Effect::Wait),
        (Fault::Stop(Nats(0)), Effect::Continue),
        (Fault::Stop(Nats(2)), Effect::Continue),
        (Fault::Kill(ALL_NODES), Effect::Wait),
        (Fault::Kill(ALL_NATS), Effect::Wait),
    ],
};

/// Faults of networks and disks, which hosts of their own have.
pub(crate) const OF_HOSTS: FaultTable = FaultTable {
    always: &[
        (Fault::Partition(&[Node(0)], ALL_NATS), Effect::Wait),
        (Fault::SlowNetwork(Node(0)), Effect::Continue),
        (Fault::OneWay(&[Node(0)], ALL_NATS), Effect::Wait),
        (Fault::FullDisk(Nats(2)), Effect::Continue),
        (
            Fault::Partition(&[Nats(0)], &[Nats(1), Nats(2), Node(0), Node(1), Node(2)]),
            Effect::Continue,
        ),
        (Fault::OneWay(ALL_NATS, &[Node(1)]), Effect::Continue),
        (Fault::Partition(&[Nats(0)], &[Nats(1)]), Effect::Continue),
        (Fault::FullDisk(Node(0)), Effect::Wait),
    ],
    further: &[
        (Fault::ServerAlone(0), Effect::Continue),
        (
            Fault::OneWay(&[Nats(1)], &[Nats(0), Nats(2), Node(0), Node(1), Node(2)]),
            Effect::Continue,
        ),
        (
            Fault::OneWay(&[Nats(0), Nats(1), Node(0), Node(1), Node(2)], &[Nats(2)]),
            Effect::Continue,
        ),
        (Fault::Partition(&[Node(1)], ALL_NATS), Effect::Continue),
        (Fault::SlowNetwork(Nats(0)), Effect::Continue),
        (Fault::Partition(ALL_NATS, ALL_NODES), Effect::Wait),
        (
            Fault::Partition(&[Clients], &[Node(0), Node(1)]),
            Effect::Wait,
        ),
    ],
};

/// The delay of a slow network, in each direction. With a slow leader, a publication at QoS 2 takes
/// some 40 times as long.
const DELAY_MS: u32 = 100;
const LOSS_PERCENT: u32 = 5;

impl Fault {
    pub(crate) fn begin(self, machines: &mut Machines) {
        match self {
            Self::Kill(killed) => killed.iter().for_each(|one| machines.kill(*one)),
            Self::Stop(machine) => machines.signal(machine, "STOP"),
            Self::RollingRestart => {
                for machine in [Nats(0), Nats(1), Nats(2), Node(0), Node(1), Node(2)] {
                    machines.restart(machine);
                    machines.await_nodes();
                }
            }
            Self::NatsUpgrade => machines.change_nats_version(),
            Self::OneWay(from, to) => cut(machines, from, to),
            Self::Partition(ones, others) => {
                cut(machines, ones, others);
                cut(machines, others, ones);
            }
            Self::ServerAlone(node) => {
                let server = machines.server_of(node);
                let others = ALL_NATS.iter().filter(|other| **other != server);
                let others: Vec<Machine> = others.copied().collect();
                cut(machines, &[server], &others);
                cut(machines, &others, &[server]);
            }
            Self::SlowNetwork(machine) => {
                let host = machines.host(machine).clone();
                let network = machines.network.as_mut().expect("a network");
                network.slow_down(&host, DELAY_MS, LOSS_PERCENT);
            }
            Self::FullDisk(machine) => machines.fill_disk(machine),
            Self::ClockSet(machine, seconds) => machines.set_clock(machine, seconds),
            Self::ClockSetAtStart(machine, seconds) => {
                start_at(machines, machine, seconds);
            }
        }
    }

    pub(crate) fn end(self, machines: &mut Machines) {
        match self {
            Self::Kill(killed) => killed.iter().for_each(|one| machines.start_again(*one)),
            Self::Stop(machine) => machines.signal(machine, "CONT"),
            Self::RollingRestart | Self::NatsUpgrade => {}
            Self::OneWay(..) | Self::Partition(..) | Self::ServerAlone(_) => machines.mend_cuts(),
            Self::SlowNetwork(machine) => {
                let host = machines.host(machine).clone();
                machines
                    .network
                    .as_mut()
                    .expect("a network")
                    .speed_up(&host);
            }
            Self::FullDisk(machine) => {
                machines.free_disk(machine);
                // JetStream is turned off by a full disk until the next start.
                if matches!(machine, Nats(_)) {
                    machines.restart(machine);
                }
            }
            Self::ClockSet(machine, _) => machines.set_clock(machine, 0),
            Self::ClockSetAtStart(machine, _) => start_at(machines, machine, 0),
        }
    }
}

fn cut(machines: &Machines, from: &[Machine], to: &[Machine]) {
    for one in from {
        for other in to {
            Network::cut(machines.host(*one), machines.host(*other));
        }
    }
}

fn start_at(machines: &mut Machines, machine: Machine, seconds: i64) {
    machines.kill(machine);
    machines.set_clock(machine, seconds);
    machines.start_again(machine);
}
