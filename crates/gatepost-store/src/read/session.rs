//! All stored data of sessions, read once at the start of a broker.

use gatepost_message::{Publication, Qos, TopicFilter};
use rusqlite::Row;

use crate::session::columns::{duration, identifiers_from_row, time};
use crate::session::{DeliveryRow, SessionRow, SubscriptionRow, WillRow};
use crate::table::{DELIVERY, MESSAGE, RECEIVED, SESSION, SUBSCRIPTION};
use crate::{Store, StoreError, rows};

impl Store {
    /// Visits every stored session.
    pub fn each_session(&self, visit: impl FnMut(SessionRow)) -> Result<(), StoreError> {
        self.each(&SESSION, "ORDER BY number", [], read_session, visit)
    }

    /// Visits every subscription of stored sessions.
    pub fn each_subscription(&self, visit: impl FnMut(SubscriptionRow)) -> Result<(), StoreError> {
        self.each(&SUBSCRIPTION, "", [], read_subscription, visit)
    }

    /// Visits every stored message with its number.
    pub fn each_message(&self, visit: impl FnMut((u64, Publication))) -> Result<(), StoreError> {
        self.each(&MESSAGE, "", [], read_message, visit)
    }

    /// Visits the messages of all wills.
    pub fn each_will_message(
        &self,
        visit: impl FnMut((u64, Publication)),
    ) -> Result<(), StoreError> {
        let of_wills = "WHERE number IN (SELECT will_message FROM session)";
        self.each(&MESSAGE, of_wills, [], read_message, visit)
    }

    /// Visits the messages of one session's deliveries.
    pub fn each_message_of(
        &self,
        session: u64,
        visit: impl FnMut((u64, Publication)),
    ) -> Result<(), StoreError> {
        let of_session = "WHERE number IN (SELECT message FROM delivery WHERE session = ?)";
        let session = [session as i64];
        self.each(&MESSAGE, of_session, session, read_message, visit)
    }

    /// Visits one session's deliveries, in their order.
    pub fn each_delivery_of(
        &self,
        session: u64,
        visit: impl FnMut(DeliveryRow),
    ) -> Result<(), StoreError> {
        let of_session = "WHERE session = ? ORDER BY session, sequence";
        let session = [session as i64];
        self.each(&DELIVERY, of_session, session, read_delivery, visit)
    }

    /// The size of the queues of all sessions. Payloads are not read.
    pub fn queues_size(&self) -> Result<QueueSize, StoreError> {
        let sql = "SELECT (SELECT COUNT(*) FROM delivery), COUNT(*),
                          TOTAL(length(topic) + length(payload)) FROM message";
        let connection = self.reader();
        let mut statement = connection.prepare_cached(sql)?;
        Ok(statement.query_row([], |row| read_size(row, 0))?)
    }

    /// The size of the queue of each session that has deliveries, by the session's number.
    pub fn queue_sizes(&self) -> Result<Vec<(u64, QueueSize)>, StoreError> {
        let sql = "SELECT session, COUNT(*), COUNT(DISTINCT number),
                          TOTAL(length(topic) + length(payload))
                   FROM delivery LEFT JOIN message ON number = message GROUP BY session";
        let connection = self.reader();
        let mut statement = connection.prepare_cached(sql)?;
        let sizes = statement.query_map([], |row| {
            Ok((row.get::<_, i64>(0)? as u64, read_size(row, 1)?))
        })?;
        Ok(sizes.collect::<rusqlite::Result<_>>()?)
    }

    /// Visits every delivery that is not over, of each session in its order.
    pub fn each_delivery(&self, visit: impl FnMut(DeliveryRow)) -> Result<(), StoreError> {
        self.each(
            &DELIVERY,
            "ORDER BY session, sequence",
            [],
            read_delivery,
            visit,
        )
    }

    /// Visits every packet identifier that a client has not released, with its session.
    pub fn each_received(&self, visit: impl FnMut((u64, u16))) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| Ok(Some((row.get::<_, i64>(0)? as u64, row.get(1)?)));
        self.each(&RECEIVED, "", [], read, visit)
    }
}

/// Deliveries that wait for a session, or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSize {
    /// Deliveries that are not over.
    pub deliveries: u64,
    /// Messages that they deliver.
    pub messages: u64,
    /// Bytes of the messages' topics and payloads.
    pub bytes: u64,
}

fn read_size(row: &Row<'_>, first: usize) -> rusqlite::Result<QueueSize> {
    Ok(QueueSize {
        deliveries: row.get::<_, i64>(first)? as u64,
        messages: row.get::<_, i64>(first + 1)? as u64,
        bytes: row.get::<_, f64>(first + 2)? as u64,
    })
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
