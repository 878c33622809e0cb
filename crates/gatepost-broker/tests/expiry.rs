//! Many sessions that expire at the same time, as after a network failure.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{
    Broker, BrokerSettings, MemoryGauge, MovedSession, SessionAdoption, SessionName,
};
use gatepost_store::{ManualClock, ManualWriter, SimulatedDatabase, StoreSettings};

/// More than twice as many as one tick ends.
const SESSIONS: u64 = 12_000;
const EXPIRY: Duration = Duration::from_hours(1);

struct Unlimited;

impl MemoryGauge for Unlimited {
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
}

fn start(database: &SimulatedDatabase, clock: &Arc<ManualClock>) -> (Broker, ManualWriter) {
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, writer) = opened.expect("a store");
    let settings = BrokerSettings::default();
    let broker = Broker::open_simulated(settings, store, clock.clone(), Arc::new(Unlimited));
    (broker.expect("a broker"), writer)
}

fn arrive(broker: &Broker, number: u64) {
    let session = MovedSession {
        number,
        name: SessionName {
            user: None,
            client_id: format!("client-{number}").into(),
        },
        kind: "mqtt".to_owned(),
        expiry: EXPIRY,
        sent: 0,
        subscriptions: Vec::new(),
        received: Vec::new(),
        deliveries: Vec::new(),
    };
    let adopted = broker.adopt_session(SessionAdoption {
        missed: broker.missed_by(&session),
        session,
        changes: Vec::new(),
        absence: None,
    });
    adopted.expect("it is submitted");
}

#[test]
fn they_end_in_parts_so_that_no_commit_is_long() {
    let clock = ManualClock::at(SystemTime::now());
    let database = SimulatedDatabase::in_memory().expect("a database");
    let (broker, mut writer) = start(&database, &clock);
    for number in 1..=SESSIONS {
        arrive(&broker, number);
    }
    writer.commit(usize::MAX);
    drop((broker, writer));

    let (broker, mut writer) = start(&database, &clock);
    assert_eq!(broker.stats(0, 0).sessions, SESSIONS as usize);
    clock.pass(EXPIRY * 2);
    let mut left = vec![SESSIONS as usize];
    for tick in 0.. {
        broker.tick(tick);
        writer.commit(usize::MAX);
        let sessions = broker.stats(0, 0).sessions;
        left.push(sessions);
        if sessions == 0 {
            break;
        }
    }
    for ends in left.windows(2) {
        let ended = ends[0] - ends[1];
        assert!((1..=5_000).contains(&ended), "{left:?}");
    }
    // What has ended on the disk does not return.
    drop((broker, writer));
    let (broker, _writer) = start(&database, &clock);
    assert_eq!(broker.stats(0, 0).sessions, 0);
}
