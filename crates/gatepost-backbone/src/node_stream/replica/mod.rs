//! The content of a node's sessions, rebuilt in memory from the changes in its stream.
//!
//! A replica has the same rows as the tables of the node's database, found by the same keys. Each
//! change has the effect of the statements in `gatepost-store`, `session/writing.rs`. So a stream
//! that ends at any change, or begins with a copy of all rows, gives what the database had then.
//!
//! Invariants: the order of the changes is that of the node's commits. A row that refers to a
//! missing one causes no failure: it is dropped when the sessions are read.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gatepost_broker::{LoggedPublication, MovedDelivery, MovedSession, SessionName};
use gatepost_message::{Publication, TopicFilter};
use gatepost_store::{DeliveryRow, SessionChange, SessionRow, StoreChange, SubscriptionRow};

use crate::log::division::rows::{self, DIVISION_SPACE, StoredDivision};
use crate::log::kept::{self, KEPT_SPACE};
use crate::log::position::{self, LogPosition, POSITION_SPACE};
use crate::moves::ownership::SessionId;
use crate::moves::transfer::{self, RELEASED_SPACE};

/// The rows of a node's sessions, and its records.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Replica {
    /// By the number of the session.
    sessions: BTreeMap<u64, SessionRows>,
    /// By their numbers.
    messages: HashMap<u64, Arc<Publication>>,
    /// By key space.
    records: BTreeMap<&'static str, BTreeMap<Bytes, Bytes>>,
}

/// The rows of one session.
#[derive(Debug, Default, PartialEq)]
struct SessionRows {
    row: Option<SessionRow>,
    subscriptions: BTreeMap<TopicFilter, SubscriptionRow>,
    /// By sequence.
    deliveries: BTreeMap<u64, DeliveryRow>,
    received: BTreeSet<u16>,
}

/// A session of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicaSession {
    pub(crate) session: MovedSession,
    /// The time at which its connection ended; `None` if it was connected.
    pub(crate) ended: Option<SystemTime>,
    /// The message to publish when the client does not return, and its delay after the end of the
    /// connection.
    pub(crate) will: Option<(Arc<Publication>, Duration)>,
}

/// A will that is due, since its session was over when its node failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicaWill {
    /// The number of the session.
    pub(crate) number: u64,
    pub(crate) name: SessionName,
    pub(crate) kind: String,
    pub(crate) publication: Arc<Publication>,
}

impl Replica {
    /// Applies the next change.
    pub(crate) fn apply(&mut self, change: StoreChange) {
        match change {
            StoreChange::Session(change) => self.apply_to_sessions(change),
            StoreChange::AddRecord { space, key, value }
            | StoreChange::PutRecord { space, key, value } => {
                self.records.entry(space).or_default().insert(key, value);
            }
            StoreChange::DeleteRecord { space, key } => {
                self.remove_records(space, |records| {
                    records.remove(&key);
                });
            }
            StoreChange::DeleteRecords { space, prefix } => {
                self.remove_records(space, |records| {
                    records.retain(|key, _| !key.starts_with(&prefix));
                });
            }
            // Not copied.
            _ => {}
        }
    }

    fn apply_to_sessions(&mut self, change: SessionChange) {
        match change {
            SessionChange::Put(row) => {
                let rows = self.rows(row.number);
                rows.row = Some(*row);
            }
            SessionChange::End { session } => {
                self.sessions.remove(&session);
            }
            SessionChange::Subscribe(row) => {
                let subscriptions = &mut self.rows(row.session).subscriptions;
                subscriptions.insert(row.filter.clone(), *row);
            }
            SessionChange::Unsubscribe { session, filter } => self.remove(session, |rows| {
                rows.subscriptions.remove(&filter);
            }),
            SessionChange::Message {
                number,
                publication,
            } => {
                self.messages.insert(number, publication);
            }
            SessionChange::ForgetMessage { number } => {
                self.messages.remove(&number);
            }
            SessionChange::Enqueue(row) => {
                self.rows(row.session).deliveries.insert(row.sequence, *row);
            }
            SessionChange::Release { session, sequence } => {
                let rows = self.sessions.get_mut(&session);
                if let Some(row) = rows.and_then(|rows| rows.deliveries.get_mut(&sequence)) {
                    row.released = true;
                }
            }
            SessionChange::Dequeue { session, sequence } => self.remove(session, |rows| {
                rows.deliveries.remove(&sequence);
            }),
            SessionChange::Receive { session, packet } => {
                self.rows(session).received.insert(packet);
            }
            SessionChange::Unreceive { session, packet } => self.remove(session, |rows| {
                rows.received.remove(&packet);
            }),
        }
    }

    fn rows(&mut self, session: u64) -> &mut SessionRows {
        self.sessions.entry(session).or_default()
    }

    /// Removes rows of a session, and what is empty after it.
    fn remove(&mut self, session: u64, remove: impl FnOnce(&mut SessionRows)) {
        if let Some(rows) = self.sessions.get_mut(&session) {
            remove(rows);
            if *rows == SessionRows::default() {
                self.sessions.remove(&session);
            }
        }
    }

    fn remove_records(&mut self, space: &str, remove: impl FnOnce(&mut BTreeMap<Bytes, Bytes>)) {
        if let Some(records) = self.records.get_mut(space) {
            remove(records);
            if records.is_empty() {
                self.records.remove(space);
            }
        }
    }

