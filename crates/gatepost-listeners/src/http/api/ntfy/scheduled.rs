//! ntfy's `scheduled=1`: a reader receives the messages that wait for their time too, after those
//! of the history, each with the time at which it will be published.

use bytes::Bytes;
use gatepost_message::TopicFilter;

use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::event_stream::StreamFormat;

/// The most messages that one request reads from the disk.
const SCHEDULED_MAX: usize = 1_000;

/// The messages that wait under these filters, in the format of the stream.
pub(super) async fn text(
    context: &HttpContext,
    format: &StreamFormat,
    filters: Vec<TopicFilter>,
) -> Result<Bytes, HttpError> {
    let gateway = context.services.gateway.clone();
    let read = move || gateway.scheduled(&filters, SCHEDULED_MAX);
    let unavailable = |error: &dyn std::fmt::Display| HttpError::Unavailable(error.to_string());
    let found = tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| unavailable(&error))?
        .map_err(|error| unavailable(&error))?;
    let mut text = Vec::new();
    for (due, publication) in found {
        let own = match &format.mount {
            Some(mount) => mount.own_publication(&publication).ok(),
            None => Some(publication),
        };
        let filter = format.filter.as_ref();
        let own = own.filter(|own| filter.is_none_or(|filter| filter.wants(own)));
        text.extend(own.map_or_else(Vec::new, |own| format.shape.encode_scheduled(due, &own)));
    }
    Ok(text.into())
}
