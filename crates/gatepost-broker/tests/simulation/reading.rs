//! The clients' processing of the frames that they read.

use gatepost_message::Qos;

use crate::client::{Answer, Will};
use crate::fixture::{Checked, Fixture};
use crate::topics;
use crate::wire::{Frame, Publish};

impl Fixture {
    /// The client reads, and sends its acknowledgements or postpones them.
    pub(crate) fn read(&mut self, index: usize, frames: u64, answers: bool) -> Checked {
        self.poll(index);
        for _ in 0..frames {
            let connection = self.clients[index].connection.as_ref();
            let Some(frame) = connection.and_then(|connection| connection.socket.next()) else {
                break;
            };
            self.take_frame(index, frame)?;
        }
        if answers {
            self.send_answers(index);
        }
        Ok(())
    }

    fn take_frame(&mut self, index: usize, frame: Frame) -> Checked {
        match frame {
            Frame::Connack { is_present } => return self.connected(index, is_present),
            Frame::Publish(publish) => return self.take_publication(index, publish),
            Frame::Puback { packet, is_taken } => self.taken(index, packet, is_taken, true),
            Frame::Pubrec { packet, is_taken } => {
                self.taken(index, packet, is_taken, false);
                if is_taken {
                    self.clients[index].owed.push(Answer::Pubrel(packet));
                }
            }
            Frame::Pubrel { packet } => {
                let client = &mut self.clients[index];
                client.incoming.remove(&packet);
                client.owed.push(Answer::Pubcomp(packet));
            }
            Frame::Pubcomp { packet } => {
                let outgoing = &mut self.clients[index].outgoing;
                outgoing.retain(|outgoing| outgoing.packet != packet);
            }
            Frame::Suback { packet } | Frame::Unsuback { packet } => {
                let subscribing = &mut self.clients[index].subscribing;
                let known = subscribing.remove(&packet);
                let known = known.ok_or("an answer to no SUBSCRIBE")?;
                let mut others = subscribing.values();
                if others.any(|other| other.filter == known.filter) {
                    return Ok(()); // and they decide
                }
                let subscriptions = &mut self.model.sessions[index].subscriptions;
                match known.level {
                    Some(level) => drop(subscriptions.insert(known.filter, Some(level))),
                    None => drop(subscriptions.remove(&known.filter)),
                }
            }
        }
        Ok(())
    }

    fn connected(&mut self, index: usize, is_present: bool) -> Checked {
        let client = &mut self.clients[index];
        let pending = client.pending.take().ok_or("a second CONNACK")?;
        let connect = pending.connect;
        let session = &mut self.model.sessions[index];
        session.connected(is_present, pending.before, connect.clean, connect.expiry)?;
        if let Some(connection) = &client.connection {
            let filters = connection.attachment.filters();
            let filters: Vec<usize> = filters.iter().map(topics::index_of_filter).collect();
            session.check_filters(&filters)?;
        }
        client.will = connect
            .will
            .zip(pending.will)
            .map(|((delay, _), number)| Will { number, delay });
        if !is_present {
            client.forget_all();
            return Ok(());
        }
        // [MQTT-4.4.0-1]
        for outgoing in client.outgoing.clone() {
            if outgoing.is_received {
                self.clients[index]
                    .owed
                    .push(Answer::Pubrel(outgoing.packet));
            } else {
                self.send(index, &outgoing);
            }
        }
        self.finish_batch(index);
        Ok(())
    }

    fn take_publication(&mut self, index: usize, publish: Publish) -> Checked {
        let client = &mut self.clients[index];
        let is_known = match publish.qos {
            Qos::AtMostOnce => false,
            Qos::AtLeastOnce => {
                client.owed.push(Answer::Puback(publish.packet));
                false
            }
            Qos::ExactlyOnce => {
                client.owed.push(Answer::Pubrec(publish.packet));
                !client.incoming.insert(publish.packet)
            }
        };
        if is_known && !publish.dup {
            let packet = publish.packet;
            return Err(format!("identifier {packet} is in use, and used again"));
        }
        if is_known || publish.retain {
            return Ok(());
        }
        let Publish {
            topic, number, qos, ..
        } = publish;
        if number == 0 {
            return Ok(()); // it cleared its topic, and has no number
        }
        self.model.received(index, topic, number, qos)
    }

    /// PUBACK or PUBREC.
    fn taken(&mut self, index: usize, packet: u16, is_taken: bool, is_complete: bool) {
        let outgoing = &mut self.clients[index].outgoing;
        let Some(at) = outgoing.iter().position(|known| known.packet == packet) else {
            return; // a repetition
        };
        outgoing[at].is_received = true;
        let known = outgoing[at];
        if is_complete || !is_taken {
            outgoing.remove(at);
        }
        if is_taken {
            self.model.acknowledged(known.number, known.retained());
        }
    }

    pub(crate) fn send_answers(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(connection) = &mut client.connection else {
            return;
        };
        for answer in client.owed.drain(..) {
            connection.take_answer(answer);
        }
        self.finish_batch(index);
    }
}
