//! Changes of sessions, as the statements that make them.

use rusqlite::{Connection, params};

use super::SessionChange;
use super::columns::{identifiers_to_row, seconds, unix_ms};
use crate::rows;

impl SessionChange {
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
