//! The handle of the backbone, and its thread.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use gatepost_broker::{Broker, OtherNodes, OwnerRights};
use gatepost_learning::bayes::Lesson;
use gatepost_learning::lessons::{LearnedData, LearningCluster};
use gatepost_learning::reputation::SenderLesson;
use gatepost_message::NodeNumber;
use gatepost_store::{SharedSet, Store, StoreError};
use tokio::sync::{oneshot, watch};

use crate::error::BackboneError;
use crate::learned::view::SharedLessonsView;
use crate::mail::position;
use crate::mail::view::SharedMailboxView;
use crate::node_questions::NodeQuestions;
use crate::node_stream::copy::NodeCopy;
use crate::records::followed_bucket::{self, follows_cluster};
use crate::records::view::{RecordsView, SharedView};
use crate::settings::BackboneSettings;
use crate::shared::Shared;

/// The longest time that the start of the server waits for the cluster.
const START_TIME_MAX: Duration = Duration::from_secs(15);

/// The server is part of no cluster any more: the users and the mail in its database are its own.
pub async fn leave_cluster(store: &Store) -> Result<(), StoreError> {
    followed_bucket::leave(store).await?;
    position::leave(store).await
}

/// The backbone of a server.
pub struct Backbone {
    shared: Arc<Shared>,
}

impl Backbone {
    /// A backbone that is not connected yet. It already records the broker's reports.
    /// Reads from `store` what an earlier run of this server had not sent to the cluster. The
    /// cluster decides about the records of `sets` and about mailboxes from now on.
    pub fn new(
        settings: &BackboneSettings,
        node: NodeNumber,
        store: &Store,
        sets: &'static [&'static SharedSet],
    ) -> Result<Self, StoreError> {
        let records = Arc::new(RecordsView::new(sets, follows_cluster(store)?));
        store.share_records(Arc::new(SharedView(records.clone())));
        let shared = Shared::new(settings.clone(), node, store.clone(), records)?;
        store.share_mailboxes(Arc::new(SharedMailboxView(shared.mailboxes.clone())));
        store.each_session(|row| shared.copy.note_session(row.number, &row.client))?;
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The cluster decides what is learned in `learned` from now on; returns the way of this
    /// server's lessons.
    pub fn share_learning<D>(&self, learned: Arc<D>) -> LearningCluster
    where
        D: LearnedData<Lesson> + LearnedData<SenderLesson> + 'static,
    {
        self.shared.lessons.set_learned(learned.clone());
        self.shared.senders.set_learned(learned);
        LearningCluster {
            bayes: Arc::new(SharedLessonsView(self.shared.lessons.clone())),
            senders: Arc::new(SharedLessonsView(self.shared.senders.clone())),
        }
    }

    /// The handle that the broker is opened with.
    pub fn nodes(&self) -> Arc<dyn OtherNodes> {
        self.shared.clone()
    }

    /// Connects, on a thread of its own. From now on, what sessions are promised is stored by the
    /// cluster before it is acknowledged. `rights` are those by which wills are published of
    /// sessions that are adopted.
    pub fn start(
        self,
        broker: &Broker,
        rights: Arc<dyn OwnerRights>,
    ) -> io::Result<RunningBackbone> {
        let (stop, is_stopping) = watch::channel(false);
        let (first, joined) = oneshot::channel();
        let questions = NodeQuestions::new(self.shared.clone());
        let broker = broker.clone();
        if self.shared.settings.adopts_sessions() {
            let copy = self.shared.copy.clone();
            self.shared.log.store.copy_commits_to(copy);
        }
        let records = self.shared.records.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new().name("backbone".to_owned());
        let thread = thread.spawn(move || {
            let shared = self.shared.clone();
            let _copy = StoppedCopy(shared.copy.clone());
            runtime.block_on(async {
                tokio::select! {
                    () = shared.log.fail_overdue() => {}
                    () = crate::session::run(self.shared, broker, rights, first, is_stopping) => {}
                }
            });
        })?;
        Ok(RunningBackbone {
            questions,
            stop,
            joined,
            records,
            thread,
        })
    }
}

/// The copy of the sessions, which ends with the thread: no commit waits for it any more.
struct StoppedCopy(Arc<NodeCopy>);

impl Drop for StoppedCopy {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A backbone at work.
pub struct RunningBackbone {
    questions: NodeQuestions,
    stop: watch::Sender<bool>,
    joined: oneshot::Receiver<Result<(), BackboneError>>,
    records: Arc<RecordsView>,
    thread: JoinHandle<()>,
}

impl RunningBackbone {
    /// Waits for the first attempt to join the cluster. An error is one that only an operator can
    /// correct; servers that cannot be reached are none, and are tried again.
    pub async fn joined(&mut self) -> Result<(), BackboneError> {
        let (joined, records) = (&mut self.joined, &self.records);
        let joined = async move {
            let joined = joined.await;
            if matches!(joined, Ok(Ok(()))) {
                // The users are in force before the first client is served.
                records.followed().await;
            }
            joined
        };
        match tokio::time::timeout(START_TIME_MAX, joined).await {
            Ok(Ok(Err(error))) if error.is_lasting() => Err(error),
            _ => Ok(()),
        }
    }

    /// The way of questions to other nodes, and of theirs to this one.
    pub fn questions(&self) -> NodeQuestions {
        self.questions.clone()
    }

    /// Leaves the cluster.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let thread = self.thread;
        // Fails only if the thread has panicked, which is logged.
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
}
