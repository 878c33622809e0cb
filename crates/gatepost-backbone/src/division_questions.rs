//! Questions for the division of shared subscriptions in a partition of the log.
//!
//! A node that has not read the partition from its beginning asks another one, which answers with
//! its division and the position of it. When the asking node reaches this position, its division is
//! complete. Only if no node that is alive has a complete one, the division begins again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Client, Subscriber};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::encoding::{EncodingError, Input, VERSION};
use crate::error::BackboneError;
use crate::log::Partition;
use crate::log::division::{DivisionChange, rows};
use crate::log::position::LogPosition;
use crate::shared::Shared;

/// The bytes up to which a part of an answer accepts further shares.
const PART_BYTES_MAX: usize = 128 * 1024;
/// The longest time for the answer of one node.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// The pause before the nodes are asked again.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// The time after which no other node, or one that does not answer, counts as none that knows.
const ALONE_FOR: Duration = Duration::from_secs(1);
const SILENT_FOR: Duration = Duration::from_secs(10);

/// The outcome of the questions.
pub(crate) enum LearnedDivision {
    /// The division after the entry of this sequence.
    At {
        sequence: u64,
        shares: Vec<DivisionChange>,
    },
    /// No node knows it, and this one is to begin it again.
    Nowhere,
}

/// A part of an answer.
struct AnswerPart {
    /// Whether the division of the node is complete.
    is_complete: bool,
    stream: u64,
    sequence: u64,
    part: u32,
    parts: u32,
    shares: Vec<DivisionChange>,
}

/// Answers the questions of other nodes.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    client: Client,
    mut questions: Subscriber,
) -> BackboneError {
    while let Some(question) = questions.next().await {
        let Some(reply) = question.reply else {
            continue;
        };
        let number = match read_question(question.payload) {
            Ok(number) => number,
            Err(error) => {
                shared.note_malformed(error);
                continue;
            }
        };
        let partitions = &shared.log.partitions;
        let Some(partition) = partitions.iter().find(|one| one.number == number) else {
            continue;
        };
        for part in parts_of(partition) {
            if let Err(error) = client.publish(reply.clone(), part).await {
                return BackboneError::request("publishing", error);
            }
        }
    }
    BackboneError::Lost("the questions ended".to_owned())
}

/// A question for the division of a partition.
pub(crate) fn question(partition: u16) -> Bytes {
    let mut bytes = BytesMut::with_capacity(3);
    bytes.put_u8(VERSION);
    bytes.put_u16(partition);
    bytes.freeze()
}

pub(crate) fn read_question(bytes: Bytes) -> Result<u16, EncodingError> {
    Input::versioned(bytes)?.u16()
}

/// The answer of this node. Where this runs, all entries up to the position are applied, and none
/// after it (`log_reading.rs`).
fn parts_of(partition: &Partition) -> Vec<Bytes> {
    let position = partition.progress.delivered();
    let position = position.filter(|position| *position == whole(position));
    let known = partition.groups.division.read();
    let position = position.filter(|_| known.is_complete);
    let mut parts = vec![BytesMut::new()];
    if position.is_some() {
        for adopted in known.division.adoptions() {
            rows::push_adopted(&mut parts[0], adopted);
        }
    }
    for (group, node, share) in known.division.shares().filter(|_| position.is_some()) {
        if parts
            .last()
            .is_some_and(|part| part.len() >= PART_BYTES_MAX)
        {
            parts.push(BytesMut::new());
        }
        if let Some(part) = parts.last_mut() {
            rows::push(part, group, node, &share);
        }
    }
    let count = parts.len() as u32;
    let numbered = (0..).zip(parts);
    numbered
        .map(|(number, shares)| {
            let mut bytes = BytesMut::with_capacity(26 + shares.len());
            bytes.put_u8(VERSION);
            bytes.put_u8(u8::from(position.is_some()));
            bytes.put_u64(position.map_or(0, |position| position.stream));
            bytes.put_u64(position.map_or(0, |position| position.sequence));
            bytes.put_u32(number);
            bytes.put_u32(count);
            bytes.put_slice(&shares);
            bytes.freeze()
        })
        .collect()
}

/// The position after all of its entry.
const fn whole(position: &LogPosition) -> LogPosition {
    LogPosition::after(position.stream, position.sequence)
}

fn read_part(bytes: Bytes) -> Result<AnswerPart, EncodingError> {
    let mut input = Input::versioned(bytes)?;
    let mut part = AnswerPart {
        is_complete: input.flag()?,
        stream: input.u64()?,
        sequence: input.u64()?,
        part: input.u32()?,
        parts: input.u32()?,
        shares: Vec::new(),
    };
    while !input.is_empty() {
        part.shares.push(rows::read_change(&mut input)?);
    }
    Ok(part)
}

/// Asks the other nodes until one knows the division at this position or later, or none does.
pub(crate) async fn learn(
    shared: &Shared,
    client: &Client,
    partition: u16,
    position: LogPosition,
) -> Result<LearnedDivision, BackboneError> {
    let began = Instant::now();
    loop {
        let others = shared.known_nodes.alive();
        let others: Vec<u8> = others.into_iter().map(|record| record.node).collect();
        let (mut is_known, mut silent) = (false, false);
        for node in &others {
            match ask(shared, client, *node, partition).await? {
                Some(answer) if answer.is_complete && answer.stream == position.stream => {
                    is_known = true;
                    if answer.sequence >= position.sequence {
                        return Ok(LearnedDivision::At {
                            sequence: answer.sequence,
                            shares: answer.shares,
                        });
                    }
                }
                Some(_) => {}
                None => silent = true,
            }
        }
        let patience = if silent { SILENT_FOR } else { ALONE_FOR };
        let is_first = others.iter().all(|node| *node > shared.node);
        if !is_known && is_first && began.elapsed() >= patience {
            return Ok(LearnedDivision::Nowhere);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// The answer of one node, put together; `None` without one.
async fn ask(
    shared: &Shared,
    client: &Client,
    node: u8,
    partition: u16,
) -> Result<Option<AnswerPart>, BackboneError> {
    let failed = |error: String| BackboneError::request("asking for shared subscriptions", error);
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await;
    let answers = answers
        .as_mut()
        .map_err(|error| failed(error.to_string()))?;
    let subject = shared.subjects.division_questions(node);
    let asked = client.publish_with_reply(subject, inbox, question(partition));
    let asked = asked.await;
    asked.map_err(|error| failed(error.to_string()))?;
    let whole = async {
        let mut parts = BTreeMap::new();
        while let Some(message) = answers.next().await {
            // Without an answer, the message is a status that has no bytes.
            let part = read_part(message.payload).ok()?;
            let count = part.parts as usize;
            parts.insert(part.part, part);
            if parts.len() >= count {
                break;
            }
        }
        let mut parts = parts.into_values();
        let first = parts.next()?;
        Some(parts.fold(first, |mut whole, mut part| {
            whole.shares.append(&mut part.shares);
            whole
        }))
    };
    Ok(tokio::time::timeout(ANSWER_TIME_MAX, whole)
        .await
        .ok()
        .flatten())
}
