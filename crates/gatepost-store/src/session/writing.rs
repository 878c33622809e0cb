//! Changes of sessions, as the statements that make them.

use gatepost_message::Publication;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params};

use super::columns::{identifiers_to_row, seconds, unix_ms};
use super::{DeliveryRow, SessionChange, SessionRow, SubscriptionRow};
use crate::statements::Statements;
use crate::table::{DELIVERY, MESSAGE, RECEIVED, SESSION, SUBSCRIPTION};
use crate::{StoreError, rows};

impl SessionChange {
    pub(crate) fn apply(&self, statements: &mut Statements<'_>) -> Result<(), StoreError> {
        match self {
            Self::Put(row) => put_session(statements, row),
            Self::End { session } => end_session(statements, *session as i64),
            Self::Subscribe(row) => put_subscription(statements, row),
            Self::Unsubscribe { session, filter } => statements.execute(
                "DELETE FROM subscription WHERE session = ? AND filter = ?",
                params![*session as i64, filter.as_str()],
            ),
            Self::Message {
                number,
                publication,
            } => add_message(statements, *number as i64, publication),
            Self::ForgetMessage { number } => statements.execute(
                "DELETE FROM message WHERE number = ?",
                params![*number as i64],
            ),
            Self::Enqueue(row) => add_delivery(statements, row),
            Self::Release { session, sequence } => {
                release(statements, *session as i64, *sequence as i64)
            }
            Self::Dequeue { session, sequence } => statements.execute(
                "DELETE FROM delivery WHERE session = ? AND sequence = ?",
                params![*session as i64, *sequence as i64],
            ),
            // The row consists of its key only, so it cannot differ from an existing one.
            Self::Receive { session, packet } => {
                RECEIVED.set(statements, params![*session as i64, *packet])
            }
            Self::Unreceive { session, packet } => statements.execute(
                "DELETE FROM received WHERE session = ? AND packet = ?",
                params![*session as i64, *packet],
            ),
        }
    }
}

fn put_session(statements: &mut Statements<'_>, row: &SessionRow) -> Result<(), StoreError> {
    let values = params![
        row.number as i64,
        row.client,
        row.user,
        row.kind,
        seconds(row.expiry),
        row.ended.map(unix_ms),
        row.sent.map(|sequence| sequence as i64),
        row.will.map(|will| will.message as i64),
        row.will.map(|will| seconds(will.delay)),
    ];
    SESSION.set(statements, values)
}

/// Deletes a session with its subscriptions, its deliveries and its received packet identifiers.
fn end_session(statements: &mut Statements<'_>, session: i64) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM session WHERE number = ?",
        "DELETE FROM subscription WHERE session = ?",
        "DELETE FROM delivery WHERE session = ?",
        "DELETE FROM received WHERE session = ?",
    ] {
        statements.execute(sql, params![session])?;
    }
    Ok(())
}

fn put_subscription(
    statements: &mut Statements<'_>,
    row: &SubscriptionRow,
) -> Result<(), StoreError> {
    let values = params![
        row.session as i64,
        row.filter.as_str(),
        row.qos.level(),
        row.no_local,
        row.retain_as_published,
        row.identifier,
    ];
    SUBSCRIPTION.set(statements, values)
}

fn add_message(
    statements: &mut Statements<'_>,
    number: i64,
    publication: &Publication,
) -> Result<(), StoreError> {
    let values = params![
        rows::id_to_row(publication.id),
        publication.topic.as_str(),
        publication.qos.level(),
        &publication.payload[..],
        rows::properties_to_text(publication.properties.as_deref()),
        publication.retain,
        number,
    ];
    MESSAGE.add(statements, values).map(drop)
}

fn add_delivery(statements: &mut Statements<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    let values = params![
        row.session as i64,
        row.sequence as i64,
        row.message as i64,
        row.qos.level(),
        row.retain,
        row.released,
        identifiers_to_row(&row.identifiers),
    ];
    DELIVERY.add(statements, values).map(drop)
}

/// Sets `released` of a delivery, and the checksum with it.
fn release(statements: &mut Statements<'_>, session: i64, sequence: i64) -> Result<(), StoreError> {
    let found = statements
        .prepare(
            "SELECT message, qos, retain, identifiers FROM delivery
             WHERE session = ? AND sequence = ?",
        )?
        .query_row(params![session, sequence], |row| {
            <(Value, Value, Value, Value)>::try_from(row)
        })
        .optional()?;
    let Some((message, qos, retain, identifiers)) = found else {
        return Ok(());
    };
    let values = params![session, sequence, message, qos, retain, true, identifiers];
    DELIVERY.set(statements, values)
}
