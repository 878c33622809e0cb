//! The streams of nodes at the engine: their names, their creation, and the last message of each.
//!
//! A node's stream has an epoch in its name. A node whose stream was fenced begins a new epoch, and
//! so a stream without a fence.

use std::time::Duration;

use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream,
};
use async_nats::jetstream::{Context, ErrorCode};
use gatepost_broker::Broker;
use gatepost_message::MessageId;
use gatepost_store::StoreChange;
use serde::Deserialize;

use crate::encoding::EncodingError;
use crate::error::BackboneError;
use crate::log::kept::KEPT_SPACE;
use crate::moves::transfer::RELEASED_SPACE;
use crate::node_epoch::{EPOCH_SPACE, NodeStreamId};
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::shared::Shared;
use crate::subjects::Subjects;

/// The interval at which a stream with too few replicas gets the others.
const COMPLETE_EVERY: Duration = Duration::from_secs(2);

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
    // First, since an end repeats what has failed before it.
    broker.abandon_wills();
    for name in broker.persistent_sessions() {
        broker.disown_session(&name);
    }
    for partition in &shared.log.partitions {
        partition.queue.abandon_kept();
        partition.groups.abandon_held();
    }
    shared.moves.forget_all();
    // Those that became due meanwhile. The commits that fail now are repeated.
    broker.abandon_wills();
    shared.copy.fail();
    // Whole spaces: there may be more of them in changes that are not committed yet.
    let removals = [RELEASED_SPACE, KEPT_SPACE].map(|space| StoreChange::DeleteRecords {
        space,
        prefix: bytes::Bytes::new(),
    });
    shared.log.store.submit_deferred(removals).map_err(failed)
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
///
/// While a NATS server is not running, the stream is made with a majority of the replicas: a new
/// epoch must not wait for that server. [`complete`] adds the others.
pub(crate) async fn open(shared: &Shared, context: &Context) -> Result<Stream, BackboneError> {
    let all = shared.settings.replicas;
    let majority = all / 2 + 1;
    let mut replicas = all;
    loop {
        match context.get_or_create_stream(config(shared, replicas)).await {
            Ok(stream) => return Ok(stream),
            Err(error) if lacks_servers(&error) && replicas > majority => replicas -= 1,
            Err(error) => {
                return Err(BackboneError::Stream {
                    stream: shared.subjects.node_stream_name(shared.stream_id()),
                    replicas,
                    cause: error.to_string(),
                });
            }
        }
    }
}

/// Adds the replicas that the stream of this node lacks, as soon as there are servers for them.
/// Does not end: a stream with too few replicas is no reason to end the connection.
pub(crate) async fn complete(shared: &Shared, context: &Context) -> BackboneError {
    let all = usize::from(shared.settings.replicas);
    let name = shared.subjects.node_stream_name(shared.stream_id());
    loop {
        let found = find(context, &name).await;
        let replicas = found.map(|found| found.map(|one| one.cached_info().config.num_replicas));
        match replicas {
            Ok(Some(replicas)) if replicas < all => {
                let complete = config(shared, shared.settings.replicas);
                if let Err(error) = context.update_stream(complete).await {
                    tracing::debug!(target: "backbone", %error, replicas,
                        "the stream of this node has too few replicas");
                }
            }
            Ok(_) => return std::future::pending().await,
            Err(error) => {
                tracing::debug!(target: "backbone", %error, "replicas are not known");
            }
        }
        tokio::time::sleep(COMPLETE_EVERY).await;
    }
}

fn config(shared: &Shared, replicas: u8) -> Config {
    let (id, subjects) = (shared.stream_id(), &shared.subjects);
    Config {
        name: subjects.node_stream_name(id),
        description: Some("the sessions of a node of a Gatepost cluster".to_owned()),
        subjects: vec![subjects.node_stream(id)],
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: usize::from(replicas),
        ..Config::default()
    }
}

fn lacks_servers(error: &CreateStreamError) -> bool {
    let kind = error.kind();
    matches!(kind, CreateStreamErrorKind::JetStream(cause)
        if cause.error_code() == ErrorCode::CLUSTER_NO_PEERS)
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
