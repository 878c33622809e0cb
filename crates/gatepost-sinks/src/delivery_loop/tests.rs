//! The repetition of attempts, with a transport that fails as the test wants.

use std::time::SystemTime;

use bytes::Bytes;
use gatepost_broker::BrokerSettings;
use gatepost_message::{MessageId, Properties};
use gatepost_store::{ManualClock, SimulatedDatabase, StoreSettings};
use parking_lot::Mutex;

use super::*;
use crate::attempt::AttemptFailure;
use crate::mail::outgoing_settings;
use crate::transport::{AttemptFuture, RemainingRecipients};

fn delivery() -> SinkDelivery {
    SinkDelivery {
        id: MessageId::next(),
        topic: "a".to_owned(),
        payload: Bytes::new(),
        properties: Properties::default(),
        qos: Qos::AtLeastOnce,
        retain: false,
        dup: false,
        packet_id: None,
        expires: None,
    }
}

type Outcome = Result<(), AttemptFailure>;
type Decision = dyn Fn(&[SinkDelivery], usize) -> Outcome + Send + Sync;

/// A transport whose attempts end as a function of their messages and their number decides.
struct DecidedTransport {
    decide: Box<Decision>,
    /// The number of messages of each attempt.
    attempts: Arc<Mutex<Vec<usize>>>,
}

impl SinkTransport for DecidedTransport {
    fn kind(&self) -> &'static str {
        "decided"
    }

    fn target(&self) -> String {
        String::new()
    }

    fn ends_when_gone(&self) -> bool {
        false
    }

    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        _: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a> {
        let mut attempts = self.attempts.lock();
        attempts.push(batch.len());
        let outcome = (self.decide)(batch, attempts.len());
        Box::pin(std::future::ready(outcome))
    }
}

/// A loop over this transport, and the numbers of messages of its attempts.
fn delivering(
    broker: Broker,
    decide: impl Fn(&[SinkDelivery], usize) -> Outcome + Send + Sync + 'static,
) -> (DeliveryLoop, Arc<Mutex<Vec<usize>>>) {
    let attempts = Arc::default();
    let transport = DecidedTransport {
        decide: Box::new(decide),
        attempts: Arc::clone(&attempts),
    };
    let mut settings = outgoing_settings();
    settings.retry.first = "20ms".parse().expect("a period");
    let (stop, stopped) = watch::channel(false);
    // A loop whose stop is dropped is being stopped.
    std::mem::forget(stop);
    let work = DeliveryLoop {
        transport: Box::new(transport),
        authorization: None,
        concurrency: 1,
        digest: None,
        progress: Arc::default(),
        dead_letter: None,
        pace: RequestPace::new(0),
        stop: stopped,
        broker,
        settings,
    };
    (work, attempts)
}

fn given_up(work: &DeliveryLoop) -> u64 {
    let mut status = crate::status::SinkStatus::default();
    work.progress.describe(&mut status);
    status.given_up
}

const DIGEST: DigestSchedule = DigestSchedule {
    every: Duration::from_mins(1),
    messages_max: 500,
};

#[tokio::test]
async fn a_digest_that_is_too_long_leaves_in_parts_and_only_its_worst_message_is_given_up() {
    let batch: Batch = (0..6).map(|_| delivery()).collect();
    let worst = batch[3].id;
    let broker = Broker::new(BrokerSettings::default());
    let (mut work, attempts) = delivering(broker, move |batch, _| {
        let is_too_much = batch.len() > 3 || batch.iter().any(|one| one.id == worst);
        let failure = || AttemptFailure::TooMany("too long".to_owned());
        if is_too_much { Err(failure()) } else { Ok(()) }
    });
    work.digest = Some(DIGEST);
    assert!(matches!(work.deliver(&batch).await, AttemptEnding::Done));
    assert_eq!(*attempts.lock(), [6, 3, 3, 1, 2]);
    assert_eq!(given_up(&work), 1);
}

#[tokio::test]
async fn the_age_of_a_digest_counts_from_its_first_attempt() {
    for (digest, expected) in [(None, 1), (Some(DIGEST), 0)] {
        let broker = Broker::new(BrokerSettings::default());
        let (mut work, _) = delivering(broker, |_, number| match number {
            1 => Err(AttemptFailure::again("451 try again")),
            _ => Ok(()),
        });
        work.digest = digest;
        let old = SinkDelivery {
            id: MessageId::from_number(7 << 20),
            ..delivery()
        };
        assert!(matches!(work.deliver(&[old]).await, AttemptEnding::Done));
        assert_eq!(given_up(&work), expected);
    }
}

#[tokio::test]
async fn a_message_that_expires_between_attempts_is_not_sent() {
    let broker = Broker::new(BrokerSettings::default());
    let (mut work, attempts) = delivering(broker, |_, _| Err(AttemptFailure::again("503")));
    work.settings.retry.first = "300ms".parse().expect("a period");
    let expiring = SinkDelivery {
        expires: Some(Instant::now() + Duration::from_millis(200)),
        ..delivery()
    };
    let ending = work.deliver(&[expiring]).await;
    assert!(matches!(ending, AttemptEnding::Done));
    assert_eq!(*attempts.lock(), [1]);
    let mut status = crate::status::SinkStatus::default();
    work.progress.describe(&mut status);
    assert_eq!((status.dropped, status.given_up), (1, 0));
}

#[test]
fn a_clock_that_jumps_ahead_makes_no_message_too_old() {
    let clock = ManualClock::at(SystemTime::now());
    let database = SimulatedDatabase::in_memory().expect("a database");
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, _writer) = opened.expect("a store");
    let broker = Broker::open(BrokerSettings::default(), store).expect("a broker");
    let (delivering, _) = delivering(broker, |_, _| Ok(()));
    let age_max = delivering.settings.retry.age_max.duration();
    let born = Some(delivery().id.time());
    let is_repeated = || {
        let mut backoff = AttemptBackoff::new(&delivering.settings.retry);
        let next = delivering.next_attempt(born, 1, None, &mut backoff);
        next.is_some()
    };
    assert!(is_repeated());
    clock.jump(SystemTime::now() + age_max * 100);
    assert!(is_repeated(), "the clock is not trusted");
    clock.jump(SystemTime::now());
    clock.pass(age_max);
    assert!(!is_repeated());
}
