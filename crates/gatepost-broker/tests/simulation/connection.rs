//! The MQTT listener's part of one connection, without sockets and tasks: it passes packets to the
//! broker, and answers when the outcome of each commit is known.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use gatepost_broker::{
    Attachment, Connected, PublishRefusal, Publisher, Receipt, StrayAcknowledgement,
};
use gatepost_message::{MessageId, Publication, Qos};
use gatepost_store::{StoreError, Ticket};

use crate::client::{Answer, Outgoing};
use crate::topics;
use crate::wire::{Frame, FrameSocket};

/// The condition that an answer waits for.
enum Condition {
    /// The commit of the present batch's publications.
    Batch,
    /// The commit of the present batch's changes of the session.
    Session,
    Commit(Ticket),
    /// The outcome of the same publication, which an earlier packet brought.
    Repetition,
    Open,
    Failed,
}

pub(crate) struct Connection {
    pub(crate) attachment: Attachment,
    publisher: Publisher,
    pub(crate) socket: Arc<FrameSocket>,
    answers: VecDeque<(Condition, Frame)>,
    tickets: Vec<Result<Ticket, StoreError>>,
    pub(crate) is_begun: bool,
    knows_reasons: bool,
    /// The mutation of a server that does not wait for its disk.
    acknowledges_early: bool,
}

/// The outcome of a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    Now,
    /// At QoS 0, and the retained message of its topic is unchanged.
    NotRetained,
    /// It is a repetition.
    Before,
    /// There is no memory for it.
    Refused,
}

/// The server ends the connection.
pub(crate) struct Ended;

impl Connection {
    pub(crate) fn new(
        connected: Connected,
        socket: Arc<FrameSocket>,
        knows_reasons: bool,
        acknowledges_early: bool,
    ) -> Self {
        Self {
            publisher: connected.attachment.publisher(),
            is_begun: connected.tickets.is_empty(),
            attachment: connected.attachment,
            socket,
            answers: VecDeque::new(),
            tickets: connected.tickets.into_vec(),
            knows_reasons,
            acknowledges_early,
        }
    }

