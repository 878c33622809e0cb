//! A simulation of the store on a disk that fails, under a seed.
//!
//! Each schedule opens a store, submits random groups of changes and injects a random fault: an
//! I/O error, a full disk, a short write, a failing sync, a crash of the process, a power cut that
//! keeps a random part of the unsynced data. After every crash the store is opened again and
//! compared with a model of what was acknowledged: all acknowledged changes are there, once and in
//! order; of any other group all or none; nothing else.
//!
//! `GATEPOST_TEST_SIMULATION_SEED` repeats a schedule, `GATEPOST_TEST_SIMULATION_ROUNDS` runs more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use gatepost_faults::{Disk, Effect, Fault, FaultRandom, FileKind, Operation};
use gatepost_message::{MessageId, Publication, Qos, Topic};
use gatepost_store::{
    Clock, DeliveryRow, ManualWriter, SessionChange, Store, StoreChange, StoreSettings,
};
use tempfile::TempDir;

const ROUNDS: u64 = 60;
/// Runs of the store within one schedule, each ended by a crash.
const RUNS: u64 = 3;
const GROUPS_MAX: u64 = 12;
const CHANGES_MAX: u64 = 6;

type Group = Vec<StoreChange>;

/// Time stands still.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// What the checker must notice.
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

/// All that is stored, or should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    history: BTreeMap<u64, Vec<u8>>,
    retained: BTreeMap<String, Vec<u8>>,
    mail: BTreeMap<u64, Vec<u8>>,
    messages: BTreeMap<u64, Vec<u8>>,
    deliveries: BTreeMap<(u64, u64), (u64, bool)>,
    received: BTreeSet<(u64, u16)>,
}

impl State {
    fn read(store: &Store) -> Self {
        let mut state = Self::default();
        let bytes = |publication: &Publication| publication.payload.to_vec();
        for publication in store.history(100_000, 100_000).expect("history") {
            let before = state
                .history
                .insert(publication.id.number(), bytes(&publication));
            assert_eq!(before, None, "history has a message once");
        }
        for publication in store.retained().expect("retained") {
            let topic = publication.topic.as_str().to_owned();
            state.retained.insert(topic, bytes(&publication));
        }
        for entry in store.mailbox("anna").expect("a list") {
            let mail = store.mailbox_mail("anna", entry.id).expect("a mail");
            let mail = mail.expect("a mail of the list").to_vec();
            state.mail.insert(entry.id.number(), mail);
        }
        store
            .each_message(|(number, publication)| {
                state.messages.insert(number, bytes(&publication));
            })
            .expect("messages");
        let mut last = (0, 0);
        store
            .each_delivery(|row| {
                let key = (row.session, row.sequence);
                assert!(key > last, "{key:?} after {last:?}");
                last = key;
                state.deliveries.insert(key, (row.message, row.released));
            })
            .expect("deliveries");
        store
            .each_received(|key| {
                state.received.insert(key);
            })
            .expect("received");
        state
    }

    /// What a change makes of it.
    fn apply(&mut self, change: &StoreChange) {
        match change {
            StoreChange::History(publication) | StoreChange::HistoryAt(_, publication) => {
                let payload = publication.payload.to_vec();
                self.history.insert(publication.id.number(), payload);
            }
            StoreChange::Retain(publication) => {
                let topic = publication.topic.as_str().to_owned();
                self.retained.insert(topic, publication.payload.to_vec());
            }
            StoreChange::Unretain(topic) => {
                self.retained.remove(topic.as_str());
            }
            StoreChange::AddRecord { key, value, .. } => {
                self.mail.insert(mail_id(key), value.to_vec());
            }
            StoreChange::DeleteRecord { key, .. } => {
                self.mail.remove(&mail_id(key));
            }
            StoreChange::Session(change) => self.apply_session(change),
            other => panic!("the simulation submits no {other:?}"),
        }
    }

