//! Streams of the engine, made where they are not there yet.

use std::collections::HashMap;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, Info, Stream};
use gatepost_message::MessageId;

use crate::error::BackboneError;

/// The key of a stream's metadata that has its number, which no stream of the same name had before.
const NUMBER: &str = "gatepost.stream";

/// The stream of this name. It is made with this config if it is not there.
pub(crate) async fn make_stream(
    context: &Context,
    config: Config,
) -> Result<Stream, BackboneError> {
    let (stream, replicas) = (config.name.clone(), config.num_replicas as u8);
    let made = context.get_or_create_stream(config).await;
    made.map_err(|error| BackboneError::Stream {
        stream,
        replicas,
        cause: error.to_string(),
    })
}

/// The metadata of a stream that is to be made, with its number.
pub(crate) fn new_number() -> HashMap<String, String> {
    [(NUMBER.to_owned(), MessageId::next().number().to_string())].into()
}

/// The number of a stream.
pub(crate) fn number_in(info: &Info) -> u64 {
    let number = info.config.metadata.get(NUMBER);
    let number = number.and_then(|text| text.parse().ok());
    // A stream that was not made by Gatepost is known by the time when it was made.
    number.unwrap_or_else(|| info.created.unix_timestamp_nanos() as u64)
}