    /// PUBLISH.
    pub(crate) fn publish(&mut self, outgoing: &Outgoing, is_twice: bool) -> Published {
        let Outgoing { packet, qos, .. } = *outgoing;
        let exactly_once = qos == Qos::ExactlyOnce;
        if let Some(packet_id) = NonZeroU16::new(packet).filter(|_| exactly_once) {
            let is_taken = true;
            let answer = Frame::Pubrec { packet, is_taken };
            match self.attachment.receipt(packet_id) {
                Receipt::Unknown => {}
                Receipt::Received => {
                    self.answers.push_back((Condition::Open, answer));
                    return Published::Before;
                }
                Receipt::Undecided | Receipt::Submitted(_) => {
                    self.answers.push_back((Condition::Repetition, answer));
                    return Published::Before;
                }
            }
        }
        let mut published = Published::Now;
        for _ in 0..=usize::from(is_twice) {
            let outcome = self.publisher.publish(outgoing.publication());
            published = match outcome.refused {
                None => Published::Now,
                Some(PublishRefusal::Memory) => Published::Refused,
                Some(PublishRefusal::Retain) if packet == 0 => Published::NotRetained,
                Some(refusal) => panic!("{refusal}"),
            };
        }
        let is_taken = published == Published::Now;
        let answer = match (NonZeroU16::new(packet), exactly_once) {
            (None, _) => return published,
            (Some(packet_id), true) => {
                if is_taken {
                    self.publisher.note_received(packet_id);
                }
                Frame::Pubrec { packet, is_taken }
            }
            (Some(_), false) => Frame::Puback { packet, is_taken },
        };
        self.answers.push_back((Condition::Batch, answer));
        published
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP of the client.
    pub(crate) fn take_answer(&mut self, answer: Answer) {
        let (Answer::Puback(packet)
        | Answer::Pubrec(packet)
        | Answer::Pubrel(packet)
        | Answer::Pubcomp(packet)) = answer;
        let packet_id = NonZeroU16::new(packet).expect("not zero");
        let in_step = match answer {
            Answer::Puback(_) => self.attachment.acknowledge(packet_id),
            Answer::Pubcomp(_) => self.attachment.finish(packet_id),
            Answer::Pubrec(_) => {
                let released = self.attachment.release(packet_id);
                self.step(Frame::Pubrel { packet });
                released
            }
            Answer::Pubrel(_) => {
                self.attachment.note_released(packet_id);
                self.step(Frame::Pubcomp { packet });
                Ok(())
            }
        };
        assert_ne!(in_step, Err(StrayAcknowledgement::OutOfStep), "{answer:?}");
    }

    /// Answers a packet that changes the session: immediately, or when the change is durable.
    pub(crate) fn step(&mut self, frame: Frame) {
        if self.attachment.is_persistent() {
            self.answers.push_back((Condition::Session, frame));
        } else {
            self.answers.push_back((Condition::Open, frame));
        }
    }

    /// Handles everything that one read gave.
    pub(crate) fn finish_batch(&mut self) -> Result<(), Ended> {
        let publications = self.publisher.flush();
        let session = self.attachment.submit();
        for (condition, frame) in &mut self.answers {
            let ticket = match condition {
                Condition::Batch => &publications,
                Condition::Session => &session,
                _ => continue,
            };
            *condition = match ticket {
                None => Condition::Open,
                Some(_) if self.acknowledges_early => Condition::Open,
                Some(Ok(ticket)) => Condition::Commit(ticket.clone()),
                Some(Err(_)) => refused(frame),
            };
        }
        self.answer()
    }

    /// Sends the answers that are due, in their order.
    fn answer(&mut self) -> Result<(), Ended> {
        while let Some((condition, frame)) = self.answers.front_mut() {
            match condition {
                Condition::Open => {}
                Condition::Failed => return Err(Ended),
                Condition::Batch | Condition::Session => break,
                Condition::Commit(ticket) => match ticket.outcome() {
                    None => break,
                    Some(Ok(())) => {}
                    Some(Err(_)) => {
                        *condition = refused(frame);
                        continue;
                    }
                },
                Condition::Repetition => {
                    let Frame::Pubrec { packet, .. } = *frame else {
                        unreachable!("only exactly-once publications are known again");
                    };
                    let packet_id = NonZeroU16::new(packet).expect("not zero");
                    *condition = match self.attachment.receipt(packet_id) {
                        Receipt::Undecided => break,
                        Receipt::Submitted(ticket) => Condition::Commit(ticket),
                        Receipt::Received => Condition::Open,
                        Receipt::Unknown => refused(frame),
                    };
                    continue;
                }
            }
            let frame = *frame;
            if let Frame::Pubrec {
                packet,
                is_taken: false,
            } = frame
            {
                let packet_id = NonZeroU16::new(packet).expect("not zero");
                self.attachment.note_released(packet_id);
            }
            let is_refusal = matches!(
                frame,
                Frame::Puback {
                    is_taken: false,
                    ..
                } | Frame::Pubrec {
                    is_taken: false,
                    ..
                }
            );
            if is_refusal && !self.knows_reasons {
                return Err(Ended);
            }
            self.answers.pop_front();
            self.attachment.append(|out| frame.put(out));
        }
        self.attachment.flush();
        Ok(())
    }

    /// Does the work of the connection's task when it is woken.
    pub(crate) fn poll(&mut self) -> Result<(), Ended> {
        if !self.is_begun {
            while let Some(ticket) = self.tickets.first() {
                match ticket.as_ref().map(Ticket::outcome) {
                    Ok(None) if !self.acknowledges_early => return Ok(()),
                    Ok(None | Some(Ok(()))) => drop(self.tickets.remove(0)),
                    Ok(Some(Err(_))) | Err(_) => return Err(Ended),
                }
            }
            self.attachment.begin();
            self.is_begun = true;
        }
        let mut context = Context::from_waker(Waker::noop());
        let ended = self
            .attachment
            .poll_ended(&mut context, |_| Poll::Ready(Ok(())));
        if ended.is_ready() {
            return Err(Ended);
        }
        self.finish_batch()
    }
}

/// Turns an answer into the refusal that follows from a failed commit.
fn refused(frame: &mut Frame) -> Condition {
    match frame {
        Frame::Puback { is_taken, .. } | Frame::Pubrec { is_taken, .. } => {
            *is_taken = false;
            Condition::Open
        }
        _ => Condition::Failed,
    }
}

impl Outgoing {
    fn publication(&self) -> Publication {
        let payload = if self.is_clearing() {
            Vec::new()
        } else {
            self.number.to_be_bytes().to_vec()
        };
        Publication {
            id: MessageId::next(),
            qos: self.qos,
            retain: self.retain,
            ..Publication::new(topics::topic(self.topic), payload)
        }
    }
}
