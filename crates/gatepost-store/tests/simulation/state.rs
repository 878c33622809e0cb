//! The stored state, and the expected one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gatepost_message::Publication;
use gatepost_store::{SessionChange, Store, StoreChange};

/// All that is stored, or should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    history: BTreeMap<u64, Bytes>,
    retained: BTreeMap<String, Bytes>,
    mail: BTreeMap<u64, Bytes>,
    messages: BTreeMap<u64, Bytes>,
    pub(crate) deliveries: BTreeMap<(u64, u64), (u64, bool)>,
    received: BTreeSet<(u64, u16)>,
}

impl State {
    pub(crate) fn read(store: &Store) -> Self {
        let mut state = Self::default();
        let bytes = |publication: &Publication| publication.payload.clone();
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
            let mail = mail.expect("a mail of the list");
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

    /// Applies a change to the state.
    pub(crate) fn apply(&mut self, change: &StoreChange) {
        match change {
            StoreChange::History(publication) | StoreChange::HistoryAt(_, publication) => {
                let payload = publication.payload.clone();
                self.history.insert(publication.id.number(), payload);
            }
            StoreChange::Retain(publication) => {
                let topic = publication.topic.as_str().to_owned();
                self.retained.insert(topic, publication.payload.clone());
            }
            StoreChange::Unretain(topic) => {
                self.retained.remove(topic.as_str());
            }
            StoreChange::AddRecord { key, value, .. } => {
                self.mail.insert(mail_id(key), value.clone());
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
                self.messages.insert(*number, publication.payload.clone());
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

/// A summary of a state for a person.
pub(crate) fn sizes(state: &State) -> impl std::fmt::Debug {
    let lengths = |map: &BTreeMap<u64, Bytes>| -> Vec<(u64, usize)> {
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
