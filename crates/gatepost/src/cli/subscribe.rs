//! `gatepost sub`: subscribe by MQTT at any broker, and print the messages.

use std::collections::HashSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use gatepost_message::TopicFilter;
use gatepost_mqtt::{
    Ack, Filter, Packet, PacketId, Publish, Subscribe, SubscriptionOptions, Unsubscribe,
};

use super::message_format::MessageFormat;
use crate::broken_pipe::EXIT_BROKEN_PIPE;
use crate::client::{
    BrokerConnection, ClientError, ClientOptions, CommandLineProperties, PropertyPacket,
    ReconnectBackoff, SessionOptions,
};

/// No message came within the time of `-W`; the code is mosquitto_sub's.
const EXIT_TIMEOUT: u8 = 27;
/// The interval of waits without an end.
const LONG: Duration = Duration::from_hours(1);
const SUBSCRIBE_ID: PacketId = PacketId::MIN;

/// Subscribe over MQTT and print messages, with mosquitto_sub's options
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "\
Examples:
  gatepost sub -t 'alarms/#' -v
  gatepost sub -t 'home/+/temperature' -F '%I %t %p'
  gatepost sub -t state/door -C 1 -W 10           one message, or exit code 27 after 10 s
  gatepost sub -t '#' --json | jq .topic

-F supports %t topic, %p payload, %x %X payload in hexadecimal, %l its length, %q level,
%r retained, %m packet identifier, %I time (ISO 8601), %U time (Unix seconds),
%j %J the message as JSON (%J: the payload as JSON too), %C content type, %D correlation data,
%E expiry, %F payload format,
%P user properties, %R response topic, %S subscription identifier, %% a percent sign; \\n \\t \\0 \
\\\\.

Exit codes: 0 done, 27 too few messages within the timeout, 64 wrong options,
69 no connection, 77 the broker refused."
)]
pub(super) struct SubscribeCommandArguments {
    #[command(flatten)]
    client: ClientOptions,
    /// A topic filter (repeatable)
    #[arg(short, long = "topic", value_name = "FILTER")]
    topics: Vec<String>,
    /// Do not print messages that match this filter (repeatable)
    #[arg(short = 'T', long, value_name = "FILTER")]
    filter_out: Vec<String>,
    /// Unsubscribe from this filter first (repeatable)
    #[arg(short = 'U', long, value_name = "FILTER")]
    unsubscribe: Vec<String>,
    /// Keep the session and its missed messages (requires -i)
    #[arg(short = 'c', long, requires = "id")]
    disable_clean_session: bool,
    /// Exit after this number of messages
    #[arg(short = 'C', long, value_name = "COUNT")]
    count: Option<u64>,
    /// Exit after this number of seconds
    #[arg(short = 'W', long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Exit when the broker has granted the subscriptions
    #[arg(short = 'E', long)]
    exit_after_subscribing: bool,
    /// Print the topic before the payload
    #[arg(short, long)]
    verbose: bool,
    /// Print no line break after the payload
    #[arg(short = 'N', long)]
    no_line_break: bool,
    /// Output format of a message; see below
    #[arg(short = 'F', long, value_name = "FORMAT", conflicts_with_all = ["verbose", "json"])]
    format: Option<String>,
    /// Print each message as a line of JSON
    #[arg(long)]
    json: bool,
    /// Do not print retained messages
    #[arg(short = 'R', long)]
    no_retained: bool,
    /// Print only retained messages
    #[arg(long, conflicts_with = "no_retained")]
    retained_only: bool,
    /// Keep the retain flag as the publisher set it (version 5)
    #[arg(long)]
    retain_as_published: bool,
    /// Do not print messages published by this client (version 5)
    #[arg(long)]
    no_local: bool,
}

/// The reason for the end.
enum SubscriptionEnd {
    Done,
    TimedOut,
}

