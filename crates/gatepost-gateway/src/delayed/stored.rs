//! Messages that wait, as they are stored: a record of JSON, a line end, and the payload.

use bytes::Bytes;
use gatepost_message::{MessageId, Properties, Publication, Qos, Topic};
use gatepost_store::{Store, StoreChange, StoreError};
use serde::{Deserialize, Serialize};

use super::waiting::{DuePosition, WaitingMessage};

/// The key space of the records. A key is the time in Unix milliseconds and the id, eight bytes
/// each, the highest first: sorted keys are in the order of their times.
const SPACE: &str = "delayed";
const NUMBER_BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
struct StoredHead {
    topic: String,
    qos: u8,
    retain: bool,
    payload_is_text: Option<bool>,
    content_type: Option<String>,
    expiry_seconds: Option<u32>,
    response_topic: Option<String>,
    correlation_data: Option<Vec<u8>>,
    user: Vec<(String, String)>,
}

fn key(place: DuePosition) -> Bytes {
    let numbers = [place.due_unix_ms, place.id.number()].map(u64::to_be_bytes);
    Bytes::from(numbers.concat())
}

fn place_of(key: &[u8]) -> Option<DuePosition> {
    let (due, id) = key.split_at_checked(NUMBER_BYTES)?;
    Some(DuePosition {
        due_unix_ms: u64::from_be_bytes(due.try_into().ok()?),
        id: MessageId::from_number(u64::from_be_bytes(id.try_into().ok()?)),
    })
}

/// The change that stores a message.
pub(super) fn change(place: DuePosition, publication: &Publication) -> StoreChange {
    let properties = publication.properties.as_deref().cloned();
    let properties = properties.unwrap_or_default();
    let head = StoredHead {
        topic: publication.topic.as_str().to_owned(),
        qos: publication.qos.level(),
        retain: publication.retain,
        payload_is_text: properties.payload_is_text,
        content_type: properties.content_type,
        expiry_seconds: properties.expiry_seconds,
        response_topic: properties.response_topic,
        correlation_data: properties.correlation_data.map(Into::into),
        user: properties.user,
    };
    // An object of numbers and text can always be written, and has no line end.
    let mut value = serde_json::to_vec(&head).unwrap_or_default();
    value.push(b'\n');
    value.extend_from_slice(&publication.payload);
    StoreChange::PutRecord {
        space: SPACE,
        key: key(place),
        value: value.into(),
    }
}

/// The change that removes a message.
pub(super) fn removal(place: DuePosition) -> StoreChange {
    let (space, key) = (SPACE, key(place));
    StoreChange::DeleteRecord { space, key }
}

/// The content of the store at a place.
pub(super) enum FoundMessage {
    /// The message.
    Whole(Publication),
    /// A record that is damaged, or that no version of Gatepost wrote.
    Unreadable,
    /// Nothing.
    Absent,
}

/// Reads the message at a place.
pub(super) fn read(store: &Store, place: DuePosition) -> Result<FoundMessage, StoreError> {
    match store.record(SPACE, &key(place)) {
        Ok(Some(value)) => {
            let read = publication(place.id, &value);
            Ok(read.map_or(FoundMessage::Unreadable, FoundMessage::Whole))
        }
        Ok(None) => Ok(FoundMessage::Absent),
        Err(StoreError::DamagedRow { .. }) => Ok(FoundMessage::Unreadable),
        Err(error) => Err(error),
    }
}

/// Visits all messages that wait. Unreadable ones are left out, and counted in the log.
pub(super) fn each(
    store: &Store,
    mut visit: impl FnMut(DuePosition, WaitingMessage),
) -> Result<(), StoreError> {
    let mut unreadable: u64 = 0;
    store.each_record(SPACE, b"", |key, value| {
        let place = place_of(&key);
        let found = place.and_then(|place| Some((place, publication(place.id, &value)?)));
        match found {
            Some((place, publication)) => visit(place, WaitingMessage::of(&publication)),
            None => unreadable += 1,
        }
    })?;
    if unreadable > 0 {
        tracing::error!(target: "gateway", unreadable,
            "delayed messages cannot be read and are not delivered; they stay in the database");
    }
    Ok(())
}

fn publication(id: MessageId, value: &Bytes) -> Option<Publication> {
    let line_end = value.iter().position(|&byte| byte == b'\n')?;
    let head: StoredHead = serde_json::from_slice(value.get(..line_end)?).ok()?;
    let properties = Properties {
        payload_is_text: head.payload_is_text,
        content_type: head.content_type,
        expiry_seconds: head.expiry_seconds,
        response_topic: head.response_topic,
        correlation_data: head.correlation_data.map(Bytes::from),
        user: head.user,
    };
    Some(Publication {
        id,
        topic: Topic::new(&head.topic).ok()?,
        payload: value.slice(line_end + 1..),
        qos: Qos::from_level(head.qos)?,
        retain: head.retain,
        properties: (!properties.is_empty()).then(|| Box::new(properties)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        let mut message = Publication::new(Topic::new("a/b").expect("a topic"), "one\ntwo\n");
        message.qos = Qos::AtLeastOnce;
        message.properties = Some(Box::new(Properties {
            correlation_data: Some(Bytes::from_static(&[0, 10, 255])),
            expiry_seconds: Some(7),
            user: vec![("title".to_owned(), "a\nb".to_owned())],
            ..Properties::default()
        }));
        let place = DuePosition::new(std::time::SystemTime::now(), message.id);
        let StoreChange::PutRecord { key, value, .. } = change(place, &message) else {
            panic!("a record");
        };
        assert_eq!(place_of(&key), Some(place));
        assert_eq!(publication(place.id, &value), Some(message));
        for part in ["", "{}\n", "x\ny"] {
            assert_eq!(publication(place.id, &Bytes::from(part)), None);
        }
    }
}
