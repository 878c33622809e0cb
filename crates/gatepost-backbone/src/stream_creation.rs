//! Streams of the engine, made where they are not there yet.

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{Config, Info, State, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use gatepost_message::MessageId;

use crate::error::BackboneError;

/// The key of a stream's metadata that has its number.
const NUMBER: &str = "gatepost.stream";

/// The stream of this name. It is made with this config if it is not there.
pub(crate) async fn make_stream(
    context: &Context,
    config: Config,
) -> Result<Stream, BackboneError> {
    let (stream, replicas) = (config.name.clone(), config.num_replicas as u8);
    let failed = |cause: String| BackboneError::Stream {
        stream: stream.clone(),
        replicas,
        cause,
    };
    match context.get_or_create_stream(config).await {
        Ok(made) => Ok(made),
        Err(error) => match error.kind() {
            // Another node has made it in between, with another number.
            CreateStreamErrorKind::JetStream(cause)
                if cause.error_code() == ErrorCode::STREAM_NAME_EXIST =>
            {
                let found = context.get_stream(&stream).await;
                found.map_err(|error| failed(error.to_string()))
            }
            CreateStreamErrorKind::TimedOut => Err(BackboneError::StreamUnanswered(stream)),
            _ => Err(failed(error.to_string())),
        },
    }
}

/// A stream with a number that no stream of the same name had before. The engine's time of creation
/// is not the same on all its servers at any time.
#[derive(Clone)]
pub(crate) struct NumberedStream {
    pub(crate) stream: Stream,
    pub(crate) number: u64,
}

impl NumberedStream {
    /// The stream of this name. It is made with this config, and a number, if it is not there.
    pub(crate) async fn open(context: &Context, mut config: Config) -> Result<Self, BackboneError> {
        let number = MessageId::next().number().to_string();
        config.metadata.insert(NUMBER.to_owned(), number);
        let stream = make_stream(context, config).await?;
        let number = number_in(stream.cached_info());
        Ok(Self { stream, number })
    }

    /// The state at the leader. Fails if the stream is no longer there, or if there is another one
    /// in its place.
    pub(crate) async fn state(&self) -> Result<State, String> {
        let info = self.stream.get_info().await;
        let info = info.map_err(|error| error.to_string())?;
        if number_in(&info) != self.number {
            return Err("another stream has taken its place".to_owned());
        }
        Ok(info.state)
    }
}

fn number_in(info: &Info) -> u64 {
    let number = info.config.metadata.get(NUMBER);
    let number = number.and_then(|text| text.parse().ok());
    // A stream that was not made by Gatepost is known by the time when it was made.
    number.unwrap_or_else(|| info.created.unix_timestamp_nanos() as u64)
}
