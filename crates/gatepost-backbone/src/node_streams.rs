//! The streams of nodes at the engine: their names, their creation, and the last message of each.
//!
//! A node's stream has an epoch in its name. A node whose stream was fenced begins a new epoch, and
//! so a stream without a fence.

use async_nats::jetstream::Context;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream,
};
use gatepost_broker::Broker;
use gatepost_message::MessageId;
use gatepost_store::StoreChange;
use serde::Deserialize;

use crate::encoding::EncodingError;
use crate::error::BackboneError;
use crate::log::identity::LogIdentity;
use crate::log::kept;
use crate::moves::transfer;
use crate::node_epoch::{EPOCH_SPACE, NodeStreamId};
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::shared::Shared;
use crate::subjects::Subjects;

/// Makes sure that this node's epoch is one that no other node has ended. Without an epoch, or
/// after another node has adopted the sessions of the last one, a new epoch begins; then the
/// sessions of the last one end here.
pub(crate) async fn begin_epoch(
    shared: &Shared,
    context: &Context,
    broker: &Broker,
) -> Result<(), BackboneError> {
    let epoch = shared.epoch();
    if epoch != 0 {
        if !is_fenced(context, &shared.subjects, shared.stream_id()).await? {
            return Ok(());
        }
        tracing::warn!(target: "backbone",
            "another node has adopted the sessions of this one; their clients are disconnected, \
             and find them there");
        leave_sessions(shared, broker)?;
    }
    // The clock may have been set back since the last epoch began.
    let epoch = MessageId::next().number().max(epoch + 1);
    let stored = shared.log.store.submit([StoreChange::PutRecord {
        space: EPOCH_SPACE,
        key: bytes::Bytes::new(),
        value: bytes::Bytes::copy_from_slice(&epoch.to_be_bytes()),
    }]);
    // Not awaited: the commit may have changes that wait for the stream. Whatever is acknowledged
    // in this epoch is committed after it.
    stored.map_err(|error| BackboneError::request("storing the epoch", error))?;
    shared.set_epoch(epoch);
    Ok(())
}

/// Ends all sessions here, without their wills, and removes what belongs to them.
fn leave_sessions(shared: &Shared, broker: &Broker) -> Result<(), BackboneError> {
    let failed = |error| BackboneError::request("ending adopted sessions", error);
    for name in broker.persistent_sessions() {
        broker.disown_session(&name);
    }
    for partition in &shared.log.partitions {
        partition.queue.abandon_kept();
        partition.groups.abandon_held();
    }
    let store = &shared.log.store;
    let mut removals = Vec::new();
    for (id, claim) in transfer::kept(store).map_err(failed)? {
        removals.push(transfer::remove(id, claim));
    }
    for one in kept::read(store).map_err(failed)? {
        removals.push(kept::remove(&LogIdentity::of(&one)));
    }
    shared.moves.forget_all();
    shared.copy.fail();
    store.submit_deferred(removals).map_err(failed)
}

async fn is_fenced(
    context: &Context,
    subjects: &Subjects,
    id: NodeStreamId,
) -> Result<bool, BackboneError> {
    let Some(stream) = find(context, &subjects.node_stream_name(id)).await? else {
        return Ok(false);
    };
    let last = last_message(&stream, &subjects.node_stream(id)).await?;
    Ok(last.is_some_and(|(_, message)| message.kind == MessageKind::Fence))
}

/// A stream, `None` if there is none of this name.
pub(crate) async fn find(context: &Context, name: &str) -> Result<Option<Stream>, BackboneError> {
    match context.get_stream(name).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(cause) if cause.code() == 404 => Ok(None),
            _ => Err(BackboneError::request("reading a node's stream", error)),
        },
    }
}

/// The last message of a stream with its sequence; `None` if it is empty. The leader answers.
pub(crate) async fn last_message(
    stream: &Stream,
    subject: &str,
) -> Result<Option<(u64, StreamMessage)>, BackboneError> {
    let message = match stream.get_last_raw_message_by_subject(subject).await {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
        Err(error) => return Err(BackboneError::request("reading a node's stream", error)),
    };
    let read = StreamMessage::read(message.payload).map_err(unreadable)?;
    Ok(Some((message.sequence, read)))
}

/// The error of a message that this version cannot read.
pub(crate) fn unreadable(error: EncodingError) -> BackboneError {
    BackboneError::unreadable("a node's stream", error)
}

/// The stream of this node, which is made if it is not there.
pub(crate) async fn open(shared: &Shared, context: &Context) -> Result<Stream, BackboneError> {
    let (subjects, settings) = (&shared.subjects, &shared.settings);
    let id = shared.stream_id();
    let name = subjects.node_stream_name(id);
    let config = Config {
        name: name.clone(),
        description: Some("the sessions of a node of a Gatepost cluster".to_owned()),
        subjects: vec![subjects.node_stream(id)],
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: usize::from(settings.replicas),
        ..Config::default()
    };
    let stream = context.get_or_create_stream(config).await;
    stream.map_err(|error| BackboneError::Stream {
        stream: name,
        replicas: settings.replicas,
        cause: error.to_string(),
    })
}

/// A page of the names of streams.
#[derive(Deserialize)]
struct NamePage {
    #[serde(default)]
    streams: Option<Vec<String>>,
    #[serde(default)]
    total: usize,
}

/// All streams of nodes, the later epochs of a node first.
pub(crate) async fn list(
    context: &Context,
    subjects: &Subjects,
) -> Result<Vec<NodeStreamId>, BackboneError> {
    let failed = |error| BackboneError::request("listing the nodes' streams", error);
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let filter = serde_json::json!({
            "offset": offset,
            "subject": subjects.node_streams(),
        });
        let page = context.request("STREAM.NAMES", &filter).await;
        let page: NamePage = page.map_err(failed)?;
        let names = page.streams.unwrap_or_default();
        offset += names.len();
        let ids = names.iter();
        found.extend(ids.filter_map(|name| subjects.node_stream_of_name(name)));
        if names.is_empty() || offset >= page.total {
            break;
        }
    }
    found.sort_by_key(|id| (id.node, std::cmp::Reverse(id.epoch)));
    Ok(found)
}
