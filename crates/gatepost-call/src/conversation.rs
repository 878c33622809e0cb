//! One call over one connection: the request, the body if the server requests it, the answer, and
//! the message if procedures changed it.

use crate::arguments::CallOptions;
use crate::connection::DeadlineConnection;
use crate::envelope::ReportedEnvelope;
use crate::failure::CallFailure;
use crate::wire::{AnswerLine, AnswerReader, NoAnswer, RequestBytes, VerdictAnswer};

/// A longer message cannot be one that was sent to be judged.
const CHANGED_BYTES_MAX: usize = 1 << 30;
/// Most answers have one or two lines, and a larger buffer would have to be zeroed first.
const ANSWER_READ_BYTES: usize = 512;

/// The request for a message of this size; `wants_message` if the caller can use its changes.
pub(crate) fn request(
    arguments: &CallOptions,
    envelope: &ReportedEnvelope,
    size: u64,
    wants_message: bool,
) -> Vec<u8> {
    let mut request = RequestBytes::new(&arguments.procedure);
    request.field("size", size.to_string().as_bytes());
    request.field("want", b"close");
    envelope.write(&mut request);
    if wants_message {
        request.field("want", b"message");
    }
    for (key, value) in &arguments.pairs {
        request.field(&format!("arg-{key}"), value);
    }
    request.finish()
}

/// The answer, and the message if procedures changed it. `send_body` is called at most once.
pub(crate) fn converse(
    arguments: &CallOptions,
    request: &[u8],
    send_body: impl FnOnce(&mut DeadlineConnection) -> Result<(), CallFailure>,
) -> Result<(VerdictAnswer, Option<Vec<u8>>), CallFailure> {
    let mut connection = DeadlineConnection::open(&arguments.server, arguments.timeout)?;
    connection.send(request)?;
    let mut send_body = Some(send_body);
    let mut reader = AnswerReader::default();
    let mut buffer = [0; ANSWER_READ_BYTES];
    loop {
        let count = connection.receive(&mut buffer)?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            let (event, taken) = reader.read(rest).map_err(no_verdict)?;
            rest = rest.get(taken..).unwrap_or_default();
            match event {
                AnswerLine::More => {}
                AnswerLine::Done(answer) => {
                    let changed = changed_message(&answer, rest, &mut connection)?;
                    return Ok((answer, changed));
                }
                AnswerLine::NeedBody => {
                    connection.expect_bulk();
                    if let Some(send_body) = send_body.take() {
                        send_body(&mut connection)?;
                    }
                }
            }
        }
    }
}

/// The message that follows an answer; its first bytes were received with the answer.
fn changed_message(
    answer: &VerdictAnswer,
    begun: &[u8],
    connection: &mut DeadlineConnection,
) -> Result<Option<Vec<u8>>, CallFailure> {
    let Some(length) = answer.message_bytes else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > CHANGED_BYTES_MAX {
        return Err(CallFailure::Answer(format!("message: {length}")));
    }
    let mut message = begun.to_vec();
    let mut buffer = [0; 4096];
    while message.len() < length {
        let count = connection.receive(&mut buffer)?;
        message.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    message.truncate(length);
    Ok(Some(message))
}

fn no_verdict(why: NoAnswer) -> CallFailure {
    match why {
        NoAnswer::NotUnderstood(line) => CallFailure::Answer(line),
        NoAnswer::Failed(reason) => CallFailure::Refused(reason),
    }
}
