//! A simulation of the store on a disk that fails, under a seed.
//!
//! Each schedule opens a store, submits random groups of changes and injects a random fault: an
//! I/O error, a full disk, a short write, a failing sync, a crash of the process, a power cut that
//! keeps a random part of the unsynced data. After every crash the store is opened again and
//! compared with a model of what was acknowledged: all acknowledged changes are there, once and in
//! order; of any other group all or none; nothing else.
//!
//! `GATEPOST_TEST_SIMULATION_SEED` repeats a schedule, `GATEPOST_TEST_SIMULATION_ROUNDS` runs more.

mod medium;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gatepost_faults::{Fault, FaultEffect, FaultRandom, FileKind, FileOperation};
use gatepost_message::{MessageId, Publication, Qos, Topic};
use gatepost_store::{DeliveryRow, ManualWriter, SessionChange, Store, StoreChange};

use medium::{Database, Medium};
use state::{State, sizes};

const ROUNDS: u64 = 3_000;
/// Schedules whose database is in files take longer: one in this many.
const FILES_SHARE: u64 = 100;
/// One in this many crashes ends the process' connection to a database in memory.
const RECONNECTED_SHARE: u64 = 10;
/// At one in this many starts SQLite checks all pages.
const CHECKED_SHARE: u64 = 8;
/// Runs of the store within one schedule, each ended by a crash.
const RUNS: u64 = 2;
const GROUPS_MAX: u64 = 10;
const CHANGES_MAX: u64 = 6;

type Group = Vec<StoreChange>;

/// A defect that the checker must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    /// Success is reported before the commit.
    AcknowledgeEarly,
    /// A change of an acknowledged group is not written.
    ForgetRow,
    /// A sync does nothing.
    NoSync,
    /// A row is stored twice under two numbers.
    StoreTwice,
}

struct Simulation {
    random: FaultRandom,
    database: Database,
    mutation: Mutation,
    /// Everything that was acknowledged.
    acknowledged: State,
    /// The state after the last group, if that was not acknowledged: all of it may be there.
    attempted: Option<State>,
    next: u64,
}

/// Runs one schedule; returns the difference from the model.
fn simulate(seed: u64, mutation: Mutation) -> Result<(), String> {
    let medium = if seed.is_multiple_of(FILES_SHARE) {
        Medium::Files
    } else {
        Medium::Memory
    };
    let mut simulation = Simulation {
        random: FaultRandom::new(seed),
        database: Database::new(medium),
        mutation,
        acknowledged: State::default(),
        attempted: None,
        next: 1,
    };
    for _ in 0..RUNS {
        simulation.run()?;
    }
    simulation.compare()
}

impl Simulation {
    /// From an open to a crash.
    fn run(&mut self) -> Result<(), String> {
        let (store, mut writer) = self.compare_open()?;
        self.inject();
        for _ in 0..=self.random.below(GROUPS_MAX) {
            let group = self.group();
            if !self.submit(&store, &mut writer, group) {
                break;
            }
        }
        self.database.disk().cut_power();
        drop((store, writer));
        let is_power_cut = self.random.below(2) == 0;
        let is_reconnected = self.random.one_in(RECONNECTED_SHARE);
        let random = &mut self.random;
        let mut arrives = || !is_power_cut || random.below(2) == 0;
        self.database.recover(is_reconnected, &mut arrives);
        Ok(())
    }

