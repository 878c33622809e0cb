//! Connects, serves the connection until it ends, and connects again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::Store;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Event, Subscriber};
use gatepost_broker::{Broker, OwnerRights};
use gatepost_learning::lessons::ClusterLesson;
use gatepost_message::Publication;
use gatepost_tasks::Task;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::announcing;
use crate::check;
use crate::connection::Connection;
use crate::division_questions;
use crate::error::BackboneError;
use crate::group_announcing;
use crate::learned::following::LessonFollower;
use crate::learned::view::LessonsView;
use crate::log_reading;
use crate::log_streams;
use crate::log_writing;
use crate::mail::following::MailFollower;
use crate::members;
use crate::membership::{self, Claim};
use crate::moves::directory::Directory;
use crate::moving::{self, MoveEngine};
use crate::node_copying;
use crate::node_questions;
use crate::node_streams;
use crate::outgoing::OutgoingQueue;
use crate::receiving;
use crate::reconnect_pause::ReconnectPause;
use crate::records::bucket::RecordBucket;
use crate::records::following::RecordsFollower;
use crate::retained_stream;
use crate::sending;
use crate::shared::Shared;
use crate::stream_creation::NumberedStream;
use crate::subjects::LessonSubjects;

/// The longest time that the end of the server waits for the NATS servers.
const END_TIME_MAX: Duration = Duration::from_secs(3);
/// The interval at which the end checks for unsent publications.
const DRAINED_EVERY: Duration = Duration::from_millis(10);
/// Subscriptions that wait to be taken in.
const NEW_SUBSCRIPTIONS_MAX: usize = 1_024;

