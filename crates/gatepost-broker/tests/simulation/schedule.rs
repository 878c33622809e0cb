//! A schedule: steps that follow from a seed. Each step is valid in every state, so that a failing
//! schedule can be shortened by omitting steps.

use std::time::Duration;

use gatepost_faults::FaultRandom;
use gatepost_message::Qos;

use crate::topics::{FILTERS, WILL};

/// The first client is the witness of wills: it is always subscribed to them, and its session does
/// not end.
pub(crate) const CLIENTS: u64 = 4;
const STEPS_MAX: u64 = 80;
const STEPS_MIN: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Connect(Connect),
    /// The network loses the connection, with all packets in transit.
    Lose {
        client: usize,
    },
    Disconnect {
        client: usize,
        /// MQTT 5: the will is published all the same.
        with_will: bool,
    },
    Publish {
        client: usize,
        topic: usize,
        qos: Qos,
        retain: bool,
        /// Together with those that follow, in one read of the server.
        is_batched: bool,
    },
    /// The client reads some frames, and answers immediately or later.
    Read {
        client: usize,
        frames: u64,
        answers: bool,
    },
    Subscribe {
        client: usize,
        filter: usize,
        qos: Qos,
    },
    Unsubscribe {
        client: usize,
        filter: usize,
    },
    /// The store commits some of the submitted groups.
    Commit {
        submissions: u64,
    },
    /// The disk refuses the submitted groups.
    FailCommit,
    /// The server is killed and started again.
    Crash,
    /// Time passes, and the housekeeper looks round.
    Wait {
        milliseconds: u64,
    },
    /// The clock is set.
    SetClock {
        seconds: i64,
    },
    /// Other things take memory, or give it back.
    SetMemory(Memory),
}

/// The memory that is left for queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Plenty,
    /// A start leaves long queues on disk.
    Little,
    /// Above the bound: new messages are refused.
    Short,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) client: usize,
    pub(crate) clean: bool,
    pub(crate) expiry: Duration,
    pub(crate) receive_max: u16,
    /// The will's delay and level.
    pub(crate) will: Option<(Duration, Qos)>,
    /// Whether the client understands failures (MQTT 5).
    pub(crate) knows_reasons: bool,
}

/// The schedule of this seed.
pub(crate) fn schedule(seed: u64) -> Vec<Step> {
    let mut random = FaultRandom::new(seed);
    let mut steps = Vec::new();
    for client in 0..CLIENTS as usize {
        introduce(client, &mut random, &mut steps);
    }
    let count = STEPS_MIN + random.below(STEPS_MAX - STEPS_MIN);
    steps.extend((0..count).map(|_| step(&mut random)));
    steps
}

/// A client connects and subscribes, so that most steps find something to do.
fn introduce(client: usize, random: &mut FaultRandom, steps: &mut Vec<Step>) {
    let commit = Step::Commit { submissions: 100 };
    let read = Step::Read {
        client,
        frames: 6,
        answers: true,
    };
    steps.extend([Step::Connect(connect(random, client)), commit, read]);
    for _ in 0..=random.below(2) {
        let filter = random.below(FILTERS.len() as u64) as usize;
        let qos = [Qos::AtLeastOnce, Qos::ExactlyOnce][random.below(2) as usize];
        steps.push(Step::Subscribe {
            client,
            filter,
            qos,
        });
    }
    steps.extend([commit, read]);
}

fn step(random: &mut FaultRandom) -> Step {
    let client = random.below(CLIENTS) as usize;
    match random.below(100) {
        0..9 => Step::Connect(connect(random, client)),
        9..13 => Step::Lose { client },
        13..15 => Step::Disconnect {
            client,
            with_will: random.one_in(3),
        },
        15..42 => Step::Publish {
            client,
            topic: random.below(WILL as u64) as usize,
            qos: qos(random),
            retain: random.one_in(5),
            is_batched: random.one_in(3),
        },
        42..65 => Step::Read {
            client,
            frames: 1 + random.below(10),
            answers: !random.one_in(5),
        },
        65..71 => Step::Subscribe {
            client,
            filter: random.below(FILTERS.len() as u64) as usize,
            qos: qos(random),
        },
        71..73 => Step::Unsubscribe {
            client,
            filter: random.below(FILTERS.len() as u64) as usize,
        },
        73..90 => Step::Commit {
            submissions: [1, 2, 4, 100, 100][random.below(5) as usize],
        },
        90..92 => Step::FailCommit,
        92..95 => Step::Crash,
        95..98 => Step::Wait {
            milliseconds: [100, 1_000, 4_000, 20_000][random.below(4) as usize],
        },
        98 => {
            let memory = [Memory::Plenty, Memory::Little, Memory::Short];
            Step::SetMemory(memory[random.below(3) as usize])
        }
        _ => Step::SetClock {
            seconds: [-40_000_000, -3_600, -1, 3, 3_600, 172_800][random.below(6) as usize],
        },
    }
}

fn connect(random: &mut FaultRandom, client: usize) -> Connect {
    let seconds = [0, 10, 1_000, 1_000, 1_000][random.below(5) as usize];
    let delay = [0, 0, 3][random.below(3) as usize];
    let will_qos = qos(random);
    let is_witness = client == 0;
    Connect {
        client,
        clean: random.one_in(5) && !is_witness,
        expiry: Duration::from_secs(if is_witness { 1_000_000_000 } else { seconds }),
        receive_max: [1, 2, 5, 100][random.below(4) as usize],
        will: random
            .one_in(2)
            .then_some((Duration::from_secs(delay), will_qos)),
        knows_reasons: random.one_in(2),
    }
}

fn qos(random: &mut FaultRandom) -> Qos {
    [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce][random.below(3) as usize]
}
