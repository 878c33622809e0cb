//! Sessions that outlive their connection: what a broker must know of them after a restart.
//!
//! A publication that sessions wait for is one row of `message`, however many wait; each session
//! has a small row of `delivery` for it. Most deliveries are over within milliseconds, so a row
//! that is written and removed within one group of changes is neither ([`Cancelled`]).
//!
//! Invariant: session numbers, message numbers and a session's sequences are never used twice, so
//! that a removal can only mean the one row that had the number.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_message::{Publication, Qos, TopicFilter};
use rusqlite::{Connection, Row, params};

use crate::{Change, Store, StoreError, rows};

/// A session, without what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Names it in all other rows.
    pub number: u64,
    /// The client id.
    pub client: String,
    /// Who may have it; `None` for whoever comes.
    pub user: Option<String>,
    /// What its connections are, such as `mqtt`.
    pub kind: String,
    /// How long it outlives its connection.
    pub expiry: Duration,
    /// When its connection ended; `None` while it is connected.
    pub ended: Option<SystemTime>,
    /// The highest sequence that may have been sent; `None` where nobody knows, which is while it
    /// is connected.
    pub sent: Option<u64>,
    /// What to publish when the client stays away.
    pub will: Option<WillRow>,
}

/// A will: a message that nobody has published yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WillRow {
    /// The number of the stored message.
    pub message: u64,
    /// How long after the end of the connection it is due.
    pub delay: Duration,
}

/// One subscription of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// The session's number.
    pub session: u64,
    /// The filter as the client wrote it, with the share name where it is shared.
    pub filter: TopicFilter,
    /// The highest level to deliver at.
    pub qos: Qos,
    /// Not to be sent what the same session published.
    pub no_local: bool,
    /// Keep the retain flag as the publisher set it.
    pub retain_as_published: bool,
    /// A number that deliveries carry.
    pub identifier: Option<u32>,
}

/// One publication's way to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The session's number.
    pub session: u64,
    /// Its place in the session's order.
    pub sequence: u64,
    /// The number of the stored message.
    pub message: u64,
    /// The level of this delivery.
    pub qos: Qos,
    /// The retain flag of this delivery.
    pub retain: bool,
    /// Whether the client has it and only the end of the exchange is open (QoS 2).
    pub released: bool,
    /// The subscription identifiers that go along.
    pub identifiers: Vec<u32>,
}

/// A change of what sessions keep.
#[derive(Debug, Clone)]
pub enum SessionChange {
    /// Sets the session's own row.
    Keep(Box<SessionRow>),
    /// Forgets the session and all that belongs to it, but no messages.
    End {
        /// Which.
        session: u64,
    },
    /// Sets a subscription.
    Subscribe(Box<SubscriptionRow>),
    /// Removes a subscription.
    Unsubscribe {
        /// Whose.
        session: u64,
        /// As the client wrote it.
        filter: TopicFilter,
    },
    /// Stores a publication that deliveries, or a will, refer to.
    Message {
        /// Its number.
        number: u64,
        /// What is kept.
        publication: Arc<Publication>,
    },
    /// Forgets a publication: nothing refers to it any more.
    ForgetMessage {
        /// Its number.
        number: u64,
    },
    /// Adds a delivery at the end of a session's queue.
    Enqueue(Box<DeliveryRow>),
    /// The client has it (QoS 2); what is left is to end the exchange.
    Release {
        /// Whose.
        session: u64,
        /// Which delivery.
        sequence: u64,
    },
    /// The delivery is over.
    Dequeue {
        /// Whose.
        session: u64,
        /// Which delivery.
        sequence: u64,
    },
    /// The client sent an exactly-once publication under this packet identifier.
    Receive {
        /// Whose.
        session: u64,
        /// The identifier.
        packet: u16,
    },
    /// The client released the identifier.
    Unreceive {
        /// Whose.
        session: u64,
        /// The identifier.
        packet: u16,
    },
}

