//! One call, from its request to its answer: immediate if no procedure needs a judge thread,
//! otherwise after that thread has run it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, edit};
use gatepost_procedures::{CallForJudge, Needs, ProcedureAnswer, ProcedureCallError};

use super::answer;
use super::request::SenderFacts;
use super::{CallContext, CallRequest};

/// The work that a call needs before it can be answered.
pub(super) enum CallRequirement {
    /// Nothing but its request.
    Nothing,
    /// The message, with its size in bytes.
    Body(usize),
    /// The call cannot be made; the failure is written already.
    Refused,
}

/// A call that a judge thread runs.
pub(super) struct PendingCall {
    unready: CallForJudge,
    /// The message as received, if the caller requested the changed message.
    original: Option<Bytes>,
}

impl CallContext {
    /// Determines what a call needs before it is made.
    pub(super) fn needs(&self, request: &CallRequest, output: &mut Vec<u8>) -> CallRequirement {
        let Some(needs) = self.gateway.procedures().needs(&request.procedure) else {
            answer::write_failure(output, &ProcedureCallError::NoSuchProcedure.to_string());
            return CallRequirement::Refused;
        };
        if needs == Needs::Size || request.size == 0 {
            return CallRequirement::Nothing;
        }
        let size_max = self.settings.message_max;
        if request.size > size_max.bytes() {
            let failure = format!(
                "the message is larger than {size_max}, the listener's \
                message_max"
            );
            answer::write_failure(output, &failure);
            return CallRequirement::Refused;
        }
        CallRequirement::Body(request.size as usize)
    }

    /// Makes a call and writes its answer, unless it waits for a judge thread.
    pub(super) fn begin(
        &self,
        peer: Peer,
        request: CallRequest,
        body: Bytes,
        output: &mut Vec<u8>,
    ) -> Option<PendingCall> {
        let original = request.wants_message.then(|| body.clone());
        let envelope = envelope(peer, request.envelope);
        let mut message = Message::new(envelope, None, Format::Mail, body);
        message.size = request.size;
        let procedures = self.gateway.procedures();
        let begun =
            procedures.call_at_once(&request.procedure, Arc::new(message), request.arguments);
        match begun {
            Ok(Ok(answer)) => self.write(&answer, original, output),
            Ok(Err(unready)) => return Some(PendingCall { unready, original }),
            Err(error) => answer::write_failure(output, &error.to_string()),
        }
        None
    }

    /// Waits for the judge thread, and writes the answer.
    pub(super) async fn finish(&self, pending: PendingCall, output: &mut Vec<u8>) {
        let answer = self.gateway.procedures().resume(pending.unready).await;
        self.write(&answer, pending.original, output);
    }

    fn write(&self, answer: &ProcedureAnswer, original: Option<Bytes>, output: &mut Vec<u8>) {
        let counters = self.gateway.counters();
        counters.count(Listener::Call, answer.verdict.action);
        let edits = &answer.verdict.edits;
        let changed = original
            .filter(|_| !edits.is_empty())
            .map(|original| edit::apply(&original, edits));
        answer::write(output, answer, changed.as_deref());
    }
}

/// The envelope as the caller described it; the caller itself is the peer otherwise.
fn envelope(caller: Peer, sender: SenderFacts) -> Envelope {
    let peer = sender
        .address
        .map_or(caller, |ip| Peer::Address(SocketAddr::new(ip, 0)));
    Envelope {
        client: sender.client,
        user: sender.user,
        sender: sender.sender,
        recipients: sender.recipients,
        ..Envelope::new(Listener::Call, peer)
    }
}
