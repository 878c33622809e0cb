//! One call, from the file to the exit code.

use crate::arguments::Arguments;
use crate::connection::Connection;
use crate::exit_code;
use crate::failure::Failure;
use crate::spool::MessageFile;
use crate::wire::{Action, Answer, AnswerReader, Event, NoAnswer, Request};

/// A longer message is none that was sent to be judged.
const CHANGED_BYTES_MAX: usize = 1 << 30;
/// Most answers are a line or two, and a larger buffer would have to be cleared first.
const ANSWER_READ_BYTES: usize = 512;

/// Calls the procedure and does what the exit mode wants done beside the code.
pub(crate) fn call(arguments: &Arguments) -> Result<u8, Failure> {
    let mut message = match &arguments.file {
        Some(path) => Some(MessageFile::open(path, arguments.exit.layout())?),
        None => None,
    };
    let (answer, changed) = converse(arguments, message.as_mut())?;
    let mut rewritten = false;
    if let Some(message) = message.as_mut().filter(|_| arguments.exit.is_xmail()) {
        match answer.action {
            Action::Accept | Action::Tag if rewrites(arguments) => {
                let tags = match answer.action {
                    Action::Tag => answer.tags.as_slice(),
                    _ => &[],
                };
                rewritten = changed.is_some() || !tags.is_empty();
                if rewritten {
                    message.rewrite(changed.as_deref(), tags)?;
                }
            }
            Action::Reject | Action::Drop | Action::Quarantine => {
                message.write_rejection(reason_or_name(&answer))?;
            }
            Action::Accept | Action::Tag | Action::Defer => {}
        }
    } else if !arguments.quiet {
        for line in &answer.text {
            println!("{line}");
        }
        if !answer.reason.is_empty() {
            println!("{}", answer.reason);
        }
    }
    Ok(exit_code::of_verdict(
        arguments.exit,
        answer.action,
        arguments.xmail,
        rewritten,
    ))
}

fn reason_or_name(answer: &Answer) -> &str {
    if answer.reason.is_empty() {
        "message refused"
    } else {
        &answer.reason
    }
}

/// Whether the file takes what procedures change of the message: XMail reads it again.
fn rewrites(arguments: &Arguments) -> bool {
    arguments.exit == exit_code::ExitMode::XmailOffline
}

/// The answer, and the message where procedures changed it.
fn converse(
    arguments: &Arguments,
    mut message: Option<&mut MessageFile>,
) -> Result<(Answer, Option<Vec<u8>>), Failure> {
    let mut connection = Connection::open(&arguments.server, arguments.timeout)?;
    connection.send(&request(arguments, message.as_deref()))?;
    let mut reader = AnswerReader::default();
    let mut buffer = [0; ANSWER_READ_BYTES];
    loop {
        let count = connection.receive(&mut buffer)?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            let (event, taken) = reader.read(rest).map_err(no_verdict)?;
            rest = rest.get(taken..).unwrap_or_default();
            match event {
                Event::More => {}
                Event::Done(answer) => {
                    let changed = changed_message(&answer, rest, &mut connection)?;
                    return Ok((answer, changed));
                }
                Event::NeedBody => {
                    connection.expect_bulk();
                    // A body is asked for once; without a file it is empty.
                    if let Some(message) = message.take() {
                        message.copy_body(|block| connection.send(block))?;
                    }
                }
            }
        }
    }
}

/// The message that follows an answer; its beginning came with the answer.
fn changed_message(
    answer: &Answer,
    begun: &[u8],
    connection: &mut Connection,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(length) = answer.message_bytes else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > CHANGED_BYTES_MAX {
        return Err(Failure::Answer(format!("message: {length}")));
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

fn no_verdict(why: NoAnswer) -> Failure {
    match why {
        NoAnswer::NotUnderstood(line) => Failure::Answer(line),
        NoAnswer::Failed(reason) => Failure::Refused(reason),
    }
}

fn request(arguments: &Arguments, message: Option<&MessageFile>) -> Vec<u8> {
    let mut request = Request::new(&arguments.procedure);
    let size = message.map_or(0, |message| message.size);
    request.field("size", size.to_string().as_bytes());
    request.field("want", b"close");
    if let Some(message) = message {
        if let Some(sender) = &message.sender {
            request.field("sender", sender);
        }
        if let Some(client) = &message.client {
            request.field("client", client);
        }
        if let Some(address) = &message.address {
            request.field("address", address.to_string().as_bytes());
        }
        for recipient in &message.recipients {
            request.field("recipient", recipient);
        }
    }
    if rewrites(arguments) {
        request.field("want", b"message");
    }
    for (key, value) in &arguments.pairs {
        request.field(&format!("arg-{key}"), value);
    }
    request.finish()
}
