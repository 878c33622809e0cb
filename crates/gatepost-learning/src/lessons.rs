//! Lessons that the servers of a cluster share.
//!
//! The cluster has one order of all lessons, and each server carries them out in this order
//! ([`LearnedData`]), so all of them learn what one server would learn that is given these lessons:
//! in Bayes ([`Lesson`]), the same message counts once, and as the class that came last; in the
//! reputation of senders ([`SenderLesson`]), every change counts once. A server of a cluster
//! changes its learned data in no other way; it passes its lessons to [`SharedLessons`].

use std::sync::Arc;

use crate::bayes::{
    BayesBackupError, Learned, Lesson, LessonError, LessonOutcome, LessonPosition, TokenStoreError,
};
use crate::reputation::{ReputationStoreError, SenderBackupError, SenderLesson};
use crate::{LearnFailure, LearnInstruction};

/// A lesson of a cluster.
pub trait ClusterLesson: Sized + Send + 'static {
    /// The effect of the lesson on a server.
    type Outcome: Send + 'static;

    /// The number of lessons after which a snapshot replaces them, as a multiple of the setting.
    const PER_SNAPSHOT: u64;

    /// The number by which the server that gives the lesson recognises it.
    fn number(&self) -> u64;

    /// The lesson as bytes.
    fn to_bytes(&self) -> Vec<u8>;

    /// The lesson that [`ClusterLesson::to_bytes`] wrote.
    fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError>;

    /// The usual effect, for a lesson that the cluster has and this server did not carry out in
    /// time.
    fn usual_outcome(&self) -> Self::Outcome;
}

impl ClusterLesson for Lesson {
    type Outcome = LessonOutcome;
    const PER_SNAPSHOT: u64 = 1;

    fn number(&self) -> u64 {
        self.number
    }

    fn to_bytes(&self) -> Vec<u8> {
        Self::to_bytes(self)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError> {
        Self::from_bytes(bytes)
    }

    fn usual_outcome(&self) -> LessonOutcome {
        match self.instruction {
            LearnInstruction::Learn(_) => LessonOutcome::Learned(Learned::New),
            LearnInstruction::Forget => LessonOutcome::Forgotten(true),
        }
    }
}

impl ClusterLesson for SenderLesson {
    type Outcome = ();
    /// A lesson is a fifth as long as one of Bayes, and the snapshot may be longer.
    const PER_SNAPSHOT: u64 = 10;

    fn number(&self) -> u64 {
        self.number
    }

    fn to_bytes(&self) -> Vec<u8> {
        Self::to_bytes(self)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError> {
        Self::from_bytes(bytes)
    }

    fn usual_outcome(&self) {}
}

/// The cluster, as a server that gives lessons sees it.
pub trait SharedLessons<L: ClusterLesson>: Send + Sync {
    /// Gives a lesson of a person. Returns once the cluster has it, so it must not be called on an
    /// I/O runtime.
    fn teach(&self, lesson: L) -> Result<L::Outcome, LearnFailure>;

    /// Gives a lesson that was learned automatically, without waiting. False if too many wait for
    /// the cluster; then it is dropped.
    fn suggest(&self, lesson: L) -> bool;
}

/// The ways of lessons to the cluster.
#[derive(Clone)]
pub struct LearningCluster {
    /// The lessons of Bayes.
    pub bayes: Arc<dyn SharedLessons<Lesson>>,
    /// The lessons about senders.
    pub senders: Arc<dyn SharedLessons<SenderLesson>>,
}

/// The learned data of a server, as the cluster sees it. The methods block.
pub trait LearnedData<L: ClusterLesson>: Send + Sync {
    /// The position up to which the data has the lessons of the cluster; `None` if the server has
    /// not joined it.
    fn position(&self) -> Result<Option<LessonPosition>, LearnFailure>;

    /// Carries out lessons. What they change is stored together with the position.
    fn apply(
        &self,
        lessons: &[L],
        position: LessonPosition,
    ) -> Result<Vec<L::Outcome>, LearnFailure>;

    /// All data, in the format of a snapshot, and its position.
    fn export(&self) -> Result<(Vec<u8>, Option<LessonPosition>), LearnFailure>;

    /// Replaces all data by that of another server.
    fn replace(&self, backup: &[u8], position: LessonPosition) -> Result<(), LearnFailure>;
}

impl From<TokenStoreError> for LearnFailure {
    fn from(error: TokenStoreError) -> Self {
        Self::NotKept(error.to_string())
    }
}

impl From<BayesBackupError> for LearnFailure {
    fn from(error: BayesBackupError) -> Self {
        Self::NotKept(error.to_string())
    }
}

impl From<ReputationStoreError> for LearnFailure {
    fn from(error: ReputationStoreError) -> Self {
        Self::NotKept(error.to_string())
    }
}

impl From<SenderBackupError> for LearnFailure {
    fn from(error: SenderBackupError) -> Self {
        Self::NotKept(error.to_string())
    }
}
