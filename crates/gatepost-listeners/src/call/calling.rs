//! One call, from its request to its answer: at once where memory can tell, later where a judge
//! must be waited for.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, edit};
use gatepost_procedures::{Answer, CallError, Needs, Unready};

use super::answer;
use super::request::Told;
use super::{CallContext, Request};

/// What a call needs before it can be answered.
pub(super) enum Wants {
    /// Nothing but its request.
    Nothing,
    /// The message, of so many bytes.
    Body(usize),
    /// It cannot be made; that is answered already.
    Refused,
}

/// A call that a judge has.
pub(super) struct Judged {
    unready: Unready,
    /// The message as it came, where the caller wants it back changed.
    original: Option<Bytes>,
}

impl CallContext {
    /// Looks at a request before it is called.
    pub(super) fn wants(&self, request: &Request, output: &mut Vec<u8>) -> Wants {
        let Some(needs) = self.gateway.procedures().needs(&request.procedure) else {
            answer::write_failure(output, &CallError::NoSuchProcedure.to_string());
            return Wants::Refused;
        };
        if needs == Needs::Size || request.size == 0 {
            return Wants::Nothing;
        }
        let size_max = self.settings.message_max;
        if request.size > size_max.bytes() {
            let failure = format!("the message is larger than the {size_max} taken here");
            answer::write_failure(output, &failure);
            return Wants::Refused;
        }
        Wants::Body(request.size as usize)
    }

    /// Makes a call and writes its answer, unless a judge must be waited for.
    pub(super) fn begin(
        &self,
        peer: Peer,
        request: Request,
        body: Bytes,
        output: &mut Vec<u8>,
    ) -> Option<Judged> {
        let original = request.wants_message.then(|| body.clone());
        let envelope = envelope(peer, request.envelope);
        let mut message = Message::new(envelope, None, Format::Mail, body);
        message.size = request.size;
        let procedures = self.gateway.procedures();
        let begun =
            procedures.call_at_once(&request.procedure, Arc::new(message), request.arguments);
        match begun {
            Ok(Ok(answer)) => self.write(Ok(answer), original, output),
            Ok(Err(unready)) => return Some(Judged { unready, original }),
            Err(error) => self.write(Err(error), original, output),
        }
        None
    }

    /// Waits for the judge, and writes the answer.
    pub(super) async fn finish(&self, judged: Judged, output: &mut Vec<u8>) {
        let answer = self.gateway.procedures().resume(judged.unready).await;
        self.write(Ok(answer), judged.original, output);
    }

    fn write(
        &self,
        answer: Result<Answer, CallError>,
        original: Option<Bytes>,
        output: &mut Vec<u8>,
    ) {
        match answer {
            Ok(answer) => {
                let counters = self.gateway.counters();
                counters.count(Listener::Call, answer.verdict.action);
                let edits = &answer.verdict.edits;
                let changed = original
                    .filter(|_| !edits.is_empty())
                    .map(|original| edit::apply(&original, edits));
                answer::write(output, &answer, changed.as_deref());
            }
            Err(error) => answer::write_failure(output, &error.to_string()),
        }
    }
}

/// Who sent the message, as far as the caller told; the caller itself otherwise.
fn envelope(caller: Peer, told: Told) -> Envelope {
    let peer = told
        .address
        .map_or(caller, |ip| Peer::Address(SocketAddr::new(ip, 0)));
    Envelope {
        client: told.client,
        user: told.user,
        sender: told.sender,
        recipients: told.recipients,
        ..Envelope::new(Listener::Call, peer)
    }
}