pub(super) fn run(arguments: &SubscribeCommandArguments) -> ExitCode {
    match Subscriber::new(arguments).and_then(Subscriber::run) {
        Ok(SubscriptionEnd::Done) => ExitCode::SUCCESS,
        Ok(SubscriptionEnd::TimedOut) => ExitCode::from(EXIT_TIMEOUT),
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

struct Subscriber<'a> {
    arguments: &'a SubscribeCommandArguments,
    filters: Vec<String>,
    left_out: Vec<TopicFilter>,
    carried: CommandLineProperties,
    format: MessageFormat,
    until: Option<Instant>,
    left: Option<u64>,
    /// QoS 2 publications that were printed and are not released.
    received: HashSet<PacketId>,
    was_connected: bool,
}

impl<'a> Subscriber<'a> {
    fn new(arguments: &'a SubscribeCommandArguments) -> Result<Self, ClientError> {
        let mut filters = arguments.topics.clone();
        filters.extend(arguments.client.address()?.topic);
        if filters.is_empty() {
            return Err(ClientError::Usage(
                "missing topic filter: use -t FILTER".to_owned(),
            ));
        }
        let parsed = |text: &String| {
            TopicFilter::new(text).map_err(|error| {
                ClientError::Usage(format!("'{text}' is not a topic filter: {error}"))
            })
        };
        for filter in &filters {
            parsed(filter)?;
        }
        let line_end = if arguments.no_line_break { "" } else { "\n" };
        let format = match &arguments.format {
            Some(format) => format!("{format}{line_end}"),
            None if arguments.json => format!("%j{line_end}"),
            None if arguments.verbose => format!("%t %p{line_end}"),
            None => format!("%p{line_end}"),
        };
        let timeout = arguments.timeout.map(Duration::from_secs);
        Ok(Self {
            arguments,
            filters,
            left_out: arguments
                .filter_out
                .iter()
                .map(parsed)
                .collect::<Result<_, _>>()?,
            carried: CommandLineProperties::parse(&arguments.client)?,
            format: MessageFormat::parse(&format).map_err(ClientError::Usage)?,
            until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            left: arguments.count,
            received: HashSet::new(),
            was_connected: false,
        })
    }

    fn run(mut self) -> Result<SubscriptionEnd, ClientError> {
        let options = &self.arguments.client;
        let mut backoff = ReconnectBackoff::new();
        loop {
            let error = match self.serve(&mut backoff) {
                Err(error) => error,
                Ok(end) => return Ok(end),
            };
            let tries = (self.was_connected && !options.no_reconnect) || options.retry;
            if !tries || !error.is_passing() {
                return Err(error);
            }
            let pause = backoff.pause();
            options.print_verbose(format_args!("{error}; trying again in {pause:?}"));
            if self
                .until
                .is_some_and(|until| Instant::now() + pause >= until)
            {
                return Ok(SubscriptionEnd::TimedOut);
            }
            std::thread::sleep(pause);
        }
    }

    /// One connection, to its end.
    fn serve(&mut self, backoff: &mut ReconnectBackoff) -> Result<SubscriptionEnd, ClientError> {
        let keeps = self.arguments.disable_clean_session;
        let session = SessionOptions {
            clean_start: !keeps,
            expiry_seconds: if keeps { u32::MAX } else { 0 },
        };
        let mut link = BrokerConnection::open(&self.arguments.client, &self.carried, session)?;
        if !link.session_present {
            self.received.clear();
        }
        self.was_connected = true;
        backoff.succeeded();
        self.subscribe(&mut link)?;
        let end = self.listen(&mut link)?;
        link.close();
        Ok(end)
    }

    fn subscribe(&self, link: &mut BrokerConnection) -> Result<(), ClientError> {
        if !self.arguments.unsubscribe.is_empty() {
            let filters = self.arguments.unsubscribe.iter().map(String::as_str);
            link.send(&Packet::Unsubscribe(Unsubscribe {
                packet_id: SUBSCRIBE_ID,
                properties: gatepost_mqtt::PacketProperties::EMPTY,
                filters: filters.collect(),
            }))?;
        }
        let arguments = self.arguments;
        let options = SubscriptionOptions {
            no_local: arguments.no_local,
            retain_as_published: arguments.retain_as_published,
            retain_handling: if arguments.no_retained { 2 } else { 0 },
            ..SubscriptionOptions::at(arguments.client.qos())
        };
        let filters = self.filters.iter();
        let properties = self.carried.of(PropertyPacket::Subscribe)?;
        link.send(&Packet::Subscribe(Subscribe {
            packet_id: SUBSCRIBE_ID,
            properties: properties.as_properties(),
            filters: filters.map(|text| Filter { text, options }).collect(),
        }))
    }

    fn listen(&mut self, link: &mut BrokerConnection) -> Result<SubscriptionEnd, ClientError> {
        loop {
            if self.left == Some(0) {
                return Ok(SubscriptionEnd::Done);
            }
            let until = self.until.unwrap_or_else(|| Instant::now() + LONG);
            let Some(bytes) = link.receive(until)? else {
                match self.until {
                    Some(_) => return Ok(SubscriptionEnd::TimedOut),
                    None => continue,
                }
            };
            let answer = match link.understand(&bytes)? {
                Packet::Publish(publish) => self.take(&publish)?,
                Packet::Pubrel(ack) => {
                    self.received.remove(&ack.packet_id);
                    Some(Packet::Pubcomp(Ack::success(ack.packet_id)))
                }
                Packet::Suback(suback) => {
                    self.granted(suback.reasons.as_slice())?;
                    if self.arguments.exit_after_subscribing {
                        return Ok(SubscriptionEnd::Done);
                    }
                    None
                }
                _ => None,
            };
            if let Some(answer) = answer {
                link.send(&answer)?;
            }
        }
    }

    /// Prints the subscriptions that were not granted; if none was granted, returns an error.
    fn granted(&self, reasons: &[gatepost_mqtt::Reason]) -> Result<(), ClientError> {
        for (filter, reason) in self.filters.iter().zip(reasons) {
            if reason.is_error() {
                eprintln!("gatepost: no subscription to {filter}: {reason}");
            } else {
                let options = &self.arguments.client;
                options.print_verbose(format_args!("subscribed to {filter}"));
            }
        }
        match reasons.first() {
            Some(&reason) if reasons.iter().all(|reason| reason.is_error()) => {
                Err(ClientError::Refused {
                    did: "granted no subscription",
                    reason,
                    text: String::new(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Prints a publication; returns the packet to answer with.
    fn take(&mut self, publish: &Publish<'_>) -> Result<Option<Packet<'static>>, ClientError> {
        let answer = publish.packet_id.map(|id| match publish.qos {
            gatepost_message::Qos::ExactlyOnce => Packet::Pubrec(Ack::success(id)),
            _ => Packet::Puback(Ack::success(id)),
        });
        let is_second = publish.qos == gatepost_message::Qos::ExactlyOnce
            && publish
                .packet_id
                .is_some_and(|id| !self.received.insert(id));
        let is_left_out = self
            .left_out
            .iter()
            .any(|filter| filter.matches(publish.topic))
            || (self.arguments.no_retained && publish.retain)
            || (self.arguments.retained_only && !publish.retain);
        if !is_second && !is_left_out {
            let mut out = io::stdout().lock();
            let line = self.format.render(publish);
            let written = out.write_all(&line).and_then(|()| out.flush());
            written.map_err(not_written)?;
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
        }
        Ok(answer)
    }
}

/// A reader that closes the pipe needs no more output.
fn not_written(error: io::Error) -> ClientError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(EXIT_BROKEN_PIPE.into());
    }
    ClientError::Usage(format!("standard output: {error}"))
}
