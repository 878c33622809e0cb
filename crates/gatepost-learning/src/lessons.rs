//! Lessons that the servers of a cluster share.
//!
//! The cluster has one order of all lessons, and each server carries them out in this order
//! ([`LearnedData`]), so all of them learn what one server would learn that is given these lessons:
//! the same message counts once, and as the class that came last. A server of a cluster changes its
//! learned data in no other way; it passes its lessons to [`SharedLessons`].

use crate::LearnFailure;
use crate::bayes::{BayesBackupError, Lesson, LessonOutcome, LessonPosition, TokenStoreError};

/// The cluster, as a server that gives lessons sees it.
pub trait SharedLessons: Send + Sync {
    /// Gives a lesson of a person. Returns once the cluster has it, so it must not be called on an
    /// I/O runtime.
    fn teach(&self, lesson: Lesson) -> Result<LessonOutcome, LearnFailure>;

    /// Gives a lesson that was learned automatically, without waiting. False if too many wait for
    /// the cluster; then it is dropped.
    fn suggest(&self, lesson: Lesson) -> bool;
}

/// The learned data of a server, as the cluster sees it. The methods block.
pub trait LearnedData: Send + Sync {
    /// The position up to which the data has the lessons of the cluster; `None` if the server has
    /// not joined it.
    fn position(&self) -> Result<Option<LessonPosition>, LearnFailure>;

    /// Carries out lessons. What they change is stored together with the position.
    fn apply(
        &self,
        lessons: &[Lesson],
        position: LessonPosition,
    ) -> Result<Vec<LessonOutcome>, LearnFailure>;

    /// All data, in the format of `sa-learn --backup`, and its position.
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
