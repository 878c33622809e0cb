//! Writing a response to a stream, as its windows allow.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use gatepost_broker::{LocalSubscription, StreamEvent};
use gatepost_message::Peer;
use h2::SendStream;
use h2::server::SendResponse;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Http2Client, broken, head_of};
use crate::http::driver::encode::{self, Length};
use crate::http::driver::file_chunks::FileChunks;
use crate::http::event_stream::{StreamFormat, encode_shared};
use crate::http::rate_limits::PACED_BYTES;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::stream_rights::StreamRights;
use crate::minimum_rate::MinimumRate;

/// Writes a response, or only its head. It uses the bandwidth of `peer`: of the client that a
/// trusted proxy names, or of the connection's peer.
pub(super) async fn write(
    client: &Http2Client,
    peer: Peer,
    mut response: HttpResponse,
    is_head: bool,
    respond: &mut SendResponse<Bytes>,
) -> io::Result<()> {
    let body = std::mem::replace(&mut response.body, ResponseBody::Pieces(Vec::new()));
    let length = match &body {
        ResponseBody::File { length, .. } => Length::Known(*length),
        ResponseBody::Stream { .. } | ResponseBody::WebSocket { .. } => Length::None,
        ResponseBody::Pieces(pieces) => match encode::body_length(&response) {
            Length::None => Length::None,
            _ => Length::Known(pieces.iter().map(|piece| piece.len() as u64).sum()),
        },
    };
    let is_empty = match &body {
        ResponseBody::Stream { .. } => false,
        _ => matches!(length, Length::None | Length::Known(0)),
    };
    let ends = is_head || is_empty;
    let head = head_of(&response, length).map_err(broken)?;
    let stream = respond.send_response(head, ends).map_err(broken)?;
    if ends {
        return Ok(());
    }
    let rate = client.context.sending_rate();
    let mut output = ResponseStream {
        client,
        peer,
        stream,
        rate,
    };
    match body {
        ResponseBody::Pieces(pieces) => {
            for piece in pieces {
                output.send(piece).await?;
            }
        }
        ResponseBody::File {
            file,
            start,
            length,
        } => {
            output
                .send_file(FileChunks::new(file, start, length))
                .await?;
        }
        ResponseBody::Stream {
            reader,
            format,
            rights,
        } => output.send_stream(reader, &format, &rights).await?,
        ResponseBody::WebSocket { .. } => {}
    }
    output.stream.send_data(Bytes::new(), true).map_err(broken)
}

struct ResponseStream<'a> {
    client: &'a Http2Client,
    peer: Peer,
    stream: SendStream<Bytes>,
    /// The minimum rate of the reader of the response.
    rate: MinimumRate,
}

impl ResponseStream<'_> {
    /// Sends an event. The broker decides how slowly events may be read.
    async fn send_event(&mut self, bytes: Bytes) -> io::Result<()> {
        self.rate = self.client.context.sending_rate();
        self.send(bytes).await
    }

    /// Sends bytes as the windows open; a reader that accepts nothing for `write_timeout`, or less
    /// than `write_rate_min` in the long run, is an error.
    async fn send(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let limits = &self.client.context.rate_limits;
            let wanted = if limits.caps_bandwidth() {
                let part = bytes.len().min(PACED_BYTES);
                limits.pace(self.peer, part).await;
                // The reader is slow because of the server's own limit.
                self.rate = self.client.context.sending_rate();
                part
            } else {
                bytes.len()
            };
            self.stream.reserve_capacity(wanted);
            let deadline = self.rate.deadline(Instant::now());
            let room = poll_fn(|task| self.stream.poll_capacity(task));
            let room = match timeout_at(deadline, room).await {
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(None) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(Some(room)) => room.map_err(broken)?,
            };
            let part = bytes.split_to(room.min(wanted));
            self.rate.add(part.len());
            if !part.is_empty() {
                self.stream.send_data(part, false).map_err(broken)?;
            }
        }
        Ok(())
    }

    async fn send_file(&mut self, mut chunks: FileChunks) -> io::Result<()> {
        while let Some(chunk) = chunks.next().await? {
            self.send(chunk).await?;
        }
        Ok(())
    }

    /// Sends events until the broker ends, the client disconnects or a drain begins.
    async fn send_stream(
        &mut self,
        mut reader: Box<LocalSubscription>,
        format: &StreamFormat,
        rights: &StreamRights,
    ) -> io::Result<()> {
        let shape = format.shape;
        self.send_event(shape.opening(&format.topics).into())
            .await?;
        while rights.still_hold()
            && let Some(event) = reader.try_next()
        {
            self.send_wanted(&event, format).await?;
        }
        self.send_event(format.scheduled_part(false)).await?;
        if format.ends {
            return Ok(());
        }
        let context = Arc::clone(&self.client.context);
        let waker = poll_fn(|task| Poll::Ready(task.waker().clone())).await;
        let _woken_to_drain = context.drain.register(&waker);
        let keepalive = context.settings.keepalive.duration();
        loop {
            let event: Option<StreamEvent> = tokio::select! {
                biased;
                () = rights.lost() => return Ok(()),
                event = reader.next() => event,
                reset = poll_fn(|task| self.stream.poll_reset(task)) => {
                    return reset.map(drop).map_err(broken);
                }
                () = sleep_until(Instant::now() + keepalive) => {
                    self.send_event(shape.keepalive(&format.topics).into()).await?;
                    continue;
                }
                () = context.drain.begun() => return Ok(()),
            };
            match event {
                Some(event) => self.send_wanted(&event, format).await?,
                None => return Ok(()),
            }
        }
    }

    /// Sends an event, unless the reader's filter excludes it.
    async fn send_wanted(&mut self, event: &StreamEvent, format: &StreamFormat) -> io::Result<()> {
        if format.wants(event) {
            let bytes = encode_shared(event, format, false);
            self.send_event(bytes).await?;
        }
        Ok(())
    }
}