    fn apply_session(&mut self, change: &SessionChange) {
        match change {
            SessionChange::Message {
                number,
                publication,
            } => {
                self.messages.insert(*number, publication.payload.to_vec());
            }
            SessionChange::ForgetMessage { number } => {
                self.messages.remove(number);
            }
            SessionChange::Enqueue(row) => {
                let key = (row.session, row.sequence);
                self.deliveries.insert(key, (row.message, row.released));
            }
            SessionChange::Release { session, sequence } => {
                if let Some(delivery) = self.deliveries.get_mut(&(*session, *sequence)) {
                    delivery.1 = true;
                }
            }
            SessionChange::Dequeue { session, sequence } => {
                self.deliveries.remove(&(*session, *sequence));
            }
            SessionChange::Receive { session, packet } => {
                self.received.insert((*session, *packet));
            }
            SessionChange::Unreceive { session, packet } => {
                self.received.remove(&(*session, *packet));
            }
            other => panic!("the simulation submits no {other:?}"),
        }
    }
}

/// A mailbox key ends with the id.
fn mail_id(key: &[u8]) -> u64 {
    let id = key.last_chunk::<8>().expect("an id");
    u64::from_be_bytes(*id)
}

struct Simulation<'a> {
    random: FaultRandom,
    folder: &'a Path,
    disk: Disk,
    mutation: Mutation,
    /// Everything that was acknowledged.
    acknowledged: State,
    /// What the last group makes of it, if that was not acknowledged: all of it may be there.
    attempted: Option<State>,
    next: u64,
}

/// A database without rows: to make a schema takes longer than a schedule.
static NEW_DATABASE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = folder();
    let opened = Store::open_with_clock(folder.path(), &settings(), Arc::new(StoppedClock));
    opened.expect("a new database").0.close();
    std::fs::read(folder.path().join("gatepost.db")).expect("readable")
});

/// In memory where the system has such a place: what a power cut leaves is simulated.
fn folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

fn settings() -> StoreSettings {
    StoreSettings {
        reserve: "0B".parse().expect("a size"),
        ..StoreSettings::default()
    }
}

/// Runs one schedule; what does not fit.
fn simulate(seed: u64, mutation: Mutation) -> Result<(), String> {
    let folder = folder();
    std::fs::write(folder.path().join("gatepost.db"), &*NEW_DATABASE).expect("written");
    let mut simulation = Simulation {
        random: FaultRandom::new(seed),
        folder: folder.path(),
        disk: Disk::at(folder.path()),
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

impl Simulation<'_> {
    fn open(&self) -> (Store, ManualWriter) {
        let opened = Store::open_manual(self.folder, &settings(), Arc::new(StoppedClock));
        let (store, _, writer) = opened.expect("a disk without faults damages nothing");
        (store, writer)
    }

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
        self.disk.cut_power();
        drop((store, writer));
        let is_power_cut = self.random.below(2) == 0;
        let random = &mut self.random;
        let mut arrives = || !is_power_cut || random.below(2) == 0;
        self.disk.restore_power(&mut arrives).expect("restored");
        Ok(())
    }

    fn inject(&mut self) {
        let after = self.random.below(40);
        let times = 1 + self.random.below(3);
        let (operation, effect) = match self.random.below(6) {
            0 => (Operation::Write, Effect::Error),
            1 => (Operation::Write, Effect::Full),
            2 => (
                Operation::Write,
                Effect::Short(self.random.below(4_000) as usize),
            ),
            3 => (Operation::Sync, Effect::Error),
            4 => (Operation::Write, Effect::PowerCut),
            _ => (Operation::Sync, Effect::PowerCut),
        };
        self.disk
            .inject(Fault::new(operation, effect).after(after).times(times));
        if self.mutation == Mutation::NoSync {
            self.disk
                .inject(Fault::new(Operation::Sync, Effect::Lie).on(FileKind::Log));
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
        let bytes = self.random.below(6_000) as usize;
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
                StoreChange::deliver("anna", publication.id, publication.payload.clone())
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

    /// Submits a group and waits for it; whether the store goes on.
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
        let (store, writer) = self.open();
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

/// What a person can read of a state.
fn sizes(state: &State) -> impl std::fmt::Debug {
    let lengths = |map: &BTreeMap<u64, Vec<u8>>| -> Vec<(u64, usize)> {
        map.iter()
            .map(|(number, bytes)| (*number, bytes.len()))
            .collect()
    };
    (
        lengths(&state.history),
        lengths(&state.mail),
        lengths(&state.messages),
        state.deliveries.clone(),
        state.received.clone(),
    )
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn what_was_acknowledged_is_there_once_and_in_order() {
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
    println!("{rounds} schedules in {:.1?}", began.elapsed());
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
