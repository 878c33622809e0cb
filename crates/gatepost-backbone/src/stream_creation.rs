//! Streams of the engine, made where they are not there yet.

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, Stream};

use crate::error::BackboneError;

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