impl SessionChange {
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Message { publication, .. } => publication.payload.len(),
            _ => 0,
        }
    }

    pub(crate) fn apply(&self, connection: &Connection) -> rusqlite::Result<()> {
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            connection.prepare_cached(sql)?.execute(values).map(|_| ())
        };
        match self {
            Self::Keep(row) => run(
                "INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    row.number as i64,
                    row.client,
                    row.user,
                    row.kind,
                    seconds(row.expiry),
                    row.ended.map(unix_ms),
                    row.sent.map(|sequence| sequence as i64),
                    row.will.map(|will| will.message as i64),
                    row.will.map(|will| seconds(will.delay)),
                ],
            ),
            Self::End { session } => {
                for sql in [
                    "DELETE FROM session WHERE number = ?",
                    "DELETE FROM subscription WHERE session = ?",
                    "DELETE FROM delivery WHERE session = ?",
                    "DELETE FROM received WHERE session = ?",
                ] {
                    run(sql, params![*session as i64])?;
                }
                Ok(())
            }
            Self::Subscribe(row) => run(
                "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?, ?, ?, ?)",
                params![
                    row.session as i64,
                    row.filter.as_str(),
                    row.qos.level(),
                    row.no_local,
                    row.retain_as_published,
                    row.identifier,
                ],
            ),
            Self::Unsubscribe { session, filter } => run(
                "DELETE FROM subscription WHERE session = ? AND filter = ?",
                params![*session as i64, filter.as_str()],
            ),
            Self::Message {
                number,
                publication,
            } => run(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![
                    *number as i64,
                    rows::id_to_row(publication.id),
                    publication.topic.as_str(),
                    publication.qos.level(),
                    &publication.payload[..],
                    rows::properties_to_text(publication.properties.as_deref()),
                    publication.retain,
                ],
            ),
            Self::ForgetMessage { number } => run(
                "DELETE FROM message WHERE number = ?",
                params![*number as i64],
            ),
            Self::Enqueue(row) => run(
                "INSERT OR REPLACE INTO delivery VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![
                    row.session as i64,
                    row.sequence as i64,
                    row.message as i64,
                    row.qos.level(),
                    row.retain,
                    row.released,
                    identifiers_to_row(&row.identifiers),
                ],
            ),
            Self::Release { session, sequence } => run(
                "UPDATE delivery SET released = 1 WHERE session = ? AND sequence = ?",
                params![*session as i64, *sequence as i64],
            ),
            Self::Dequeue { session, sequence } => run(
                "DELETE FROM delivery WHERE session = ? AND sequence = ?",
                params![*session as i64, *sequence as i64],
            ),
            Self::Receive { session, packet } => run(
                "INSERT OR REPLACE INTO received VALUES (?, ?)",
                params![*session as i64, *packet],
            ),
            Self::Unreceive { session, packet } => run(
                "DELETE FROM received WHERE session = ? AND packet = ?",
                params![*session as i64, *packet],
            ),
        }
    }
}

/// What a group of changes both writes and removes: it need not touch the disk at all.
#[derive(Default)]
pub(crate) struct Cancelled {
    deliveries: HashSet<(u64, u64)>,
    messages: HashSet<u64>,
}

impl Cancelled {
    pub(crate) fn find(changes: &[Change]) -> Self {
        let mut written = Self::default();
        let mut both = Self::default();
        for change in changes {
            let Change::Session(change) = change else {
                continue;
            };
            match change {
                SessionChange::Enqueue(row) => {
                    written.deliveries.insert((row.session, row.sequence));
                }
                SessionChange::Message { number, .. } => {
                    written.messages.insert(*number);
                }
                SessionChange::Dequeue { session, sequence } => {
                    let key = (*session, *sequence);
                    if written.deliveries.contains(&key) {
                        both.deliveries.insert(key);
                    }
                }
                SessionChange::ForgetMessage { number } if written.messages.contains(number) => {
                    both.messages.insert(*number);
                }
                _ => {}
            }
        }
        both
    }

    pub(crate) fn covers(&self, change: &Change) -> bool {
        let Change::Session(change) = change else {
            return false;
        };
        match change {
            SessionChange::Enqueue(row) => self.has_delivery(row.session, row.sequence),
            SessionChange::Release { session, sequence }
            | SessionChange::Dequeue { session, sequence } => {
                self.has_delivery(*session, *sequence)
            }
            SessionChange::Message { number, .. } | SessionChange::ForgetMessage { number } => {
                self.messages.contains(number)
            }
            _ => false,
        }
    }

    fn has_delivery(&self, session: u64, sequence: u64) -> bool {
        !self.deliveries.is_empty() && self.deliveries.contains(&(session, sequence))
    }
}