    fn inject(&mut self) {
        let after = self.random.below(40);
        let times = 1 + self.random.below(3);
        let (operation, effect) = match self.random.below(6) {
            0 => (FileOperation::Write, FaultEffect::Error),
            1 => (FileOperation::Write, FaultEffect::Full),
            2 => (
                FileOperation::Write,
                FaultEffect::Short(self.random.below(4_000) as usize),
            ),
            3 => (FileOperation::Sync, FaultEffect::Error),
            4 => (FileOperation::Write, FaultEffect::PowerCut),
            _ => (FileOperation::Sync, FaultEffect::PowerCut),
        };
        let disk = self.database.disk();
        disk.inject(Fault::new(operation, effect).after(after).times(times));
        if self.mutation == Mutation::NoSync {
            disk.inject(Fault::new(FileOperation::Sync, FaultEffect::Lie).on(FileKind::Log));
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn group(&mut self) -> Group {
        (0..=self.random.below(CHANGES_MAX))
            .map(|_| self.change())
            .collect()
    }

    fn publication(&mut self) -> Arc<Publication> {
        let number = self.number();
        // Some need pages of their own.
        let bytes_max = if self.random.one_in(8) { 6_000 } else { 300 };
        let bytes = self.random.below(bytes_max) as usize;
        let topic = Topic::new(&format!("topic/{}", number % 5)).expect("a topic");
        Arc::new(Publication {
            id: MessageId::from_number(number),
            qos: Qos::AtLeastOnce,
            ..Publication::new(topic, vec![(number % 251) as u8; bytes])
        })
    }

    fn change(&mut self) -> StoreChange {
        let session = self.random.below(3);
        let pick = |state: &BTreeMap<(u64, u64), (u64, bool)>, turn: u64| {
            let count = state.len() as u64;
            state.keys().nth((turn % count.max(1)) as usize).copied()
        };
        let turn = self.random.below(1_000);
        let delivery = pick(&self.acknowledged.deliveries, turn);
        match (self.random.below(10), delivery) {
            (0 | 1, _) => StoreChange::History(self.publication()),
            (2, _) => StoreChange::Retain(self.publication()),
            (3, _) => {
                let publication = self.publication();
                StoreChange::Unretain(publication.topic.clone())
            }
            (4, _) => {
                let publication = self.publication();
                StoreChange::add_mail("anna", publication.id, publication.payload.clone())
            }
            (5, Some((session, sequence))) => {
                StoreChange::Session(SessionChange::Dequeue { session, sequence })
            }
            (6, Some((session, sequence))) => {
                StoreChange::Session(SessionChange::Release { session, sequence })
            }
            (7, _) => StoreChange::Session(SessionChange::Receive {
                session,
                packet: 1 + (turn % 20) as u16,
            }),
            (8, _) => StoreChange::Session(SessionChange::Unreceive {
                session,
                packet: 1 + (turn % 20) as u16,
            }),
            (9, _) => StoreChange::Session(SessionChange::Enqueue(Box::new(DeliveryRow {
                session,
                sequence: self.number(),
                message: turn,
                qos: Qos::ExactlyOnce,
                retain: false,
                released: false,
                identifiers: Vec::new(),
            }))),
            _ => {
                let publication = self.publication();
                let number = publication.id.number();
                StoreChange::Session(SessionChange::Message {
                    number,
                    publication,
                })
            }
        }
    }

    /// Submits a group and waits for it; returns whether the store still works.
    fn submit(&mut self, store: &Store, writer: &mut ManualWriter, group: Group) -> bool {
        let mut after = self.acknowledged.clone();
        for change in &group {
            after.apply(change);
        }
        let mut written = group;
        match self.mutation {
            Mutation::ForgetRow if self.random.below(4) == 0 => {
                written.pop();
            }
            Mutation::StoreTwice if self.random.below(4) == 0 => {
                let twice = self.publication();
                written.push(StoreChange::History(twice));
            }
            _ => {}
        }
        let Ok(ticket) = store.submit(written) else {
            return false;
        };
        if self.mutation == Mutation::AcknowledgeEarly {
            self.acknowledged = after.clone();
        }
        writer.commit(1);
        if ticket.outcome().expect("a commit").is_ok() {
            self.acknowledged = after;
            return true;
        }
        // A failed commit may still be there after a crash: the sync failed, the bytes arrived.
        self.attempted = Some(after);
        false
    }

    fn compare(&mut self) -> Result<(), String> {
        self.compare_open().map(drop)
    }

    /// Opens the store and holds it against the model.
    fn compare_open(&mut self) -> Result<(Store, ManualWriter), String> {
        let is_checked = self.random.one_in(CHECKED_SHARE);
        let opened = self.database.open(is_checked);
        let (store, writer) = opened.map_err(|error| error.to_string())?;
        let found = State::read(&store);
        if self.attempted.take().as_ref() == Some(&found) {
            self.acknowledged = found;
        } else if found != self.acknowledged {
            return Err(format!(
                "{:#?}\nis there, and not\n{:#?}",
                sizes(&found),
                sizes(&self.acknowledged)
            ));
        }
        Ok((store, writer))
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn acknowledged_changes_are_stored_once_and_in_order() {
    if let Some(seed) = variable("GATEPOST_TEST_SIMULATION_SEED") {
        simulate(seed, Mutation::None).unwrap_or_else(|difference| panic!("{difference}"));
        return;
    }
    let first = u64::from(std::process::id()) << 32;
    let rounds = variable("GATEPOST_TEST_SIMULATION_ROUNDS").unwrap_or(ROUNDS);
    let began = Instant::now();
    for seed in first..first + rounds {
        if let Err(difference) = simulate(seed, Mutation::None) {
            panic!("GATEPOST_TEST_SIMULATION_SEED={seed} repeats this:\n{difference}");
        }
    }
    let rate = rounds as f64 / began.elapsed().as_secs_f64();
    println!("{rounds} schedules, {rate:.0} a second");
}

#[test]
fn the_comparison_notices_each_mutation() {
    const SEEDS_MAX: u64 = 200;
    for mutation in [
        Mutation::AcknowledgeEarly,
        Mutation::ForgetRow,
        Mutation::NoSync,
        Mutation::StoreTwice,
    ] {
        let noticed = (0..SEEDS_MAX).any(|seed| simulate(seed, mutation).is_err());
        assert!(noticed, "{mutation:?}");
    }
}
