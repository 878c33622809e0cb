//! Sources of the values of pages: the broker's memory, and the procedures.

use std::sync::Arc;

use gatepost_broker::Broker;
use gatepost_gateway::Gateway;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, Publication, TopicFilter};
use gatepost_pages::{CallError, PageCall, ProcedureResponse, ValueSource};
use gatepost_procedures::ProcedureArguments;

/// The values of all pages of the listener.
pub(super) struct PageValues {
    gateway: Gateway,
    broker: Broker,
}

impl PageValues {
    pub(super) const fn new(gateway: Gateway, broker: Broker) -> Self {
        Self { gateway, broker }
    }
}

impl ValueSource for PageValues {
    fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        self.broker.latest(topic)
    }

    fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        self.broker.history(filter, count)
    }

    fn call(&self, call: &PageCall<'_>) -> Result<ProcedureResponse, CallError> {
        // A page has no message; its procedure receives the visitor and the submitted form.
        let request = call.request;
        let mut envelope = Envelope::new(Listener::Http, request.peer.unwrap_or(Peer::Local));
        envelope.user.clone_from(&request.user);
        let message = Message::new(envelope, None, Format::Payload, request.body.clone());
        let arguments: ProcedureArguments = call.arguments.iter().cloned().collect();
        let procedures = self.gateway.procedures();
        let path = || call.path.to_owned();
        match procedures.call_here(call.path, &Arc::new(message), &arguments, call.deadline) {
            Ok(answer) if answer.verdict.action.delivers() => Ok(ProcedureResponse {
                text: answer.text,
                reply: answer.reply,
            }),
            Ok(answer) => Err(CallError::Refused {
                path: path(),
                action: answer.verdict.action,
                reason: answer.verdict.reason,
            }),
            Err(gatepost_procedures::ProcedureCallError::NoSuchProcedure) => {
                Err(CallError::Unknown(path()))
            }
            Err(error @ gatepost_procedures::ProcedureCallError::Busy) => Err(CallError::Failed {
                path: path(),
                detail: error.to_string(),
            }),
        }
    }
}
