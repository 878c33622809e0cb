//! Conversations from data files: `data/mqtt/*.txt`, in the notation of `notation.rs`.
//!
//! A conversation begins with `== STATEMENTS: what it shows`. Its lines are
//!
//! - `a open 5`: a connection named a, without a CONNECT (5, 4 and 3 are the protocol levels)
//! - `a connect 5 [keep] [present|absent]`: with a CONNECT whose client id is the name, and its
//!   CONNACK; `keep` asks for a session that lasts and does not forget an earlier one
//! - `a > PACKET`, `a < PACKET`: the client sends; the server must send
//! - `a subscribe FILTER QOS`, `a publish TOPIC TEXT QOS [retain]`: with all their answers
//! - `a gets TOPIC TEXT`: a publication at QoS 0 and nothing else of note
//! - `a alive`: no packet is in transit, and the server answers a PINGREQ
//! - `a refused CODE`: a CONNACK with this code, then the end
//! - `a disconnected CODE`: DISCONNECT with this code, then the end
//! - `a ends`: the server closes without a packet
//! - `a drop`: the client closes without a packet
//! - `set NAME NUMBER`: a setting of the server, before the first connection
//!
//! `#` at the beginning of a line, or two spaces before it, begins a comment.

use std::collections::HashMap;

use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_mqtt::Version;
use gatepost_settings::ByteSize;

use crate::notation::{Names, Notation};
use crate::server::Server;
use crate::wire::Wire;

const THREADS: usize = 16;

/// One conversation of a file.
pub(crate) struct Conversation {
    pub(crate) file: &'static str,
    pub(crate) statements: Vec<&'static str>,
    pub(crate) title: &'static str,
    lines: Vec<(usize, &'static str)>,
}

/// All files, with the standard that they are about.
pub(crate) const FILES: [(&str, &str, &str); 4] = [
    ("5", "connect.txt", include_str!("../data/mqtt/connect.txt")),
    ("5", "publish.txt", include_str!("../data/mqtt/publish.txt")),
    (
        "5",
        "subscribe.txt",
        include_str!("../data/mqtt/subscribe.txt"),
    ),
    ("3.1.1", "mqtt3.txt", include_str!("../data/mqtt/mqtt3.txt")),
];

/// The conversations about a version of the standard.
pub(crate) fn conversations(standard: &str) -> Vec<Conversation> {
    let files = FILES.iter().filter(|(of, ..)| *of == standard);
    files.flat_map(|(_, file, text)| read(file, text)).collect()
}

fn read(file: &'static str, text: &'static str) -> Vec<Conversation> {
    let mut list: Vec<Conversation> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split("  #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix("== ") {
            let (statements, title) = header.split_once(": ").expect("STATEMENTS: title");
            list.push(Conversation {
                file,
                statements: statements.split(' ').collect(),
                title,
                lines: Vec::new(),
            });
        } else {
            let conversation = list.last_mut().expect("a header first");
            conversation.lines.push((number + 1, line));
        }
    }
    list
}

/// One side of a running conversation.
struct ConversationRunner {
    server: Option<Server>,
    settings: MqttSettings,
    broker: BrokerSettings,
    wires: HashMap<&'static str, Wire>,
    names: Names,
}

impl Conversation {
    fn hold(&self) -> Result<(), String> {
        let mut talk = ConversationRunner {
            server: None,
            settings: MqttSettings::default(),
            broker: BrokerSettings::default(),
            wires: HashMap::new(),
            names: Names::new(),
        };
        for &(number, line) in &self.lines {
            talk.take(line).map_err(|error| {
                format!(
                    "{}:{number}: {}: {line}: {error}",
                    self.file,
                    self.statements.join(" ")
                )
            })?;
        }
        Ok(())
    }
}

impl ConversationRunner {
    fn take(&mut self, line: &'static str) -> Result<(), String> {
        let (name, rest) = line.split_once(' ').ok_or("a verb is missing")?;
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if name == "set" {
            return self.set(verb, rest.parse().map_err(|_| "a number is missing")?);
        }
        match verb {
            "open" => self.open(name, rest),
            "connect" => self.connect(name, rest),
            ">" => self.send(name, rest),
            "<" => self.expect(name, rest),
            "subscribe" => self.subscribe(name, rest),
            "publish" => self.publish(name, rest),
            "gets" => self.gets(name, rest),
            "alive" => {
                self.send(name, "c0 ()")?;
                self.expect(name, "d0 ()")
            }
            "refused" => {
                let old = self.wire(name)?.version != Version::Mqtt5;
                let rest = if old {
                    rest.to_owned()
                } else {
                    format!("{rest} *")
                };
                self.expect(name, &format!("20 ( 00 {rest} )"))?;
                self.end(name)
            }
            "disconnected" => {
                self.expect(name, &format!("e0 ( {rest} * )"))?;
                self.end(name)
            }
            "ends" => self.end(name),
            "drop" => self
                .wires
                .remove(name)
                .map(|_| ())
                .ok_or("no such client".to_owned()),
            _ => Err("an unknown verb".to_owned()),
        }
    }

    fn set(&mut self, name: &str, number: u32) -> Result<(), String> {
        match name {
            "receive_max" => self.settings.receive_max = number as u16,
            "topic_alias_max" => self.settings.topic_alias_max = number as u16,
            "keep_alive_max" => self.settings.keep_alive_max_seconds = number as u16,
            "packet_max" => self.settings.packet_max = ByteSize::kibibytes(number.into()),
            "sessions_max" => self.broker.sessions_max = number as usize,
            "subscriptions_max" => self.broker.subscriptions_per_session_max = number as usize,
            _ => return Err("an unknown setting".to_owned()),
        }
        Ok(())
    }

