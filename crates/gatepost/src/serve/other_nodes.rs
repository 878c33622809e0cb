//! The other nodes of the cluster, for the operations of administrators.

use bytes::Bytes;
use gatepost_backbone::{NodeQuestions, QuestionError};
use gatepost_operations::{AskNodes, NodeFault, Operations};
use gatepost_tasks::Task;

/// The backbone, as the operations need it.
pub(super) struct BackboneNodes(pub(super) NodeQuestions);

impl AskNodes for BackboneNodes {
    fn this_node(&self) -> u8 {
        self.0.this_node()
    }

    fn is_joined(&self) -> bool {
        self.0.is_joined()
    }

    fn other_nodes(&self) -> Vec<u8> {
        self.0.other_nodes()
    }

    fn ask(&self, node: u8, question: &[u8]) -> Task<Result<Bytes, NodeFault>> {
        let asked = self.0.ask(node, question);
        Box::pin(async move {
            asked.await.map_err(|error| match error {
                QuestionError::NoAnswer => NodeFault::Silent,
                QuestionError::Refused(reason) => NodeFault::Refused(reason),
            })
        })
    }
}

/// Answers the questions of other nodes, each in a task of its own, until the server ends. The
/// backbone bounds their number.
pub(super) fn answer(questions: &NodeQuestions, operations: &Operations) {
    let Some(mut received) = questions.received() else {
        return;
    };
    let operations = operations.clone();
    gatepost_tasks::spawn(async move {
        while let Some(question) = received.recv().await {
            let operations = operations.clone();
            gatepost_tasks::spawn(async move {
                let answer = operations.answer(question.question).await;
                // Fails if the asking node waits no longer.
                let _ = question.reply.send(answer);
            });
        }
    });
}
