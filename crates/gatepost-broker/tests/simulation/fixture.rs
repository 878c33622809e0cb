//! One schedule: its steps, done by the clients and the server.

use std::time::Duration;

use gatepost_broker::{
    ConnectError, ConnectOptions, ConnectionClose, ConnectionGreeting, RequestedFilter,
    RetainHandling, SessionWill, SubscribeError, SubscribeOptions, WireFormat,
};
use gatepost_message::{Publication, Qos, TopicFilter};

use crate::client::{self, Client, Outgoing, Pending, Subscribing};
use crate::connection::{Connection, Published};
use crate::model::{Model, WillDuty};
use crate::mutation::Mutation;
use crate::schedule::{CLIENTS, Connect, Step};
use crate::server::{Medium, Server};
use crate::sessions::Existence;
use crate::topics::{self, FILTERS, TOPICS, WILL};
use crate::wire::{self, Frame, Frames};

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) model: Model,
    /// By how much the clock was set ahead in all.
    ahead: Duration,
    /// Wills whose publication or removal is not committed.
    undecided: Vec<(u64, WillDuty)>,
    mutation: Mutation,
}

/// The description of a violated condition.
pub(crate) type Checked = Result<(), String>;

impl Fixture {
    pub(crate) fn new(mutation: Mutation, medium: Medium) -> Self {
        Self {
            server: Server::new(mutation, medium),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            model: Model::new(CLIENTS as usize),
            ahead: Duration::ZERO,
            undecided: Vec::new(),
            mutation,
        }
    }

