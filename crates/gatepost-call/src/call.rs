//! One call, from the file to the exit code.

use crate::arguments::CallOptions;
use crate::conversation::{converse, request};
use crate::envelope::ReportedEnvelope;
use crate::exit_code;
use crate::failure::CallFailure;
use crate::spool::MessageFile;
use crate::wire::{AnswerAction, VerdictAnswer};

/// Calls the procedure and performs the actions of the exit mode.
pub(crate) fn call(arguments: &CallOptions) -> Result<u8, CallFailure> {
    let mut message = match &arguments.file {
        Some(path) => Some(MessageFile::open(path, arguments.exit.layout())?),
        None => None,
    };
    let (answer, changed) = request_verdict(arguments, message.as_mut())?;
    let mut rewritten = false;
    if let Some(message) = message.as_mut().filter(|_| arguments.exit.is_xmail()) {
        match answer.action {
            AnswerAction::Accept | AnswerAction::Tag if rewrites(arguments) => {
                let tags = answer.fields();
                rewritten = changed.is_some() || !tags.is_empty();
                if rewritten {
                    message.rewrite(changed.as_deref(), tags)?;
                }
            }
            AnswerAction::Reject | AnswerAction::Drop | AnswerAction::Quarantine => {
                message.write_rejection(answer.reason_or("message refused"))?;
            }
            AnswerAction::Accept | AnswerAction::Tag | AnswerAction::Defer => {}
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

/// Whether the file receives the changes that procedures made to the message: XMail reads it again.
fn rewrites(arguments: &CallOptions) -> bool {
    arguments.exit == exit_code::ExitMode::XmailOffline
}

fn request_verdict(
    arguments: &CallOptions,
    message: Option<&mut MessageFile>,
) -> Result<(VerdictAnswer, Option<Vec<u8>>), CallFailure> {
    let wants_message = rewrites(arguments);
    let Some(message) = message else {
        let request = request(arguments, &ReportedEnvelope::default(), 0, wants_message);
        return converse(arguments, &request, |_| Ok(()));
    };
    let request = request(arguments, &message.envelope, message.size, wants_message);
    converse(arguments, &request, |connection| {
        message.copy_body(|block| connection.send(block))
    })
}
