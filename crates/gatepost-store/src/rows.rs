//! Conversion between rows and values, in one place for writing and reading.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{
    Envelope, Listener, MessageId, Peer, Properties, Publication, Qos, RuleHit, Score, Topic,
};
use rusqlite::Row;
use serde::{Deserialize, Serialize};

use crate::JournalEntry;

/// [`Properties`] as JSON text: readable with any SQLite tool, and open to later fields.
#[derive(Serialize, Deserialize)]
struct PropertiesRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_is_text: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_data: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user: Vec<(String, String)>,
}

pub(crate) fn properties_to_text(properties: Option<&Properties>) -> Option<String> {
    let properties = properties?.clone();
    let row = PropertiesRow {
        payload_is_text: properties.payload_is_text,
        content_type: properties.content_type,
        expiry_seconds: properties.expiry_seconds,
        response_topic: properties.response_topic,
        correlation_data: properties.correlation_data.map(|data| data.to_vec()),
        user: properties.user,
    };
    serde_json::to_string(&row).ok()
}

pub(crate) fn properties_from_text(text: Option<String>) -> Option<Box<Properties>> {
    let row: PropertiesRow = serde_json::from_str(&text?).ok()?;
    Some(Box::new(Properties {
        payload_is_text: row.payload_is_text,
        content_type: row.content_type,
        expiry_seconds: row.expiry_seconds,
        response_topic: row.response_topic,
        correlation_data: row.correlation_data.map(Bytes::from),
        user: row.user,
    }))
}

/// SQLite's integers are signed; ids keep their order, since their top bit is never set before
/// the year 2577.
pub(crate) fn id_to_row(id: MessageId) -> i64 {
    id.number() as i64
}

pub(crate) fn id_from_row(id: i64) -> MessageId {
    MessageId::from_number(id as u64)
}

/// A value of another type than the column's was not written by Gatepost: it comes from a damaged
/// file, and is skipped without hiding other rows.
pub(crate) fn skip_foreign<T>(read: rusqlite::Result<Option<T>>) -> rusqlite::Result<Option<T>> {
    match read {
        Err(
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..),
        ) => Ok(None),
        read => read,
    }
}

/// Columns: id, topic, qos, payload, properties. `None` for a row that no version of Gatepost
/// wrote.
pub(crate) fn publication(row: &Row<'_>, retain: bool) -> rusqlite::Result<Option<Publication>> {
    let topic: String = row.get(1)?;
    let (Ok(topic), Some(qos)) = (Topic::new(&topic), Qos::from_level(row.get(2)?)) else {
        return Ok(None);
    };
    Ok(Some(Publication {
        id: MessageId::from_number(row.get::<_, i64>(0)? as u64),
        topic,
        payload: Bytes::from(row.get::<_, Vec<u8>>(3)?),
        qos,
        retain,
        properties: properties_from_text(row.get(4)?),
    }))
}

pub(crate) fn hits_to_text(hits: &[RuleHit]) -> String {
    let pairs: Vec<(&str, f64)> = hits
        .iter()
        .map(|hit| (hit.name.as_ref(), hit.score))
        .collect();
    serde_json::to_string(&pairs).unwrap_or_default()
}

fn hits_from_text(text: &str) -> Vec<RuleHit> {
    let pairs: Vec<(String, f64)> = serde_json::from_str(text).unwrap_or_default();
    pairs
        .into_iter()
        .map(|(name, score)| RuleHit {
            name: Cow::Owned(name),
            score,
        })
        .collect()
}

pub(crate) fn recipients_to_text(recipients: &[String]) -> String {
    serde_json::to_string(recipients).unwrap_or_default()
}

/// The list of topics, if there is more than one.
pub(crate) fn topics_to_text(topics: &[Topic]) -> Option<String> {
    let names: Vec<&str> = topics.iter().map(Topic::as_str).collect();
    (names.len() > 1)
        .then(|| serde_json::to_string(&names).ok())
        .flatten()
}

fn topics_from_text(text: Option<String>) -> Vec<Topic> {
    let names: Vec<String> = text
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    names
        .iter()
        .filter_map(|name| Topic::new(name).ok())
        .collect()
}

/// Columns as in [`table::JOURNAL`](crate::table::JOURNAL). `None` for a row that no version of
/// Gatepost wrote.
pub(crate) fn journal_entry(row: &Row<'_>) -> rusqlite::Result<Option<JournalEntry>> {
    let listener: String = row.get(1)?;
    let action: String = row.get(10)?;
    let (Ok(listener), Ok(action)) = (listener.parse::<Listener>(), action.parse()) else {
        return Ok(None);
    };
    let peer: String = row.get(2)?;
    let recipients: String = row.get(6)?;
    let topic: Option<String> = row.get(7)?;
    let (value, required): (Option<f64>, Option<f64>) = (row.get(11)?, row.get(12)?);
    let hits: String = row.get(13)?;
    Ok(Some(JournalEntry {
        id: MessageId::from_number(row.get::<_, i64>(0)? as u64),
        envelope: Envelope {
            listener,
            peer: peer
                .parse::<SocketAddr>()
                .map_or(Peer::Local, Peer::Address),
            client: row.get(3)?,
            user: row.get(4)?,
            sender: row.get(5)?,
            recipients: serde_json::from_str(&recipients).unwrap_or_default(),
        },
        topic: topic.and_then(|topic| Topic::new(&topic).ok()),
        topics: topics_from_text(row.get(18)?),
        subject: row.get(8)?,
        size: row.get::<_, i64>(9)? as u64,
        action,
        score: value
            .zip(required)
            .map(|(value, required)| Score { value, required }),
        hits: hits_from_text(&hits),
        reason: row.get(14)?,
        procedure: row.get(15)?,
        duration: Duration::from_micros(row.get::<_, i64>(16)? as u64),
        deliveries: row.get::<_, i64>(17)? as u64,
    }))
}
