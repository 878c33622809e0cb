//! Actions on a message in quarantine, and their outcomes.
//!
//! In a cluster, any node carries them out: each has the message, and the cluster decides which of
//! several releases comes first.

use gatepost_learning::bayes::Class;
use gatepost_message::MessageId;

use crate::error::OperationError;
use crate::operations::Operations;
use crate::release::{ReleaseRequest, Released};

/// The decision of an administrator about a message in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuarantineDecision {
    /// It is deleted.
    Delete,
    /// The filter learns it as spam.
    LearnSpam,
    /// The filter learns it as ham.
    LearnHam,
    /// Mail from its sender is accepted from now on.
    AllowSender,
    /// It is released.
    Release(ReleaseRequest),
}

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionOutcome {
    /// It was deleted.
    Deleted,
    /// The word that describes what has changed.
    Learned(&'static str),
    /// The sender.
    Allowed(String),
    /// It was released.
    Released(Released),
}

impl Operations {
    /// Carries out a decision.
    pub async fn decide(
        &self,
        id: MessageId,
        decision: QuarantineDecision,
    ) -> Result<DecisionOutcome, OperationError> {
        Ok(match decision {
            QuarantineDecision::Delete => {
                self.delete(id).await?;
                DecisionOutcome::Deleted
            }
            QuarantineDecision::LearnSpam => {
                DecisionOutcome::Learned(self.learn(id, Class::Spam).await?)
            }
            QuarantineDecision::LearnHam => {
                DecisionOutcome::Learned(self.learn(id, Class::Ham).await?)
            }
            QuarantineDecision::AllowSender => {
                DecisionOutcome::Allowed(self.allow_sender_of(id).await?)
            }
            QuarantineDecision::Release(request) => {
                DecisionOutcome::Released(self.release(id, request).await?)
            }
        })
    }
}