    fn open(&mut self, name: &'static str, level: &str) -> Result<(), String> {
        let version = match level {
            "5" => Version::Mqtt5,
            "4" => Version::Mqtt311,
            "3" => Version::Mqtt31,
            _ => return Err("an unknown protocol level".to_owned()),
        };
        let (broker, settings) = (&self.broker, &self.settings);
        let server = self
            .server
            .get_or_insert_with(|| Server::with(broker.clone(), settings.clone()));
        self.wires.insert(name, Wire::open(server.address, version));
        Ok(())
    }

    fn connect(&mut self, name: &'static str, rest: &str) -> Result<(), String> {
        let (level, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        self.open(name, level)?;
        let keeps = rest.contains("keep");
        let flags = if keeps { "00" } else { "02" };
        let connect = match (level, keeps) {
            ("5", true) => format!("10 ( \"MQTT\" 05 {flags} 003c ( 11 00000064 ) \"{name}\" )"),
            ("5", false) => format!("10 ( \"MQTT\" 05 {flags} 003c () \"{name}\" )"),
            ("4", _) => format!("10 ( \"MQTT\" 04 {flags} 003c \"{name}\" )"),
            _ => format!("10 ( \"MQIsdp\" 03 {flags} 003c \"{name}\" )"),
        };
        self.send(name, &connect)?;
        let present = match rest.split(' ').next_back() {
            Some("present") => "01",
            Some("absent") => "00",
            _ => "?",
        };
        let more = if level == "5" { "*" } else { "" };
        self.expect(name, &format!("20 ( {present} 00 {more} )"))
    }

    fn wire(&mut self, name: &str) -> Result<&mut Wire, String> {
        self.wires.get_mut(name).ok_or("no such client".to_owned())
    }

    fn send(&mut self, name: &str, packet: &str) -> Result<(), String> {
        let bytes = Notation::parse(packet)?.bytes(&self.names)?;
        self.wire(name)?.send_bytes(&bytes);
        Ok(())
    }

    fn expect(&mut self, name: &str, packet: &str) -> Result<(), String> {
        let expected = Notation::parse(packet)?;
        match self.wire(name)?.try_receive() {
            Some(Some(got)) if expected.matches(&got, &mut self.names) => Ok(()),
            Some(Some(got)) => Err(format!("{got:02x?} came")),
            Some(None) => Err("the server closed the connection".to_owned()),
            None => Err("nothing came".to_owned()),
        }
    }

    fn end(&mut self, name: &str) -> Result<(), String> {
        match self.wire(name)?.try_receive() {
            Some(None) => Ok(()),
            Some(Some(got)) => Err(format!("not the end, but {got:02x?}")),
            None => Err("the server keeps the connection".to_owned()),
        }
    }

    fn subscribe(&mut self, name: &str, rest: &str) -> Result<(), String> {
        let (filter, qos) = rest.split_once(' ').ok_or("FILTER QOS")?;
        let is_new = self.wire(name)?.version == Version::Mqtt5;
        let properties = if is_new { "()" } else { "" };
        self.send(
            name,
            &format!("82 ( 0077 {properties} \"{filter}\" 0{qos} )"),
        )?;
        self.expect(name, &format!("90 ( 0077 {properties} 0{qos} )"))
    }

    fn publish(&mut self, name: &str, rest: &str) -> Result<(), String> {
        let mut words = rest.split(' ');
        let (Some(topic), Some(text), Some(qos)) = (words.next(), words.next(), words.next())
        else {
            return Err("TOPIC TEXT QOS".to_owned());
        };
        let retain = u8::from(words.next() == Some("retain"));
        let is_new = self.wire(name)?.version == Version::Mqtt5;
        let properties = if is_new { "()" } else { "" };
        let (level, id) = match qos {
            "0" => (0, ""),
            "1" => (2, "0088"),
            _ => (4, "0088"),
        };
        let first = 0x30 | level | retain;
        let packet = format!("{first:02x} ( \"{topic}\" {id} {properties} '{text}' )");
        self.send(name, &packet)?;
        let more = if is_new { "*" } else { "" };
        match qos {
            "0" => Ok(()),
            "1" => self.expect(name, &format!("40 ( 0088 {more} )")),
            _ => {
                self.expect(name, &format!("50 ( 0088 {more} )"))?;
                self.send(name, "62 ( 0088 )")?;
                self.expect(name, "70 ( 0088 )")
            }
        }
    }

    fn gets(&mut self, name: &str, rest: &str) -> Result<(), String> {
        let (topic, text) = rest.split_once(' ').ok_or("TOPIC TEXT")?;
        let is_new = self.wire(name)?.version == Version::Mqtt5;
        let properties = if is_new { "( * )" } else { "" };
        self.expect(name, &format!("30 ( \"{topic}\" {properties} '{text}' )"))
    }
}

fn hold_all(standard: &str) {
    let all = conversations(standard);
    let chunk = all.len().div_ceil(THREADS).max(1);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(chunk)
            .map(|some| {
                scope.spawn(|| {
                    let held = some.iter().filter_map(|one| one.hold().err());
                    held.collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(!all.is_empty(), "no conversation was found");
    assert!(
        failures.is_empty(),
        "{} of {} conversations fail:\n{}",
        failures.len(),
        all.len(),
        failures.join("\n")
    );
}

#[test]
fn conversations_of_mqtt_5() {
    hold_all("5");
}

#[test]
fn conversations_of_mqtt_3_1_1() {
    hold_all("3.1.1");
}