/// Keeps this node in its cluster until the server stops. `first` learns the result of the first
/// attempt.
pub(crate) async fn run(
    shared: Arc<Shared>,
    broker: Broker,
    rights: Arc<dyn OwnerRights>,
    first: oneshot::Sender<Result<(), BackboneError>>,
    mut is_stopping: watch::Receiver<bool>,
) {
    let mut stopping = is_stopping.clone();
    let mut first = Some(first);
    let mut notify = |result| {
        if let Some(first) = first.take() {
            let _ = first.send(result);
        }
    };
    let mut pause = ReconnectPause::new();
    // Nodes with successive numbers begin with different servers.
    let mut server = usize::from(shared.node);
    loop {
        let end = tokio::select! {
            opened = ClusterSession::open(&shared, &broker, &mut server) => match opened {
                Ok(session) => {
                    tracing::info!(target: "backbone", node = shared.node,
                        server = session.client.server_info().server_name,
                        "this server is part of its cluster");
                    notify(Ok(()));
                    let began = Instant::now();
                    // Boxed, since the future of a whole session is large.
                    let run = Box::pin(session.run(&shared, &broker, &rights, &mut is_stopping));
                    let Some(end) = run.await else {
                        return;
                    };
                    pause.connection_ended(began.elapsed());
                    end
                }
                Err(error) => {
                    notify(Err(error.clone()));
                    error
                }
            },
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        };
        tracing::warn!(target: "backbone", error = %end,
            "this server is not part of its cluster; it continues alone and tries again");
        shared.leave(&end);
        tokio::select! {
            () = tokio::time::sleep(pause.next(&end)) => {}
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
    }
}

/// A connection with everything that belongs to it.
struct ClusterSession {
    client: Client,
    events: mpsc::Receiver<Event>,
    context: Context,
    claim: Claim,
    /// The questions of other nodes, which begin as soon as they know this one.
    questions: Subscriber,
    /// The questions for the division of shared subscriptions.
    division_questions: Subscriber,
    /// The questions on behalf of administrators.
    node_questions: Subscriber,
    /// The nodes of the cluster, running or not.
    members: Store,
    /// The stream of retained messages.
    stream: Stream,
    /// The streams of the log.
    log: Vec<NumberedStream>,
    /// The stream of this node, if others adopt its sessions.
    own_stream: Option<Stream>,
    /// The nodes that have the sessions.
    directory: Directory,
    /// The bucket of shared records.
    records: RecordBucket,
    outgoing: Arc<OutgoingQueue>,
    queue: mpsc::Receiver<Arc<Publication>>,
}

/// The tasks of a connection.
#[derive(Default)]
struct ConnectionTasks(JoinSet<BackboneError>);

impl ConnectionTasks {
    fn spawn(&mut self, task: impl Future<Output = BackboneError> + Send + 'static) {
        let task: Task<BackboneError> = Box::pin(task);
        self.0.spawn(task);
    }
}

impl ClusterSession {
    /// Connects to the first server from the one at `server` on, and leaves there the place of the
    /// server after it.
    async fn open(
        shared: &Shared,
        broker: &Broker,
        server: &mut usize,
    ) -> Result<Self, BackboneError> {
        let name = format!("gatepost node {}", shared.node);
        let connection = Connection::open(&shared.settings, &name, *server).await?;
        *server = connection.server + 1;
        let context = jetstream::new(connection.client.clone());
        let subjects = &shared.subjects;
        let listen = |subject| subscribe(&connection.client, subject);
        let questions = listen(subjects.confirmation_requests()).await?;
        let division_questions = listen(subjects.division_questions(shared.node)).await?;
        let node_questions = listen(subjects.node_questions(shared.node)).await?;
        if shared.settings.require_sync
            && let Some(server) = check::unsynchronised_server(&shared.settings).await
        {
            return Err(BackboneError::NotSynchronised(server));
        }
        // The streams come first: a cluster with another layout is left alone.
        let log = log_streams::open(shared, &context).await?;
        let stream = retained_stream::open(shared, &context).await?;
        let directory = Directory::open(&context, &shared.subjects, &shared.settings).await?;
        let adopts = shared.settings.adopts_sessions();
        node_streams::begin_epoch(shared, &context, broker).await?;
        let record = shared.record();
        let claim = Claim::take(&context, &shared.subjects, &shared.settings, record).await?;
        let members = members::join(&context, subjects, &shared.settings, shared.node).await?;
        let own_stream = if adopts {
            Some(node_streams::open(shared, &context).await?)
        } else {
            None
        };
        let records = RecordBucket::open(&context, &shared.subjects, &shared.settings).await?;
        for other in membership::list(&claim.bucket()).await? {
            shared.known_nodes.note_alive(other);
        }
        let (outgoing, queue) = OutgoingQueue::new(&shared.settings);
        Ok(Self {
            client: connection.client,
            events: connection.events,
            context,
            claim,
            questions,
            division_questions,
            node_questions,
            members,
            stream,
            log,
            own_stream,
            directory,
            records,
            outgoing: Arc::new(outgoing),
            queue,
        })
    }

    /// Works until the connection ends; `None` where the server stops.
    async fn run(
        self,
        shared: &Arc<Shared>,
        broker: &Broker,
        rights: &Arc<dyn OwnerRights>,
        is_stopping: &mut watch::Receiver<bool>,
    ) -> Option<BackboneError> {
        let outgoing = self.outgoing.clone();
        let (client, bucket) = (self.client.clone(), self.claim.bucket());
        let mut tasks = self.begin(shared, broker, rights);
        shared.join(outgoing.clone());
        let end = tokio::select! {
            end = tasks.0.join_next() => Some(match end {
                Some(Ok(end)) => end,
                _ => BackboneError::Lost("a task has failed".to_owned()),
            }),
            _ = is_stopping.wait_for(|is_stopping| *is_stopping) => None,
        };
        if end.is_none() {
            let leaving = async {
                // The last publications, such as wills, are still sent.
                while outgoing.messages() > 0
                    || shared.retained.unsent() > 0
                    || shared.log.waiting() > 0
                    || shared.copy.awaited() > 0
                    || shared.lessons.unsent() > 0
                    || shared.senders.unsent() > 0
                {
                    tokio::time::sleep(DRAINED_EVERY).await;
                }
                membership::release(&bucket, shared.node).await;
                let _ = client.flush().await;
            };
            let _ = tokio::time::timeout(END_TIME_MAX, leaving).await;
        }
        tasks.0.shutdown().await;
        // Publications that waited for this connection are lost.
        broker.note_backbone_drops(outgoing.messages() as u64);
        end
    }

    /// Starts the tasks, the first of which that ends, ends the connection.
    fn begin(
        self,
        shared: &Arc<Shared>,
        broker: &Broker,
        rights: &Arc<dyn OwnerRights>,
    ) -> ConnectionTasks {
        let mut tasks = ConnectionTasks::default();
        let client = self.client;
        let (new_subscriptions, subscriptions) = mpsc::channel(NEW_SUBSCRIPTIONS_MAX);
        tasks.spawn(observe(shared.clone(), broker.clone(), self.events));
        tasks.spawn(receiving::run(
            shared.clone(),
            broker.clone(),
            subscriptions,
        ));
        let questions = [self.questions, self.division_questions, self.node_questions];
        answer_questions(shared, &client, questions, &mut tasks);
        shared.questions.join(&client);
        let (bucket, nodes) = (self.members, shared.clone());
        tasks.spawn(async move { members::watch(bucket, &nodes.questions.members).await });
        let interest = shared.interest.follow();
        let announced =
            announcing::run(shared.clone(), client.clone(), new_subscriptions, interest);
        tasks.spawn(announced);
        let engine = MoveEngine {
            client: client.clone(),
            context: self.context.clone(),
            directory: self.directory,
            log: self.log.iter().map(|log| log.stream.clone()).collect(),
            nodes: self.claim.bucket(),
        };
        let (nodes, of_node) = (shared.clone(), broker.clone());
        tasks.spawn(moving::run(nodes, of_node, rights.clone(), engine));
        if let Some(stream) = self.own_stream {
            copy_sessions(shared, &self.context, stream, &mut tasks);
        }
        // Not before the others: a change of the database may wait for the copy of the sessions.
        follow_records(shared, &self.context, self.records, &mut tasks);
        let sent = sending::run(
            shared.clone(),
            broker.clone(),
            client,
            self.outgoing,
            self.queue,
        );
        tasks.spawn(sent);
        let bucket = self.claim.bucket();
        let nodes = shared.clone();
        tasks.spawn(async move { membership::watch(bucket, &nodes.known_nodes).await });
        tasks.spawn(self.claim.keep());
        follow_log(shared, broker, &self.context, self.log, &mut tasks);
        shared.retained.restart();
        let (read, is_read) = watch::channel(false);
        tasks.spawn(retained_stream::read(
            shared.clone(),
            broker.clone(),
            self.stream,
            read,
        ));
        tasks.spawn(retained_stream::write(
            shared.clone(),
            broker.clone(),
            self.context,
            is_read,
        ));
        tasks
    }
}

async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, BackboneError> {
    let subscribed = client.subscribe(subject).await;
    subscribed.map_err(|error| BackboneError::request("subscribing", error))
}

/// Starts the tasks that answer the questions of other nodes: for confirmations, for the division
/// of shared subscriptions, and on behalf of administrators.
fn answer_questions(
    shared: &Arc<Shared>,
    client: &Client,
    [confirmations, divisions, asked]: [Subscriber; 3],
    tasks: &mut ConnectionTasks,
) {
    let (nodes, answering) = (shared.clone(), client.clone());
    tasks.spawn(announcing::answer(nodes, answering, confirmations));
    let (nodes, answering) = (shared.clone(), client.clone());
    tasks.spawn(division_questions::answer(nodes, answering, divisions));
    let (nodes, answering) = (shared.clone(), client.clone());
    tasks.spawn(node_questions::answer(nodes, answering, asked));
}

/// Copies the sessions of this node into its stream, and adds replicas that the stream lacks.
fn copy_sessions(
    shared: &Arc<Shared>,
    context: &Context,
    stream: Stream,
    tasks: &mut ConnectionTasks,
) {
    let (owner, context) = (shared.clone(), context.clone());
    tasks.spawn(node_copying::write(owner.clone(), context.clone(), stream));
    tasks.spawn(async move { node_streams::complete(&owner, &context).await });
}

/// Follows what all nodes have in their databases.
fn follow_records(
    shared: &Arc<Shared>,
    context: &Context,
    records: RecordBucket,
    tasks: &mut ConnectionTasks,
) {
    let (view, store) = (shared.records.clone(), shared.log.store.clone());
    tasks.spawn(RecordsFollower::follow(view, store, records));
    tasks.spawn(mail_follower(shared, context).run());
    let lessons = lesson_follower(shared, context, &shared.lessons, shared.subjects.learned());
    tasks.spawn(lessons.run());
    let senders = lesson_follower(shared, context, &shared.senders, shared.subjects.senders());
    tasks.spawn(senders.run());
}

fn lesson_follower<L: ClusterLesson>(
    shared: &Shared,
    context: &Context,
    view: &Arc<LessonsView<L>>,
    subjects: LessonSubjects,
) -> LessonFollower<L> {
    LessonFollower {
        view: view.clone(),
        context: context.clone(),
        subjects,
        settings: shared.settings.clone(),
        node: shared.node,
    }
}

fn mail_follower(shared: &Shared, context: &Context) -> MailFollower {
    MailFollower {
        view: shared.mailboxes.clone(),
        store: shared.log.store.clone(),
        context: context.clone(),
        subjects: shared.subjects.clone(),
        settings: shared.settings.clone(),
    }
}

/// Starts the tasks that write and read the partitions of the log.
fn follow_log(
    shared: &Arc<Shared>,
    broker: &Broker,
    context: &Context,
    streams: Vec<NumberedStream>,
    tasks: &mut ConnectionTasks,
) {
    for (partition, stream) in shared.log.partitions.iter().zip(streams) {
        let partition = partition.clone();
        tasks.spawn(log_writing::write(
            shared.clone(),
            context.clone(),
            stream.stream.clone(),
            partition.clone(),
        ));
        tasks.spawn(log_reading::read(
            shared.clone(),
            broker.clone(),
            context.clone(),
            stream,
            partition,
        ));
    }
    tasks.spawn(group_announcing::run(
        shared.clone(),
        broker.clone(),
        context.clone(),
    ));
}

/// Waits until the connection ends, and records the events that the servers report.
async fn observe(
    shared: Arc<Shared>,
    broker: Broker,
    mut events: mpsc::Receiver<Event>,
) -> BackboneError {
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected => {}
            Event::SlowConsumer(_) => broker.note_backbone_drops(1),
            Event::ServerError(error) => {
                let trouble = format!("a NATS server refuses a request: {error}");
                tracing::warn!(target: "backbone", "{trouble}");
                shared.note_trouble(trouble);
            }
            Event::ClientError(error) => {
                tracing::debug!(target: "backbone", %error, "the client reports an error");
            }
            Event::LameDuckMode => {
                return BackboneError::Lost("its NATS server is about to stop".to_owned());
            }
            Event::Disconnected | Event::Draining | Event::Closed => break,
        }
    }
    BackboneError::Lost("its NATS server closed the connection".to_owned())
}
