//! The broker's handle.

use std::sync::Arc;

use bytes::BytesMut;
use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{Store, StoreError, Ticket};
use parking_lot::Mutex;

use crate::connect::{ConnectError, ConnectOptions, Connected, Welcome};
use crate::core::Core;
use crate::figures::MoreFigures;
use crate::limits::Limit;
use crate::publisher::{Delivery, Publisher};
use crate::reader::{Reader, ReaderOptions};
use crate::session::Ended;
use crate::settings::BrokerSettings;
use crate::trace::{StepOutcome, TraceStep};

/// Publishers that wait for their next use by those who publish now and then.
const IDLE_PUBLISHERS_MAX: usize = 16;

/// The broker. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    core: Arc<Core>,
    /// Their topics stay known from one use to the next.
    idle_publishers: Arc<Mutex<Vec<Publisher>>>,
}

impl Broker {
    /// A broker that forgets everything when it ends.
    pub fn new(settings: BrokerSettings) -> Self {
        Self::with(settings, None)
    }

    /// A broker that keeps in `store` what must survive, and starts from what is there.
    pub fn open(settings: BrokerSettings, store: Store) -> Result<Self, StoreError> {
        let retained = store.retained()?;
        let per_topic = settings.recent_per_topic;
        let total = per_topic.saturating_mul(settings.recent_topics_max);
        let history = store.history(per_topic, total.min(100_000))?;
        let broker = Self::with(settings, Some(store));
        for publication in retained {
            broker.core.retained.keep(&Arc::new(publication));
        }
        for publication in history {
            let publication = Arc::new(publication);
            let record = broker.core.recent.record(&publication.topic);
            broker.core.recent.push(&record, &publication);
        }
        crate::recovery::take_back_sessions(&broker.core)?;
        Ok(broker)
    }

    fn with(settings: BrokerSettings, store: Option<Store>) -> Self {
        Self {
            core: Arc::new(Core::new(settings, store)),
            idle_publishers: Arc::default(),
        }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The settings that it runs with.
    pub fn settings(&self) -> &BrokerSettings {
        &self.core.settings
    }

    /// A publisher for a connection of its own.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.core.clone(), None)
    }

    /// Publishes one message at once. The ticket is for what must be durable before the sender
    /// is told of success; `None` where nothing needs to be.
    pub fn publish_now(
        &self,
        publication: Publication,
    ) -> (Delivery, Option<Result<Ticket, StoreError>>) {
        self.with_publisher(|publisher| publisher.publish(publication))
    }

    fn with_publisher(
        &self,
        publish: impl FnOnce(&mut Publisher) -> Delivery,
    ) -> (Delivery, Option<Result<Ticket, StoreError>>) {
        let idle = self.idle_publishers.lock().pop();
        let mut publisher = idle.unwrap_or_else(|| self.publisher());
        let delivery = publish(&mut publisher);
        let ticket = publisher.flush();
        let mut idle = self.idle_publishers.lock();
        if idle.len() < IDLE_PUBLISHERS_MAX {
            idle.push(publisher);
        }
        (delivery, ticket)
    }

    /// As [`Broker::publish_now`], remembering to whom it goes and what becomes of it there, under
    /// the id of `message`.
    pub fn publish_traced(
        &self,
        publication: Publication,
        message: MessageId,
    ) -> (Delivery, Option<Result<Ticket, StoreError>>) {
        let trace = self.core.traces.begin(message);
        self.with_publisher(|publisher| publisher.publish_traced(publication, trace))
    }

    /// Remembers what became of a message elsewhere than at a subscriber: in whose mailbox it lies, or
    /// what the next hop `said`.
    pub fn note_elsewhere(
        &self,
        message: MessageId,
        whom: &str,
        kind: &'static str,
        outcome: StepOutcome,
        said: Option<&str>,
    ) {
        if let Some(trace) = self.core.traces.begin(message) {
            trace.elsewhere(whom, kind, outcome, said);
        }
    }

    /// To whom a message went and what became of it there, with how many subscribers there were
    /// beyond those named; `None` where that is not remembered.
    pub fn trace(&self, message: MessageId) -> Option<(Vec<TraceStep>, u64)> {
        self.core.traces.of(message)
    }

    /// Publishes one message, and returns when it is durable where it must be.
    pub async fn publish(&self, publication: Publication) -> Result<Delivery, StoreError> {
        let (delivery, ticket) = self.publish_now(publication);
        if let Some(ticket) = ticket {
            ticket?.committed().await?;
        }
        Ok(delivery)
    }

    /// A subscriber within this process.
    pub fn subscribe_stream(&self, filters: &[TopicFilter], options: ReaderOptions) -> Reader {
        Reader::new(self.core.clone(), filters, options)
    }

    /// The topic's last publication that is remembered.
    pub fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        self.core.recent.latest(topic)
    }

    /// The last `count` publications under `filter` that are remembered, oldest first.
    pub fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        self.core.recent.history(filter, count)
    }

    /// The retained messages under `filter`.
    pub fn retained(&self, filter: &TopicFilter) -> Vec<Arc<Publication>> {
        self.core.retained.matching(filter)
    }

    /// Gives a client its session: a new one, or the one that waits for it. A connection that
    /// has it now is ended. `greet` writes what the client must read before anything else
    /// (MQTT's CONNACK); it is called under a lock, so it should only write.
    pub fn connect(
        &self,
        options: ConnectOptions,
        greet: impl FnOnce(Welcome<'_>, &mut BytesMut),
    ) -> Result<Connected, ConnectError> {
        self.core.connect(options, greet)
    }

    /// Ends the connection of a client; tells whether there was one.
    pub fn disconnect(&self, client_id: &str) -> bool {
        let session = self.core.sessions.lock().get(client_id).cloned();
        session.is_some_and(|session| {
            session.end(Ended::Administrative);
            session.is_connected()
        })
    }

    /// Has further figures published under `$SYS/broker/`, by these names; the first call counts.
    pub fn add_figures(&self, figures: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static) {
        let _ = self.core.more_figures.set(MoreFigures(Box::new(figures)));
    }

    /// Counts a bound that a listener saw reached, by this client or address.
    pub fn note_limit(&self, limit: Limit, client: &str) {
        self.core.reached(limit, client);
    }

    /// Whose session this is, where its client logged in.
    pub fn owner_of(&self, client_id: &str) -> Option<Arc<str>> {
        let sessions = self.core.sessions.lock();
        sessions.get(client_id)?.lock().user.clone()
    }

    /// Ends a session, connected or not, and all that it has; tells whether there was one. Its
    /// will is published \[MQTT-3.1.2-8\].
    pub fn forget(&self, client_id: &str) -> bool {
        let session = self.core.sessions.lock().remove(client_id);
        let Some(session) = session else {
            return false;
        };
        let aftermath = self.core.end_session(&session);
        // Nobody waits for it.
        let _ = self.core.settle(vec![aftermath]);
        true
    }

    /// Wakes the task of every connection, so that it looks at what has changed around it, such
    /// as what its user may do.
    pub fn wake_connections(&self) {
        let sessions: Vec<_> = self.core.sessions.lock().values().cloned().collect();
        for session in sessions {
            session.lock().wake_owner();
        }
    }

    /// Tells all connections and readers to end, when the server goes down.
    pub fn shut_down(&self) {
        let sessions: Vec<_> = self.core.sessions.lock().values().cloned().collect();
        for session in sessions {
            session.end(Ended::ShuttingDown);
        }
        for reader in self.core.readers.lock().drain(..) {
            if let Some(reader) = reader.upgrade() {
                reader.close();
            }
        }
    }
}
