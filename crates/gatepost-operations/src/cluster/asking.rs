//! Which nodes are asked, and those that did not answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::MessageId;
use gatepost_tasks::Task;
use tokio::task::JoinSet;

use super::limits::SEARCH_TIME_MAX;
use super::question::{self, NodeAnswer, NodeQuestion};
use crate::ask_nodes::{AskNodes, NodeFault, UnansweredNode};
use crate::error::OperationError;
use crate::operations::Operations;

/// The answers to a question to several nodes.
#[derive(Default)]
pub(super) struct NodeAnswers {
    /// The answers, by node.
    pub(super) given: Vec<(u8, NodeAnswer)>,
    pub(super) unanswered: Vec<UnansweredNode>,
}

/// An answer, and the node that gave it; `None` without a cluster.
pub(super) type AnswerOfNode = (Option<u8>, NodeAnswer);

/// The nodes that a question is for.
pub(super) enum Asked<'a> {
    /// This server, which is in no cluster.
    Alone,
    /// One node of a cluster.
    One(u8),
    /// All nodes of this cluster.
    All(&'a Arc<dyn AskNodes>),
}

impl Operations {
    /// The nodes that a question is for, if the operator chose this one. A choice without a cluster
    /// changes nothing.
    pub(super) fn asked(&self, chosen: Option<u8>) -> Result<Asked<'_>, OperationError> {
        match (&self.nodes, chosen) {
            (None, _) => Ok(Asked::Alone),
            (Some(nodes), None) => Ok(Asked::All(nodes)),
            (Some(nodes), Some(node)) => {
                let is_member = node == nodes.this_node() || nodes.other_nodes().contains(&node);
                is_member
                    .then_some(Asked::One(node))
                    .ok_or(OperationError::NoSuchNode(node))
            }
        }
    }

    /// Whether the cluster has the node that the operator chose.
    pub(crate) fn check_node(&self, chosen: Option<u8>) -> Result<(), OperationError> {
        self.asked(chosen).map(drop)
    }

    /// Asks one node, which may be this one. This one takes up to `own_time_max` for a search.
    pub(super) async fn ask_one(
        &self,
        node: Option<u8>,
        question: NodeQuestion,
        own_time_max: Duration,
    ) -> Result<NodeAnswer, OperationError> {
        match (&self.nodes, node) {
            (Some(nodes), Some(node)) if node != nodes.this_node() => {
                ask(nodes.as_ref(), node, &question.bytes()?).await
            }
            _ => self.carry_out(question, own_time_max).await,
        }
    }

    /// Asks all nodes of the cluster at the same time; only this one while it is not part of it,
    /// and says so.
    pub(super) async fn ask_all(
        &self,
        nodes: &Arc<dyn AskNodes>,
        question: &NodeQuestion,
    ) -> Result<NodeAnswers, OperationError> {
        let mut all = vec![nodes.this_node()];
        let is_joined = nodes.is_joined();
        if is_joined {
            all.extend(nodes.other_nodes());
        }
        let mut asked = JoinSet::new();
        for node in all {
            let (operations, question) = (self.clone(), question.clone());
            let one: Task<(u8, Result<NodeAnswer, OperationError>)> = Box::pin(async move {
                let answer = operations.ask_one(Some(node), question, SEARCH_TIME_MAX);
                (node, answer.await)
            });
            asked.spawn(one);
        }
        let mut answers = NodeAnswers::default();
        while let Some(answer) = asked.join_next().await {
            let (node, answer) =
                answer.map_err(|error| OperationError::Failed(error.to_string()))?;
            match answer {
                Ok(answer) => answers.given.push((node, answer)),
                Err(error) if Some(node) == self.this_node() => return Err(error),
                Err(error) => answers.unanswered.push(unanswered(node, error)),
            }
        }
        answers.given.sort_by_key(|(node, _)| *node);
        answers.unanswered.sort_by_key(|unanswered| unanswered.node);
        if !is_joined {
            answers.unanswered.push(UnansweredNode {
                node: None,
                reason: "this node is not part of its cluster, so no other node was asked"
                    .to_owned(),
            });
        }
        Ok(answers)
    }

    /// Asks about one message: the node that the operator chose, or the one that its id names, or
    /// this one. The id of a message that arrived before its server was in a cluster, or had
    /// another number, names a wrong node: so this one is asked as well.
    pub(super) async fn ask_about(
        &self,
        id: MessageId,
        chosen: Option<u8>,
        question: NodeQuestion,
    ) -> Result<AnswerOfNode, OperationError> {
        let this = self.this_node();
        let node = match self.asked(chosen)? {
            Asked::Alone => None,
            Asked::One(node) => Some(node),
            Asked::All(nodes) => {
                let named = id.node();
                let is_other = nodes.other_nodes().contains(&named);
                if is_other { Some(named) } else { this }
            }
        };
        let answer = self.ask_one(node, question.clone(), SEARCH_TIME_MAX).await;
        match answer {
            Ok(answer) => Ok((node, answer)),
            Err(OperationError::NotFound | OperationError::NoAnswer(_))
                if chosen.is_none() && node != this =>
            {
                let own = self.carry_out(question, SEARCH_TIME_MAX).await;
                match (own, answer) {
                    (Err(OperationError::NotFound), Err(error)) => Err(error),
                    (own, _) => own.map(|answer| (this, answer)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The number of this node; `None` if it is in no cluster.
    pub(crate) fn this_node(&self) -> Option<u8> {
        self.nodes.as_ref().map(|nodes| nodes.this_node())
    }
}

/// A node that did not answer, or whose answer is of no use.
pub(super) fn unanswered(node: u8, error: OperationError) -> UnansweredNode {
    UnansweredNode {
        node: Some(node),
        reason: match error {
            OperationError::Failed(reason) => format!("node {node}: {reason}"),
            error => error.to_string(),
        },
    }
}

async fn ask(
    nodes: &dyn AskNodes,
    node: u8,
    question: &Bytes,
) -> Result<NodeAnswer, OperationError> {
    match nodes.ask(node, question).await {
        Ok(answer) => question::decode(answer),
        Err(NodeFault::Silent) => Err(OperationError::NoAnswer(node)),
        Err(NodeFault::Refused(reason)) => Err(OperationError::Failed(reason)),
    }
}
