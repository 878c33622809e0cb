//! The streams of the log, one for each partition.

use std::collections::HashMap;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};

use crate::error::BackboneError;
use crate::settings::DUPLICATE_WINDOW;
use crate::shared::Shared;
use crate::stream_creation::NumberedStream;

/// The keys of a stream's metadata.
const PARTITIONS: &str = "gatepost.partitions";
const LEVELS: &str = "gatepost.partition_levels";

/// The streams, which are made if they are not there. A cluster with another number of partitions
/// is refused: topics would be in different ones.
pub(crate) async fn open(
    shared: &Shared,
    context: &Context,
) -> Result<Vec<NumberedStream>, BackboneError> {
    let mut streams = Vec::new();
    for number in 1..=shared.settings.partitions {
        let log = NumberedStream::open(context, config(shared, number)).await?;
        check(shared, &log.stream.cached_info().config.metadata)?;
        streams.push(log);
    }
    Ok(streams)
}

fn config(shared: &Shared, number: u16) -> Config {
    let settings = &shared.settings;
    let metadata = [
        (PARTITIONS, settings.partitions.to_string()),
        (LEVELS, settings.partition_levels.to_string()),
    ];
    Config {
        name: shared.subjects.stream(&format!("P{number}")),
        description: Some("a partition of the log of a Gatepost cluster".to_owned()),
        subjects: vec![shared.subjects.partition(number)],
        max_age: settings.log_age_max.duration(),
        max_bytes: i64::try_from(settings.log_bytes_max.bytes()).unwrap_or(i64::MAX),
        discard: DiscardPolicy::Old,
        duplicate_window: DUPLICATE_WINDOW,
        storage: StorageType::File,
        num_replicas: usize::from(settings.replicas),
        allow_direct: true,
        allow_atomic_publish: true,
        metadata: HashMap::from(metadata.map(|(key, value)| (key.to_owned(), value))),
        ..Config::default()
    }
}

fn check(shared: &Shared, metadata: &HashMap<String, String>) -> Result<(), BackboneError> {
    let settings = &shared.settings;
    let expected = [
        (PARTITIONS, "partitions", settings.partitions.to_string()),
        (
            LEVELS,
            "partition_levels",
            settings.partition_levels.to_string(),
        ),
    ];
    for (key, setting, own) in expected {
        let of_cluster = metadata.get(key).cloned().unwrap_or_default();
        if of_cluster != own {
            return Err(BackboneError::Partitions {
                setting,
                own,
                of_cluster,
            });
        }
    }
    Ok(())
}
