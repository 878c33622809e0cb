//! Carries out actions on a message in quarantine, on the node that has the message.

use gatepost_learning::bayes::Class;
use gatepost_message::MessageId;
use gatepost_users::ANONYMOUS;

use super::decision::{AskedChange, DecisionOutcome, QuarantineDecision, ReleaseOutcome};
use super::question::NodeQuestion;
use crate::error::OperationError;
use crate::operations::Operations;
use crate::request::AdminChange;

impl Operations {
    /// Carries out a decision on the node that has the message. Another node than this one records
    /// the `change` in its audit log.
    pub async fn decide(
        &self,
        id: MessageId,
        decision: QuarantineDecision,
        change: AdminChange,
        node: Option<u8>,
    ) -> Result<DecisionOutcome, OperationError> {
        let Some(this) = self.this_node() else {
            self.asked(node)?;
            return self.decide_here(id, decision).await;
        };
        let change = AskedChange {
            node: this,
            user: change.user,
            peer: change.peer.to_string(),
            action: change.action,
            details: change.details,
        };
        let question = NodeQuestion::Decide {
            id: id.number(),
            decision,
            change: Some(change),
        };
        self.ask_about(id, node, question).await?.1.read()
    }

    pub(super) async fn decide_here(
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
                DecisionOutcome::Learned(self.learn(id, Class::Spam).await?.to_owned())
            }
            QuarantineDecision::LearnHam => {
                DecisionOutcome::Learned(self.learn(id, Class::Ham).await?.to_owned())
            }
            QuarantineDecision::AllowSender => {
                DecisionOutcome::Allowed(self.allow_sender_of(id).await?)
            }
            QuarantineDecision::Release(request) => {
                let released = self.release(id, request).await?;
                DecisionOutcome::Released(ReleaseOutcome {
                    verdict: released.verdict.action.name().to_owned(),
                    reason: released.verdict.reason,
                    subscribers: released.subscribers,
                    destinations: released.destinations,
                })
            }
        })
    }

    /// Records a change for which another node was asked. This node's own changes are recorded by
    /// the listener that received them.
    pub(super) async fn audit_for_node(&self, change: AskedChange) {
        if Some(change.node) == self.this_node() {
            return;
        }
        tracing::info!(
            target: "quarantine",
            node = change.node,
            user = change.user.as_deref().unwrap_or(ANONYMOUS),
            action = change.action,
            "an administrator acted through another node"
        );
        let origin = format!("node {}, http {}", change.node, change.peer);
        self.record_change(change.user, origin, change.action, change.details)
            .await;
    }
}