    pub(crate) fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Connect(connect) => self.connect(connect)?,
            Step::Lose { client } => self.lose(client),
            Step::Disconnect { client, with_will } => self.disconnect(client, with_will),
            Step::Publish {
                client,
                topic,
                qos,
                retain,
                is_batched,
            } => {
                self.publish(client, topic, qos, retain);
                if !is_batched {
                    self.finish_batch(client);
                }
            }
            Step::Read {
                client,
                frames,
                answers,
            } => self.read(client, frames, answers)?,
            Step::Subscribe {
                client,
                filter,
                qos,
            } => self.subscribe(client, filter, qos)?,
            Step::Unsubscribe { client, filter } => self.unsubscribe(client, filter),
            Step::Commit { submissions } => self.commit(submissions),
            Step::FailCommit => {
                self.server.fail_commit();
                self.model.commit_failed();
                self.undecided.clear(); // it is tried again some time
                self.poll_all();
            }
            Step::Crash => self.crash()?,
            Step::Wait { milliseconds } => self.wait(Duration::from_millis(milliseconds)),
            Step::SetMemory(memory) => self.server.set_memory(memory),
            Step::SetClock { seconds } => {
                self.server.set_clock(seconds);
                self.ahead += Duration::from_secs(seconds.max(0).unsigned_abs());
                self.note_moment();
            }
        }
        Ok(())
    }

    pub(crate) fn note_moment(&mut self) {
        self.model.now = self.server.moment(self.ahead);
    }

    pub(crate) fn connect(&mut self, connect: Connect) -> Checked {
        let index = connect.client;
        let now = self.model.now;
        let number = connect.will.map(|_| self.model.number());
        let will = connect.will.zip(number).map(|((delay, qos), number)| {
            let duty = WillDuty::Either; // until the client is greeted
            self.model.wills.insert(number, (qos, duty));
            let payload = number.to_be_bytes().to_vec();
            SessionWill {
                publication: Publication {
                    qos,
                    ..Publication::new(topics::topic(WILL), payload)
                },
                delay,
            }
        });
        let socket = wire::socket();
        let options = ConnectOptions {
            peer: gatepost_message::Peer::Local,
            client_id: Some(format!("client-{index}")),
            user: None,
            authorization: None,
            kind: "mqtt",
            clean_start: connect.clean,
            expiry: connect.expiry,
            receive_max: connect.receive_max,
            frame_bytes_max: None,
            alias_max: 0,
            silence_max: None,
            will,
            slow_subscriber: None,
            format: WireFormat::Static(&Frames),
            socket: socket.clone(),
        };
        let greet = |welcome: ConnectionGreeting<'_>, out: &mut bytes::BytesMut| {
            let is_present = welcome.session_present;
            Frame::Connack { is_present }.put(out);
        };
        let connected = match self.server.broker().connect(options, greet) {
            Err(ConnectError::OutOfMemory) if !connect.clean => {
                self.lose(index); // its session is as before
                return Ok(());
            }
            Err(ConnectError::OutOfMemory) => None,
            connected => Some(connected.map_err(|error| error.to_string())?),
        };
        self.will_at_connect(&connect);
        self.end_with_connection(index);
        let before = self.model.sessions[index].connect_sent(connect.clean, connect.expiry, now);
        if connect.clean || before != Existence::Yes {
            // [MQTT-3.1.2-4], of the client, which also knows when its session has expired. If the
            // CONNACK that reports this were lost, the next one would report the new session.
            self.clients[index].forget();
        }
        let client = &mut self.clients[index];
        drop(client.lose()); // the server has taken the session from it
        let Some(connected) = connected else {
            return Ok(());
        };
        let early = self.mutation == Mutation::AcknowledgeEarly;
        let connection = Connection::new(connected, socket, connect.knows_reasons, early);
        client.connection = Some(connection);
        client.pending = Some(Pending {
            connect,
            before,
            will: number,
        });
        self.poll(index);
        Ok(())
    }

    /// The client's own task at the server.
    pub(crate) fn poll(&mut self, index: usize) {
        let connection = self.clients[index].connection.as_mut();
        if connection.is_some_and(|connection| connection.poll().is_err()) {
            self.lose(index);
        }
    }

    pub(crate) fn poll_all(&mut self) {
        for index in 0..self.clients.len() {
            self.poll(index);
        }
    }

    pub(crate) fn finish_batch(&mut self, index: usize) {
        let connection = self.clients[index].connection.as_mut();
        if connection.is_some_and(|connection| connection.finish_batch().is_err()) {
            self.lose(index);
        }
    }

    /// The network loses the connection, or the server ends it.
    pub(crate) fn lose(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(connection) = client.lose() else {
            return;
        };
        drop(connection);
        self.will_at_end(index);
        self.end_with_connection(index);
        self.model.sessions[index].disconnected(self.model.now);
    }

    /// A session without expiry ends with its connection, for the client too.
    fn end_with_connection(&mut self, index: usize) {
        let session = &self.model.sessions[index];
        if session.is_connected && !session.outlives_connection() {
            self.clients[index].forget();
        }
    }

    fn disconnect(&mut self, index: usize, with_will: bool) {
        if !self.clients[index].is_connected() {
            return;
        }
        let client = &mut self.clients[index];
        let Some(connection) = client.lose() else {
            return;
        };
        let close = ConnectionClose {
            with_will,
            expiry: None,
        };
        connection.attachment.close(&close);
        if with_will {
            self.will_at_end(index);
        } else if let Some(will) = self.clients[index].will.take() {
            self.decide(will.number, WillDuty::MustNot);
        }
        self.end_with_connection(index);
        self.model.sessions[index].disconnected(self.model.now);
    }

    pub(crate) fn publish(&mut self, index: usize, topic: usize, qos: Qos, retain: bool) {
        let client = &mut self.clients[index];
        if !client.is_connected() {
            return;
        }
        let packet = match qos {
            Qos::AtMostOnce => Some(0),
            _ => client.packet_id(),
        };
        let Some(packet) = packet else { return };
        let outgoing = Outgoing {
            packet,
            number: self.model.number(),
            topic,
            qos,
            retain,
            is_received: false,
        };
        if qos > Qos::AtMostOnce {
            client.outgoing.push_back(outgoing);
        }
        self.send(index, &outgoing);
    }

    /// PUBLISH, for the first time or again.
    pub(crate) fn send(&mut self, index: usize, outgoing: &Outgoing) {
        let is_twice = self.mutation == Mutation::PublishTwice;
        let Some(connection) = &mut self.clients[index].connection else {
            return;
        };
        let Outgoing {
            number, topic, qos, ..
        } = *outgoing;
        let retained = match connection.publish(outgoing, is_twice) {
            Published::Refused => {
                self.model.refused(number);
                return;
            }
            Published::Before if self.model.has_sent(number) => return,
            Published::NotRetained => None,
            // A new one that the server takes for a repetition must arrive like any other.
            Published::Now | Published::Before => outgoing.retained(),
        };
        self.model.published(number, index, topic, qos, retained);
    }

    fn subscribe(&mut self, index: usize, filter: usize, qos: Qos) -> Checked {
        let is_witness = index == 0 && filter == topics::WILL_FILTER;
        let qos = if is_witness { Qos::ExactlyOnce } else { qos };
        let client = &mut self.clients[index];
        if !client.is_connected() {
            return Ok(());
        }
        let Some(packet) = client.packet_id() else {
            return Ok(());
        };
        client.subscribing.insert(
            packet,
            Subscribing {
                filter,
                level: Some(qos),
            },
        );
        let known = &mut self.model.sessions[index].subscriptions;
        let is_new = known.insert(filter, None).is_none();
        let Some(connection) = &mut client.connection else {
            return Ok(());
        };
        let requested = RequestedFilter::new(FILTERS[filter].0).expect("a filter");
        let options = SubscribeOptions {
            qos,
            retain_handling: RetainHandling::Send,
            ..SubscribeOptions::at(qos)
        };
        let retained = connection.attachment.subscribe(&requested, &options);
        if let Err(SubscribeError::OutOfMemory) = retained {
            client.subscribing.remove(&packet);
            if is_new {
                known.remove(&filter);
            }
            return Ok(());
        }
        let retained = retained.map_err(|error| error.to_string())?;
        for publication in &retained {
            let topic = topics::index_of(publication.topic.as_str());
            self.model
                .check_retained(topic, wire::number_of(publication))?;
        }
        connection.step(Frame::Suback { packet });
        connection.attachment.deliver_retained(retained);
        self.finish_batch(index);
        Ok(())
    }

    fn unsubscribe(&mut self, index: usize, filter: usize) {
        let is_witness = index == 0 && filter == topics::WILL_FILTER;
        let client = &mut self.clients[index];
        if !client.is_connected() || is_witness {
            return;
        }
        let Some(packet) = client.packet_id() else {
            return;
        };
        client.subscribing.insert(
            packet,
            Subscribing {
                filter,
                level: None,
            },
        );
        let known = &mut self.model.sessions[index].subscriptions;
        if let Some(level) = known.get_mut(&filter) {
            *level = None;
        }
        let Some(connection) = &mut client.connection else {
            return;
        };
        let text = TopicFilter::new(FILTERS[filter].0).expect("a filter");
        connection.attachment.unsubscribe(&text);
        connection.step(Frame::Unsuback { packet });
        self.finish_batch(index);
    }

    pub(crate) fn commit(&mut self, submissions: u64) {
        if self.server.commit(submissions) {
            for (number, duty) in std::mem::take(&mut self.undecided) {
                self.set_duty(number, duty);
            }
        }
        self.poll_all();
    }

    fn crash(&mut self) -> Checked {
        self.server.crash();
        self.undecided.clear();
        for index in 0..self.clients.len() {
            drop(self.clients[index].lose());
            self.will_at_end(index);
            self.end_with_connection(index);
            self.model.sessions[index].crashed(self.model.now);
        }
        self.server.start();
        self.check_retained()
    }

    pub(crate) fn check_retained(&self) -> Checked {
        for (topic, name) in TOPICS.iter().enumerate() {
            let filter = TopicFilter::new(name).expect("a filter");
            let retained = self.server.broker().retained(&filter);
            let value = retained.first().map_or(0, |one| wire::number_of(one));
            self.model.check_retained(topic, value)?;
        }
        Ok(())
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.server.wait(time);
        self.note_moment();
        self.poll_all();
    }

    /// Either until the next commit.
    fn decide(&mut self, number: u64, duty: WillDuty) {
        self.set_duty(number, WillDuty::Either);
        self.undecided.push((number, duty));
    }

    fn set_duty(&mut self, number: u64, duty: WillDuty) {
        if let Some((qos, known)) = self.model.wills.get_mut(&number) {
            // At QoS 0 it may not reach its witness.
            let may_be_lost = *qos == Qos::AtMostOnce && duty == WillDuty::Must;
            *known = if may_be_lost { WillDuty::Either } else { duty };
        }
    }

    /// Determines the duty of the previous connection's will at a CONNECT.
    fn will_at_connect(&mut self, connect: &Connect) {
        let index = connect.client;
        let Some(will) = self.clients[index].will.take() else {
            return;
        };
        let session = &self.model.sessions[index];
        let is_taken_over = session.is_connected;
        if !session.outlives_connection() {
            return; // a crash may forget it
        }
        let is_due = if connect.clean {
            Some(true)
        } else if is_taken_over {
            Some(will.delay.is_zero())
        } else {
            session.is_will_due(will.delay, self.model.now)
        };
        match is_due {
            // It is due whether or not the changes are committed.
            Some(true) if will.delay.is_zero() => self.set_duty(will.number, WillDuty::Must),
            Some(true) => self.decide(will.number, WillDuty::Must),
            Some(false) => self.decide(will.number, WillDuty::MustNot),
            None => {}
        }
    }

    /// The connection ended without DISCONNECT.
    fn will_at_end(&mut self, index: usize) {
        let session = &self.model.sessions[index];
        if !session.is_connected {
            return;
        }
        if !session.outlives_connection() {
            self.clients[index].will = None;
        } else if let Some(client::Will { number, delay }) = self.clients[index].will
            && delay.is_zero()
        {
            self.clients[index].will = None;
            self.set_duty(number, WillDuty::Must);
        }
    }
}