    /// Whether there is a session.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The positions in the log up to which the sessions have received it, by partition; `None`
    /// unless all are there.
    pub(crate) fn positions(&self, partitions: u16) -> Option<Vec<LogPosition>> {
        let records = self.records.get(POSITION_SPACE);
        let position = |partition| {
            let value = records?.get(&position::key(partition))?;
            LogPosition::read_value(value.clone())
        };
        (1..=partitions).map(position).collect()
    }

    /// The division of shared subscriptions at the position of a partition.
    pub(crate) fn division(&self, partition: u16) -> StoredDivision {
        let prefix = rows::prefix(partition);
        let mut stored = StoredDivision::default();
        let records = self.records.get(DIVISION_SPACE).into_iter();
        let records = records.flat_map(|records| records.range(prefix.clone()..));
        for (key, value) in records.take_while(|(key, _)| key.starts_with(&prefix)) {
            stored.add(key, value.clone());
        }
        stored
    }

    /// The publications that the node had not read back from the log, in the order of their ids.
    pub(crate) fn kept(&self) -> Vec<LoggedPublication> {
        let records = self.records.get(KEPT_SPACE).into_iter().flatten();
        records
            .flat_map(|(_, value)| kept::read_value(value.clone()))
            .collect()
    }

    /// The changes that store the pieces of a session that the node had released under a claim;
    /// none if there are no pieces.
    pub(crate) fn released(&self, id: SessionId, claim: u64) -> Vec<StoreChange> {
        let prefix = transfer::pieces_prefix(id, claim);
        let records = self.records.get(RELEASED_SPACE).into_iter();
        records
            .flat_map(|records| records.range(prefix.clone()..))
            .take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(key, value)| StoreChange::PutRecord {
                space: RELEASED_SPACE,
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }

    /// The sessions of which there are such pieces, each with the claim.
    pub(crate) fn released_sessions(&self) -> Vec<(SessionId, u64)> {
        let records = self.records.get(RELEASED_SPACE).into_iter().flatten();
        let mut all: Vec<_> = records
            .filter_map(|(key, _)| transfer::session_of_key(key))
            .collect();
        all.dedup();
        all
    }

    /// The sessions that had not expired at `fenced`, when their node could store nothing more, and
    /// the wills of the others, both sorted by number. Of two sessions of the same name the later
    /// one counts, since the end of the earlier one was not stored. One that had expired does not
    /// count, like the one that keeps a will (see `held_wills.rs` of the broker): it has the name
    /// of its client's session and a later number.
    ///
    /// The time is that of the fence, so that each attempt to adopt them decides alike.
    pub(crate) fn into_sessions(
        self,
        fenced: SystemTime,
    ) -> (Vec<ReplicaSession>, Vec<ReplicaWill>) {
        let Self {
            sessions, messages, ..
        } = self;
        let mut names = HashSet::new();
        let mut incomplete = 0;
        let (mut live, mut wills) = (Vec::new(), Vec::new());
        for mut rows in sessions.into_values().rev() {
            let Some(row) = rows.row.take() else {
                continue;
            };
            if is_over(row.ended, row.expiry, fenced) || !names.insert(name(&row)) {
                wills.extend(will(row, &messages));
            } else {
                live.push(rows.into_session(row, &messages, &mut incomplete));
            }
        }
        live.reverse();
        wills.reverse();
        if incomplete > 0 {
            tracing::warn!(target: "backbone", deliveries = incomplete,
                "deliveries whose message is missing in the stream of their node were dropped");
        }
        (live, wills)
    }
}

/// Whether a session is over at `time`, as a start of its own node would find.
pub(crate) fn is_over(ended: Option<SystemTime>, expiry: Duration, time: SystemTime) -> bool {
    let ended = ended.unwrap_or(time);
    time.duration_since(ended).unwrap_or_default() >= expiry
}

/// The will of a session that is over.
fn will(row: SessionRow, messages: &HashMap<u64, Arc<Publication>>) -> Option<ReplicaWill> {
    Some(ReplicaWill {
        publication: messages.get(&row.will?.message)?.clone(),
        number: row.number,
        name: name(&row),
        kind: row.kind,
    })
}

fn name(row: &SessionRow) -> SessionName {
    SessionName {
        user: row.user.as_deref().map(Arc::from),
        client_id: Arc::from(row.client.as_str()),
    }
}

impl SessionRows {
    /// The session of a row. Counts the deliveries whose message is missing.
    fn into_session(
        self,
        row: SessionRow,
        messages: &HashMap<u64, Arc<Publication>>,
        incomplete: &mut usize,
    ) -> ReplicaSession {
        let mut deliveries = Vec::with_capacity(self.deliveries.len());
        for row in self.deliveries.into_values() {
            match messages.get(&row.message).cloned() {
                Some(publication) => deliveries.push(MovedDelivery { row, publication }),
                None => *incomplete += 1,
            }
        }
        let will = row.will.and_then(|will| {
            let publication = messages.get(&will.message)?;
            Some((publication.clone(), will.delay))
        });
        ReplicaSession {
            session: MovedSession {
                number: row.number,
                name: name(&row),
                kind: row.kind,
                expiry: row.expiry,
                // Unknown while it was connected.
                sent: row.sent.unwrap_or(u64::MAX),
                subscriptions: self.subscriptions.into_values().collect(),
                received: self.received.into_iter().collect(),
                deliveries,
            },
            ended: row.ended,
            will,
        }
    }
}
