//! The earlier owner of a session: it ends the session, keeps the content, and gives it to the new
//! owner.
//!
//! A session is released without waiting, while all that it has received is flushed
//! (`log_reading.rs`), so the positions in the log fit the content. A node that returns after some
//! time reads what the log has gathered first: another node would have to read the same for each
//! session that left before.

use async_nats::{Message, Subject, Subscriber};
use futures_util::StreamExt as _;
use gatepost_broker::SessionRelease;
use gatepost_store::Ticket;
use gatepost_tasks::Task;
use tokio::task::JoinSet;

use super::MoveContext;
use crate::error::BackboneError;
use crate::moves::ownership::SessionId;
use crate::moves::question::{ReplacedSession, SessionAnswer, SessionQuestion, SessionRequest};
use crate::moves::transfer::{self, SessionTransfer};

/// An answer, and the commit that it waits for.
pub(super) struct DueAnswer {
    pub(super) answer: SessionAnswer,
    pub(super) after: Option<Ticket>,
}

impl From<SessionAnswer> for DueAnswer {
    fn from(answer: SessionAnswer) -> Self {
        Self {
            answer,
            after: None,
        }
    }
}

/// Answers the questions of other nodes.
pub(super) async fn run(context: MoveContext, mut questions: Subscriber) -> BackboneError {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            question = questions.next() => {
                let Some(Message { payload, reply: Some(reply), .. }) = question else {
                    return BackboneError::Lost("the questions ended".to_owned());
                };
                match SessionQuestion::read(payload) {
                    Ok(question) => {
                        let due = context.answer_to(&question);
                        let context = context.clone();
                        let answer: Task =
                            Box::pin(async move { context.send(reply, question, due).await });
                        answers.spawn(answer);
                    }
                    Err(error) => context.shared.note_malformed(error),
                }
            }
            Some(_) = answers.join_next() => {}
        }
    }
}

/// Ends the sessions that other nodes replace.
pub(super) async fn follow_replacements(
    context: &MoveContext,
    mut replaced: Subscriber,
) -> BackboneError {
    while let Some(message) = replaced.next().await {
        match ReplacedSession::read(message.payload) {
            Ok(replaced) => context.end_replaced(&replaced),
            Err(error) => context.shared.note_malformed(error),
        }
    }
    BackboneError::Lost("the announcements of sessions ended".to_owned())
}

impl MoveContext {
    pub(super) fn answer_to(&self, question: &SessionQuestion) -> DueAnswer {
        let (shared, wanted) = (&self.shared, question.wanted);
        let id = SessionId::of(&question.name);
        let index = match question.request {
            SessionRequest::Piece(index) => index,
            SessionRequest::Remove => {
                let removal = transfer::remove(id, wanted);
                let removed = shared.log.store.submit_deferred([removal]);
                return match removed {
                    Ok(()) => SessionAnswer::Removed.into(),
                    Err(_) => SessionAnswer::Busy.into(),
                };
            }
            SessionRequest::Holds => return self.held(id, wanted).into(),
        };
        match transfer::piece(&shared.log.store, id, wanted, index) {
            Ok(Some(piece)) => {
                shared.moves.releasing.lock().remove(&(id, wanted));
                return SessionAnswer::Piece(piece).into();
            }
            Ok(None) if index > 0 => return SessionAnswer::Absent.into(),
            Ok(None)
                if shared.moves.has_earlier_epoch()
                    && shared.moves.own_claim(id) != Some(wanted) =>
            {
                // A node that adopts the earlier epoch may find it.
                return SessionAnswer::Busy.into();
            }
            Ok(None) => {}
            Err(_) => return SessionAnswer::Busy.into(),
        }
        if let Some(claiming) = shared.moves.claiming.lock().get(&id) {
            let is_later = claiming.is_some_and(|own| own > question.claim);
            return if is_later {
                SessionAnswer::Superseded.into()
            } else {
                SessionAnswer::Busy.into()
            };
        }
        if shared.moves.releasing.lock().contains(&(id, wanted)) {
            // The database has failed to store the content, and tries again.
            return SessionAnswer::Busy.into();
        }
        if shared.moves.own_claim(id) != Some(wanted) {
            return SessionAnswer::Absent.into();
        }
        self.release(question, id)
    }

    /// Whether this node has the session by this claim.
    fn held(&self, id: SessionId, wanted: u64) -> SessionAnswer {
        let moves = &self.shared.moves;
        let is_moving = moves.claiming.lock().contains_key(&id)
            || moves.is_joining(id)
            || moves.releasing.lock().contains(&(id, wanted));
        if is_moving {
            SessionAnswer::Busy
        } else if moves.own_claim(id) == Some(wanted) {
            SessionAnswer::Held
        } else {
            SessionAnswer::Absent
        }
    }

    fn release(&self, question: &SessionQuestion, id: SessionId) -> DueAnswer {
        let (shared, wanted) = (&self.shared, question.wanted);
        let positions = shared.log.positions();
        let Some(positions) = positions.filter(|_| shared.log.is_caught_up()) else {
            return SessionAnswer::Busy.into();
        };
        // First, so that the session does not begin again here in between.
        shared.moves.own.lock().remove(&id);
        let released = self.broker.release_session(&question.name, |session| {
            for row in &session.subscriptions {
                if row.filter.as_str().starts_with("$share/") {
                    shared.groups.note_moved(row.filter.clone());
                }
            }
            let session = session.clone();
            SessionTransfer { session, positions }.put(id, wanted)
        });
        match released {
            SessionRelease::Busy => {
                shared.moves.own.lock().insert(id, wanted);
                SessionAnswer::Busy.into()
            }
            SessionRelease::Absent => SessionAnswer::Absent.into(),
            SessionRelease::Released(ticket) => {
                shared.moves.releasing.lock().insert((id, wanted));
                shared.moves.note_released();
                DueAnswer {
                    answer: SessionAnswer::Busy,
                    after: ticket.ok(),
                }
            }
        }
    }

    /// Sends an answer, when the session that it is about is released.
    async fn send(self, reply: Subject, question: SessionQuestion, due: DueAnswer) {
        let DueAnswer { mut answer, after } = due;
        if let Some(ticket) = after
            && ticket.committed().await.is_ok()
        {
            answer = self.answer_to(&question).answer;
        }
        if let Err(error) = self.client.publish(reply, answer.bytes()).await {
            tracing::debug!(target: "backbone", %error, "an answer was not sent");
        }
    }

    /// Ends the session of this node, unless it is a later one than the one that begins.
    fn end_replaced(&self, replaced: &ReplacedSession) {
        let ReplacedSession { node, claim, name } = replaced;
        let moves = &self.shared.moves;
        let id = SessionId::of(name);
        let is_later = |own: u64| *claim != 0 && own > *claim;
        if *node == self.shared.node
            || moves.own_claim(id).is_some_and(is_later)
            || moves.claiming.lock().contains_key(&id)
        {
            return;
        }
        self.broker.replace_session(name);
    }
}
