//! What the HTTP listener and the pages ask of the other rooms, answered.

use std::sync::Arc;
use std::task::{Context, Poll};

use gatepost_broker::{Broker, Reader, ReaderOptions};
use gatepost_listeners::gateway::{Gateway, journal};
use gatepost_listeners::http::rooms::{
    Event, Promise, ReaderName, Rooms, Since, Submitted, Subscription, Taker,
};
use gatepost_listeners::http::state::State;
use gatepost_message::{
    Envelope, Format, Listener, Message, Peer, Publication, TopicFilter, Verdict,
};
use gatepost_pages::{CallError, Called, PageCall, Values};
use gatepost_procedures::Arguments;
use gatepost_store::Store;
use gatepost_users::Users;

use super::metrics;
use super::stats::StatsKeeper;

/// Journal entries in the dashboard's first snapshot.
const JOURNAL_SHOWN: usize = 100;

/// The rooms behind the HTTP listener.
pub(super) struct Behind {
    pub(super) gateway: Gateway,
    pub(super) broker: Broker,
    pub(super) store: Store,
    pub(super) users: Users,
    pub(super) stats: Arc<StatsKeeper>,
}

impl Values for Behind {
    fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        self.broker.latest(topic)
    }

    fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        self.broker.history(filter, count)
    }

    fn call(&self, call: &PageCall<'_>) -> Result<Called, CallError> {
        // A page has no message; its procedure sees the visitor, and the form that was sent.
        let request = call.request;
        let mut envelope = Envelope::new(Listener::Http, request.peer.unwrap_or(Peer::Local));
        envelope.user.clone_from(&request.user);
        let message = Message::new(envelope, None, Format::Payload, request.body.clone());
        let arguments: Arguments = call.arguments.iter().cloned().collect();
        let procedures = self.gateway.procedures();
        let path = || call.path.to_owned();
        match procedures.call_here(call.path, &Arc::new(message), &arguments, call.deadline) {
            Ok(answer) if answer.verdict.action.delivers() => Ok(Called {
                text: answer.text,
                reply: answer.reply,
            }),
            Ok(answer) => Err(CallError::Refused {
                path: path(),
                action: answer.verdict.action,
                reason: answer.verdict.reason,
            }),
            Err(gatepost_procedures::CallError::NoSuchProcedure) => Err(CallError::Unknown(path())),
            Err(error @ gatepost_procedures::CallError::Busy) => Err(CallError::Failed {
                path: path(),
                detail: error.to_string(),
            }),
        }
    }
}

impl Rooms for Behind {
    fn submit(&self, message: Message) -> Promise<'_, Submitted> {
        Box::pin(async move {
            let outcome = self.gateway.submit(message).await;
            Submitted {
                verdict: outcome.verdict,
                subscribers: outcome.deliveries as usize,
            }
        })
    }

    fn judge<'a>(
        &'a self,
        path: &'a str,
        message: Message,
        arguments: Vec<(String, String)>,
    ) -> Promise<'a, Option<Verdict>> {
        Box::pin(async move {
            let arguments: Arguments = arguments.into_iter().collect();
            let procedures = self.gateway.procedures();
            match procedures.call(path, Arc::new(message), arguments).await {
                Ok(answer) => Some(answer.verdict),
                Err(gatepost_procedures::CallError::NoSuchProcedure) => None,
                Err(error @ gatepost_procedures::CallError::Busy) => Some(Verdict::new(
                    gatepost_message::Action::Defer,
                    error.to_string(),
                )),
            }
        })
    }

    fn subscribe(
        &self,
        filters: &[TopicFilter],
        since: Since,
        reader: ReaderName,
    ) -> Box<dyn Subscription> {
        let since = match since {
            Since::Now => gatepost_broker::Since::Now,
            Since::After(id) => gatepost_broker::Since::After(id),
            Since::Everything => gatepost_broker::Since::Everything,
            Since::Latest => gatepost_broker::Since::Latest,
        };
        let options = ReaderOptions {
            since,
            kind: reader.kind,
            name: reader.name,
        };
        Box::new(Events(self.broker.subscribe_stream(filters, options)))
    }

    fn state(&self) -> Promise<'_, State> {
        Box::pin(async move {
            let store = self.store.clone();
            store.caught_up().await;
            let recent = tokio::task::spawn_blocking(move || store.journal_recent(JOURNAL_SHOWN))
                .await
                .unwrap_or(Ok(Vec::new()));
            let entries = recent.unwrap_or_else(|error| {
                tracing::warn!(target: "store", %error, "the journal cannot be read");
                Vec::new()
            });
            self.stats
                .state(entries.iter().map(journal::to_json).collect())
        })
    }

    fn procedures(&self) -> serde_json::Value {
        serde_json::to_value(self.gateway.procedures().status()).unwrap_or_default()
    }

    fn metrics(&self, text: &mut String) {
        metrics::push(text, &self.gateway, &self.broker, &self.store, &self.users);
    }
}

/// A broker's reader, in the listener's words.
struct Events(Reader);

impl Subscription for Events {
    fn next(&mut self) -> Promise<'_, Option<Event>> {
        Box::pin(async move { self.0.next().await.map(event) })
    }

    fn try_next(&mut self) -> Option<Event> {
        self.0.try_next().map(event)
    }

    fn can_attach(&self) -> bool {
        true
    }

    fn attach(&mut self, taker: Arc<dyn Taker>) {
        self.0.attach(Arc::new(Translating(taker)));
    }

    fn pump(&mut self) {
        self.0.pump();
    }

    fn poll_ended(&mut self, task: &mut Context<'_>) -> Poll<()> {
        self.0.poll_ended(task)
    }
}

/// A taker of the listener's, in the broker's words.
struct Translating(Arc<dyn Taker>);

impl gatepost_broker::Taker for Translating {
    fn take(&self, next: &mut dyn FnMut() -> Option<gatepost_broker::Event>) -> bool {
        self.0.take(&mut || next().map(event))
    }
}

fn event(event: gatepost_broker::Event) -> Event {
    match event {
        gatepost_broker::Event::Publication(publication) => Event::Publication(publication),
        gatepost_broker::Event::Gap { missed } => Event::Gap { missed },
    }
}
