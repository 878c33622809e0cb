//! `gatepost pub`: publish by MQTT to any broker.
//!
//! A publication at QoS 1 or 2 is complete when the broker has acknowledged it; until then it is
//! kept, and sent again after a reconnect. The exit code is 0 only if everything was accepted.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;
use gatepost_message::Qos;
use gatepost_mqtt::{Ack, Packet, PacketId, Publish, Reason};
use gatepost_settings::Period;

use super::input_lines;
use crate::client::{
    BrokerConnection, ClientError, ClientOptions, CommandLineProperties, PropertyPacket,
    ReconnectBackoff, SessionOptions, explained,
};

/// The time without acknowledgements after which the connection counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// The number of unacknowledged publications at once, unless the broker accepts fewer.
const WINDOW: usize = 256;
/// The expiry of the session, so that QoS 2 is exactly once over a new connection too.
const SESSION_SECONDS: u32 = 300;
/// The interval at which the connection is read while no line comes, and while acknowledgements
/// are missing.
const IDLE_CHECK_EVERY: Duration = Duration::from_millis(500);
const OPEN_CHECK_EVERY: Duration = Duration::from_millis(50);
/// The duration of such a read.
const CHECK_TIME: Duration = Duration::from_millis(1);
/// Some publication was refused.
const EXIT_REFUSED: u8 = 1;

/// Publish over MQTT, with mosquitto_pub's options
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "\
Examples:
  gatepost pub -t alarms/fire -m 'it burns'
  gatepost pub -L mqtts://anna@broker.example/home/door --pw-file secret -r -q 1 -m open
  tail -f log | gatepost pub -t log/web -l -q 1

Exit codes: 0 all was accepted, 1 the broker refused something, 64 wrong options, 69 no connection,
77 the broker refused the connection."
)]
pub(super) struct PublishArguments {
    #[command(flatten)]
    client: ClientOptions,
    #[command(flatten)]
    payload: PayloadArguments,
    /// The topic
    #[arg(short, long)]
    topic: Option<String>,
    /// Retain the message for later subscribers
    #[arg(short, long)]
    retain: bool,
    /// Number of repetitions
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    repeat: u32,
    /// The time between repetitions, such as 500ms
    #[arg(long, value_name = "TIME", requires = "repeat")]
    repeat_delay: Option<Period>,
    /// Do not report refusals by the broker
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PayloadArguments {
    /// The payload
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read the payload from a file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publish each line of standard input
    #[arg(short = 'l', long)]
    stdin_line: bool,
    /// Read the payload from standard input
    #[arg(short = 's', long)]
    stdin_file: bool,
    /// Publish an empty payload
    #[arg(short = 'n', long)]
    null_message: bool,
}

/// The source of payloads.
enum PayloadSource {
    Same(Vec<u8>, u32),
    Lines(Receiver<io::Result<Vec<u8>>>),
}

impl PayloadSource {
    fn open(arguments: &PublishArguments) -> Result<Self, ClientError> {
        let payload = &arguments.payload;
        let unreadable = |name: String| move |error| ClientError::Usage(format!("{name}: {error}"));
        let same = |bytes| Self::Same(bytes, arguments.repeat);
        if payload.stdin_line {
            let lines = input_lines::read().map_err(unreadable("standard input".to_owned()))?;
            return Ok(Self::Lines(lines));
        }
        if payload.stdin_file {
            let mut bytes = Vec::new();
            io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(unreadable("standard input".to_owned()))?;
            return Ok(same(bytes));
        }
        if let Some(file) = &payload.file {
            let bytes = std::fs::read(file).map_err(unreadable(file.display().to_string()))?;
            return Ok(same(bytes));
        }
        Ok(same(
            payload.message.clone().unwrap_or_default().into_bytes(),
        ))
    }
}

/// The progress of a publication.
enum PublishProgress {
    /// PUBACK or PUBREC is awaited.
    Sent(Vec<u8>),
    /// PUBCOMP is awaited.
    Released,
}

struct CommandPublisher<'a> {
    arguments: &'a PublishArguments,
    topic: String,
    carried: CommandLineProperties,
    link: Option<BrokerConnection>,
    was_connected: bool,
    backoff: ReconnectBackoff,
    open: BTreeMap<u16, PublishProgress>,
    last_id: u16,
    refused: usize,
}