impl Store {
    /// Visits every kept session.
    pub fn each_session(&self, visit: impl FnMut(SessionRow)) -> Result<(), StoreError> {
        self.each("SELECT * FROM session ORDER BY number", read_session, visit)
    }

    /// Visits every subscription of kept sessions.
    pub fn each_subscription(&self, visit: impl FnMut(SubscriptionRow)) -> Result<(), StoreError> {
        self.each("SELECT * FROM subscription", read_subscription, visit)
    }

    /// Visits every kept message with its number.
    pub fn each_message(&self, visit: impl FnMut((u64, Publication))) -> Result<(), StoreError> {
        let sql = "SELECT id, topic, qos, payload, properties, retain, number FROM message";
        self.each(sql, read_message, visit)
    }

    /// Visits every delivery that is not over, of each session in its order.
    pub fn each_delivery(&self, visit: impl FnMut(DeliveryRow)) -> Result<(), StoreError> {
        let sql = "SELECT * FROM delivery ORDER BY session, sequence";
        self.each(sql, read_delivery, visit)
    }

    /// Visits every packet identifier that a client has not released, with its session.
    pub fn each_received(&self, visit: impl FnMut((u64, u16))) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| Ok(Some((row.get::<_, i64>(0)? as u64, row.get(1)?)));
        self.each("SELECT * FROM received", read, visit)
    }

    /// Rows that no version of ours wrote are passed over.
    fn each<T>(
        &self,
        sql: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
        mut visit: impl FnMut(T),
    ) -> Result<(), StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(value) = rows::skip_foreign(read(row))? {
                visit(value);
            }
        }
        Ok(())
    }
}

fn read_session(row: &Row<'_>) -> rusqlite::Result<Option<SessionRow>> {
    let will_message: Option<i64> = row.get(7)?;
    let will_delay: Option<i64> = row.get(8)?;
    Ok(Some(SessionRow {
        number: row.get::<_, i64>(0)? as u64,
        client: row.get(1)?,
        user: row.get(2)?,
        kind: row.get(3)?,
        expiry: duration(row.get(4)?),
        ended: row.get::<_, Option<i64>>(5)?.map(time),
        sent: row.get::<_, Option<i64>>(6)?.map(|sent| sent as u64),
        will: will_message.map(|message| WillRow {
            message: message as u64,
            delay: duration(will_delay.unwrap_or_default()),
        }),
    }))
}

fn read_subscription(row: &Row<'_>) -> rusqlite::Result<Option<SubscriptionRow>> {
    let filter: String = row.get(1)?;
    let (Ok(filter), Some(qos)) = (TopicFilter::new(&filter), Qos::from_level(row.get(2)?)) else {
        return Ok(None);
    };
    Ok(Some(SubscriptionRow {
        session: row.get::<_, i64>(0)? as u64,
        filter,
        qos,
        no_local: row.get(3)?,
        retain_as_published: row.get(4)?,
        identifier: row.get(5)?,
    }))
}

fn read_message(row: &Row<'_>) -> rusqlite::Result<Option<(u64, Publication)>> {
    let publication = rows::publication(row, row.get(5)?)?;
    let number = row.get::<_, i64>(6)? as u64;
    Ok(publication.map(|publication| (number, publication)))
}

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<Option<DeliveryRow>> {
    let identifiers: Vec<u8> = row.get(6)?;
    let Some(qos) = Qos::from_level(row.get(3)?) else {
        return Ok(None);
    };
    Ok(Some(DeliveryRow {
        session: row.get::<_, i64>(0)? as u64,
        sequence: row.get::<_, i64>(1)? as u64,
        message: row.get::<_, i64>(2)? as u64,
        qos,
        retain: row.get(4)?,
        released: row.get(5)?,
        identifiers: identifiers_from_row(&identifiers),
    }))
}

fn identifiers_to_row(identifiers: &[u32]) -> Vec<u8> {
    identifiers.iter().flat_map(|id| id.to_be_bytes()).collect()
}

fn identifiers_from_row(bytes: &[u8]) -> Vec<u32> {
    let whole = bytes.chunks_exact(4);
    whole
        .filter_map(|chunk| chunk.try_into().ok().map(u32::from_be_bytes))
        .collect()
}

/// Whole seconds, as far as the database's integers go: longer is for ever.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn duration(seconds: i64) -> Duration {
    match seconds {
        i64::MAX => Duration::MAX,
        seconds => Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
    }
}

fn unix_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(unix_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).unwrap_or_default())
}
