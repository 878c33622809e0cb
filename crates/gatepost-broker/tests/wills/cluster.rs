//! Wills of one of several nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gatepost_broker::{
    AdoptedWill, ClaimWait, GroupChange, InterestBarrier, LoggedBatch, LoggedPublication,
    NodesStatus, OtherNodes, SessionName, SessionUse,
};
use gatepost_message::{Publication, TopicFilter};
use gatepost_store::{ExternalCommit, StoreChange, StoreError, Ticket};
use parking_lot::Mutex;

use crate::fixture::{Fixture, Permitted, received, will};

/// The log of all nodes, which stores publications at once unless it is full.
#[derive(Default)]
struct Log {
    is_full: AtomicBool,
    publications: Mutex<Vec<Arc<Publication>>>,
}

impl Log {
    fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.publications.lock().len()
    }
}

impl OtherNodes for Log {
    fn set_interest(&self, _filter: &TopicFilter, _is_wanted: bool) {}

    fn interest_barrier(&self) -> Option<InterestBarrier> {
        None
    }

    fn group_changed(&self, _group: &TopicFilter, _change: GroupChange) {}

    fn serves_group(&self, _group: &TopicFilter, _publication: &Publication) -> bool {
        true
    }

    fn begin_retaining(&self, _publication: &Publication) {}

    fn forward(&self, _publication: &Arc<Publication>) -> bool {
        true
    }

    fn has_room_in_log(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn keep_until_logged(&self, logged: &LoggedPublication) -> StoreChange {
        let id = logged.publication.id.number();
        StoreChange::PutRecord {
            space: "kept",
            key: Bytes::copy_from_slice(&id.to_be_bytes()),
            value: Bytes::new(),
        }
    }

    fn append(&self, batch: LoggedBatch<'_>) -> Ticket {
        let publications = batch.publications.drain(..).map(|one| one.publication);
        self.publications.lock().extend(publications);
        let (commit, ticket) = ExternalCommit::new();
        commit.decide(Ok(()));
        ticket
    }

    fn claim(&self, _name: &SessionName, _purpose: SessionUse) -> ClaimWait {
        Box::pin(async { Ok(()) })
    }

    fn replace_elsewhere(&self, _name: &SessionName) {}

    fn owns_session(&self, _name: &SessionName) -> bool {
        true
    }

    fn session_began(&self, _name: &SessionName) {}

    fn session_ended(&self, _name: &SessionName) {}

    fn status(&self) -> NodesStatus {
        panic!("not asked");
    }
}

#[test]
fn a_will_waits_while_the_log_has_no_room() {
    let log = Arc::new(Log::default());
    let mut fixture = Fixture::of_node(log.clone());
    let mut reader = fixture.read();
    fixture.await_client(1, Duration::ZERO);
    fixture.writer.commit(usize::MAX);
    log.set_full(true);
    for tick in 0..3 {
        fixture.broker.tick(tick);
        fixture.writer.commit(usize::MAX);
    }
    assert_eq!((log.count(), received(&mut reader).len()), (0, 0));

    log.set_full(false);
    fixture.broker.tick(3);
    fixture.writer.commit(usize::MAX);
    fixture.broker.tick(4);
    assert_eq!((log.count(), received(&mut reader).len()), (1, 1));
}

#[test]
fn a_node_whose_sessions_were_adopted_does_not_publish_their_wills_again() {
    let log = Arc::new(Log::default());
    let mut fixture = Fixture::of_node(log.clone());
    let mut reader = fixture.read();
    fixture.await_client(1, Duration::ZERO);
    fixture.writer.commit(usize::MAX);
    // The other nodes never get these commits.
    fixture.broker.tick(0);
    let mut transient = fixture.connect(true, Duration::ZERO);
    transient.attachment.begin();
    drop(transient);
    assert_eq!(received(&mut reader).len(), 2);
    log.set_full(true);
    fixture.await_client(2, Duration::ZERO);
    fixture.broker.tick(1);
    log.set_full(false);

    fixture.broker.abandon_wills();
    fixture.writer.fail(&StoreError::Closed);
    fixture.writer.probe();
    for tick in 2..5 {
        fixture.broker.tick(tick);
        fixture.writer.commit(usize::MAX);
    }
    // Only this node knows the will of the client without a persistent session.
    assert_eq!(received(&mut reader).len(), 1);
}

#[test]
fn the_wills_of_a_failed_node_are_published_once_when_they_are_stored() {
    let log = Arc::new(Log::default());
    let mut fixture = Fixture::of_node(log.clone());
    let mut reader = fixture.read();
    let adopt = |fixture: &Fixture, number| {
        let adopted = fixture
            .broker
            .adopt_wills(vec![due_will(1), due_will(number)]);
        adopted.expect("accepted").expect("there is room")
    };
    let mut tick = |fixture: &mut Fixture| {
        fixture.broker.tick(0);
        let before = received(&mut reader).len();
        fixture.writer.commit(usize::MAX);
        fixture.writer.probe();
        fixture.broker.tick(1);
        fixture.writer.commit(usize::MAX);
        (before, received(&mut reader).len())
    };
    let ticket = adopt(&fixture, 2);
    fixture.broker.tick(0);
    fixture.writer.fail(&StoreError::Closed);
    assert!(matches!(ticket.outcome(), Some(Err(_))));
    assert_eq!(tick(&mut fixture), (0, 0), "they come again");

    let ticket = adopt(&fixture, 2);
    let again = adopt(&fixture, 2);
    assert!(again.outcome().is_none(), "it waits for the same commit");
    assert_eq!(tick(&mut fixture), (0, 2));
    assert!(matches!(ticket.outcome(), Some(Ok(()))));

    adopt(&fixture, 3);
    assert_eq!(tick(&mut fixture), (0, 1), "the first is known");
    assert_eq!(log.count(), 3);
    assert_eq!(fixture.broker.stats(0, 0).sessions, 0);
}

fn due_will(number: u64) -> AdoptedWill {
    AdoptedWill {
        number,
        name: SessionName {
            user: None,
            client_id: "client".into(),
        },
        kind: "mqtt".to_owned(),
        publication: will(),
        authorization: Arc::new(Permitted),
    }
}