pub(super) fn run(arguments: &PublishArguments) -> ExitCode {
    match publish_all(arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(EXIT_REFUSED),
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Publishes everything; returns the number of refused publications.
fn publish_all(arguments: &PublishArguments) -> Result<usize, ClientError> {
    let by_url = arguments.client.address()?.topic;
    let topic = arguments.topic.clone().or(by_url);
    let topic =
        topic.ok_or_else(|| ClientError::Usage("missing topic: use -t TOPIC".to_owned()))?;
    gatepost_message::Topic::check(&topic)
        .map_err(|error| ClientError::Usage(format!("'{topic}': {error}")))?;
    let mut source = PayloadSource::open(arguments)?;
    let mut publisher = CommandPublisher {
        arguments,
        topic,
        carried: CommandLineProperties::parse(&arguments.client)?,
        link: None,
        was_connected: false,
        backoff: ReconnectBackoff::new(),
        open: BTreeMap::new(),
        last_id: 0,
        refused: 0,
    };
    publisher.persist(|_| Ok(()))?;
    let mut is_first = true;
    while let Some(payload) = publisher.next(&mut source)? {
        if let Some(delay) = arguments.repeat_delay.filter(|_| !is_first) {
            publisher
                .persist(|publisher| publisher.receive_until(Instant::now() + delay.duration()))?;
        }
        is_first = false;
        publisher.publish(payload)?;
    }
    publisher.persist(|publisher| publisher.await_fewer_than(1))?;
    if let Some(link) = publisher.link.take() {
        link.end_session();
    }
    Ok(publisher.refused)
}

impl CommandPublisher<'_> {
    /// The next payload.
    fn next(&mut self, source: &mut PayloadSource) -> Result<Option<Vec<u8>>, ClientError> {
        match source {
            PayloadSource::Same(_, 0) => Ok(None),
            PayloadSource::Same(bytes, left) => {
                *left -= 1;
                Ok(Some(bytes.clone()))
            }
            PayloadSource::Lines(lines) => match self.next_line(lines)? {
                None => Ok(None),
                Some(Ok(line)) => Ok(Some(line)),
                Some(Err(error)) => Err(ClientError::Usage(format!("standard input: {error}"))),
            },
        }
    }

    /// Waits for a line, and keeps the connection meanwhile: it may take hours, and a publication
    /// over a connection that the broker has ended would be lost.
    fn next_line(
        &mut self,
        lines: &Receiver<io::Result<Vec<u8>>>,
    ) -> Result<Option<io::Result<Vec<u8>>>, ClientError> {
        if let Ok(line) = lines.try_recv() {
            return Ok(Some(line));
        }
        loop {
            let wait = if self.open.is_empty() {
                IDLE_CHECK_EVERY
            } else {
                OPEN_CHECK_EVERY
            };
            let received = lines.recv_timeout(wait);
            if matches!(received, Err(RecvTimeoutError::Disconnected)) {
                return Ok(None);
            }
            self.persist(|publisher| publisher.receive_until(Instant::now() + CHECK_TIME))?;
            if let Ok(line) = received {
                return Ok(Some(line));
            }
        }
    }

    fn publish(&mut self, payload: Vec<u8>) -> Result<(), ClientError> {
        let qos = self.arguments.client.qos();
        if qos == Qos::AtMostOnce {
            return self.persist(|publisher| publisher.send(None, &payload, false));
        }
        self.persist(|publisher| {
            let window = publisher.link.as_ref().map_or(1, |link| link.receive_max);
            publisher.await_fewer_than(WINDOW.min(window.into()))
        })?;
        let id = self.free_id();
        self.open.insert(id, PublishProgress::Sent(payload.clone()));
        let sent = self.send(PacketId::new(id), &payload, false);
        match sent {
            // The publication is among the unacknowledged ones, and is sent again with them.
            Err(error) if error.is_passing() => {
                self.lost(error)?;
                self.persist(|_| Ok(()))
            }
            other => other,
        }
    }

    fn free_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.open.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    /// Runs an action on a connection, and repeats it on the next one as long as that may succeed.
    fn persist(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        loop {
            let done = match self.link {
                Some(_) => act(self),
                None => self.connect().and_then(|()| act(self)),
            };
            match done {
                Err(error) if error.is_passing() => self.lost(error)?,
                done => return done,
            }
        }
    }

    /// Waits before the next attempt, unless reconnecting is off.
    fn lost(&mut self, error: ClientError) -> Result<(), ClientError> {
        let options = &self.arguments.client;
        let tries = (self.was_connected && !options.no_reconnect) || options.retry;
        if !tries {
            return Err(error);
        }
        self.link = None;
        let pause = self.backoff.pause();
        options.print_verbose(format_args!("{error}; trying again in {pause:?}"));
        std::thread::sleep(pause);
        Ok(())
    }

    fn connect(&mut self) -> Result<(), ClientError> {
        let options = &self.arguments.client;
        let lasting = options.qos() == Qos::ExactlyOnce;
        let session = SessionOptions {
            clean_start: !self.was_connected,
            expiry_seconds: if lasting { SESSION_SECONDS } else { 0 },
        };
        self.link = Some(BrokerConnection::open(options, &self.carried, session)?);
        self.was_connected = true;
        self.backoff.succeeded();
        self.send_again()
    }

    /// The publications that were not acknowledged on the last connection.
    fn send_again(&mut self) -> Result<(), ClientError> {
        let mut open: Vec<(u16, Option<Vec<u8>>)> = self
            .open
            .iter()
            .map(|(id, step)| match step {
                PublishProgress::Sent(payload) => (*id, Some(payload.clone())),
                PublishProgress::Released => (*id, None),
            })
            .collect();
        // In the order in which they were sent, even if identifiers have wrapped around.
        let next = self.last_id.wrapping_add(1);
        open.sort_by_key(|(id, _)| id.wrapping_sub(next));
        for (id, payload) in open {
            match (payload, PacketId::new(id)) {
                (Some(payload), id) => self.send(id, &payload, true)?,
                (None, Some(id)) => self.link()?.send(&Packet::Pubrel(Ack::success(id)))?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn link(&mut self) -> Result<&mut BrokerConnection, ClientError> {
        let none = || ClientError::Lost(io::ErrorKind::NotConnected.into());
        self.link.as_mut().ok_or_else(none)
    }

    fn send(
        &mut self,
        packet_id: Option<PacketId>,
        payload: &[u8],
        dup: bool,
    ) -> Result<(), ClientError> {
        let properties = self.carried.of(PropertyPacket::Publish)?;
        let (topic, retain) = (self.topic.clone(), self.arguments.retain);
        let qos = self.arguments.client.qos();
        self.link()?.send(&Packet::Publish(Publish {
            dup,
            qos,
            retain,
            topic: &topic,
            packet_id,
            properties: properties.as_properties(),
            payload,
        }))
    }

    /// Receives acknowledgements until few enough are missing.
    fn await_fewer_than(&mut self, count: usize) -> Result<(), ClientError> {
        while self.open.len() >= count {
            let until = Instant::now() + ANSWER_TIMEOUT;
            let Some(packet) = self.link()?.receive(until)? else {
                return Err(ClientError::Lost(io::ErrorKind::TimedOut.into()));
            };
            self.handle(&packet)?;
        }
        Ok(())
    }

    /// Receives packets until this time.
    fn receive_until(&mut self, until: Instant) -> Result<(), ClientError> {
        while let Some(packet) = self.link()?.receive(until)? {
            self.handle(&packet)?;
        }
        Ok(())
    }

    fn handle(&mut self, packet: &[u8]) -> Result<(), ClientError> {
        let packet = self.link()?.understand(packet)?;
        let (Packet::Puback(ack) | Packet::Pubrec(ack) | Packet::Pubcomp(ack)) = packet else {
            return Ok(());
        };
        let id = ack.packet_id;
        if ack.reason.is_error() && ack.reason != Reason::PACKET_IDENTIFIER_NOT_FOUND {
            self.open.remove(&id.get());
            self.refused += 1;
            if !self.arguments.quiet {
                let text = ack.properties.reason_string().unwrap_or_default();
                eprintln!("gatepost: refused: {}{}", ack.reason, explained(text));
            }
            return Ok(());
        }
        if matches!(packet, Packet::Pubrec(_)) {
            self.open.insert(id.get(), PublishProgress::Released);
            return self.link()?.send(&Packet::Pubrel(Ack::success(id)));
        }
        self.open.remove(&id.get());
        Ok(())
    }
}
