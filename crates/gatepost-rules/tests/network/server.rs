//! A DNS server of a test, on a free port of this machine.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use gatepost_rules::RulesSettings;
use gatepost_settings::Period;

/// The answer of a server for a name and a type.
pub(crate) enum Reply {
    /// Records as they stand in an answer, perhaps none.
    Records(Vec<String>),
    NoSuchName,
    ServerFailure,
}

/// The records of a server.
pub(crate) trait Names: Send + Sync + 'static {
    fn reply(&self, name: &str, kind: &str) -> Reply;
}

/// The records of each name and type.
pub(crate) type Zone = BTreeMap<(&'static str, &'static str), Vec<&'static str>>;

impl Names for Zone {
    fn reply(&self, name: &str, kind: &str) -> Reply {
        match self.get(&(name, kind)) {
            Some(records) => Reply::Records(records.iter().map(ToString::to_string).collect()),
            None if self.keys().any(|(known, _)| *known == name) => Reply::Records(Vec::new()),
            None => Reply::NoSuchName,
        }
    }
}

/// A DNS server on a free port of this machine.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    questions: Arc<Mutex<Vec<String>>>,
    pub(crate) by_tcp: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

const TYPES: [(&str, u16); 6] = [
    ("A", 1),
    ("NS", 2),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
];

fn encode_name(name: &str, out: &mut Vec<u8>) {
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}

/// The question's name, type, and where it ends.
fn question(message: &[u8]) -> (String, &'static str, usize) {
    let mut labels = Vec::new();
    let mut at = 12;
    while message[at] != 0 {
        let length = usize::from(message[at]);
        let label = &message[at + 1..at + 1 + length];
        labels.push(String::from_utf8_lossy(label).into_owned());
        at += 1 + length;
    }
    let code = u16::from_be_bytes([message[at + 1], message[at + 2]]);
    let kind = TYPES.iter().find(|known| known.1 == code);
    let name = labels.join(".").to_ascii_lowercase();
    (name, kind.map_or("another", |kind| kind.0), at + 5)
}

fn answer(names: &dyn Names, message: &[u8], truncate: bool) -> Vec<u8> {
    let (name, kind, end) = question(message);
    let (code, mut records) = match names.reply(&name, kind) {
        Reply::Records(records) => (0, records),
        Reply::NoSuchName => (3, Vec::new()),
        Reply::ServerFailure => (2, Vec::new()),
    };
    let mut out = message[..2].to_vec();
    let is_long = truncate && records.first().is_some_and(|record| record.len() > 1000);
    if is_long {
        records.clear();
    }
    out.push(0x81 | if is_long { 0x02 } else { 0 });
    out.push(0x80 | code);
    out.extend_from_slice(&[0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    out.extend_from_slice(&message[12..end]);
    for record in &records {
        let code = TYPES.iter().find(|known| known.0 == kind).expect("known").1;
        let data = match kind {
            "A" => record
                .parse::<Ipv4Addr>()
                .expect("an address")
                .octets()
                .to_vec(),
            "TXT" => {
                let mut data = Vec::new();
                for part in record.as_bytes().chunks(255) {
                    data.push(part.len() as u8);
                    data.extend_from_slice(part);
                }
                data
            }
            _ => {
                let mut data = if kind == "MX" {
                    vec![0, 10]
                } else {
                    Vec::new()
                };
                encode_name(record, &mut data);
                data
            }
        };
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(&data);
    }
    out
}

impl Server {
    /// Starts one that answers immediately from a zone; names that begin with `silent` are never
    /// answered, those with `lost` only when they are repeated.
    pub(crate) fn start(zone: impl Names) -> Self {
        let zone: Arc<dyn Names> = Arc::new(zone);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let socket = UdpSocket::bind(address).expect("the same port");
        let wait = Some(Duration::from_millis(50));
        socket.set_read_timeout(wait).expect("set");
        listener.set_nonblocking(true).expect("set");
        let questions = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let by_tcp = Arc::new(AtomicUsize::new(0));
        let datagrams = {
            let (zone, questions, stop) = (zone.clone(), questions.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 1500];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                        continue;
                    };
                    let message = &buffer[..length];
                    let (name, kind, _) = question(message);
                    let is_first = {
                        let mut questions = questions.lock().expect("unharmed");
                        let question = format!("{name} {kind}");
                        let is_first = !questions.contains(&question);
                        questions.push(question);
                        is_first
                    };
                    if !(name.starts_with("silent") || is_first && name.starts_with("lost")) {
                        // A stranger's answer arrives first, and must not count.
                        let mut forged = answer(&*zone, message, true);
                        forged[0] ^= 0xff;
                        let _ = socket.send_to(&forged, from);
                        let _ = socket.send_to(&answer(&*zone, message, true), from);
                    }
                }
            })
        };
        let streams = {
            let (stop, by_tcp) = (stop.clone(), by_tcp.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok((mut stream, _)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(5));
                        continue;
                    };
                    stream.set_nonblocking(false).expect("set");
                    by_tcp.fetch_add(1, Ordering::Relaxed);
                    let mut length = [0; 2];
                    stream.read_exact(&mut length).expect("a length");
                    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut message).expect("a question");
                    let answer = answer(&*zone, &message, false);
                    let length = (answer.len() as u16).to_be_bytes();
                    stream
                        .write_all(&[&length[..], &answer].concat())
                        .expect("is read");
                }
            })
        };
        Self {
            address,
            questions,
            by_tcp,
            stop,
            threads: vec![datagrams, streams],
        }
    }

    pub(crate) fn settings(&self) -> RulesSettings {
        RulesSettings {
            network: true,
            dns_server: Some(self.address.to_string()),
            network_time_max: Period::seconds(60),
            ..RulesSettings::default()
        }
    }

    pub(crate) fn questions(&self) -> Vec<String> {
        std::mem::take(&mut self.questions.lock().expect("unharmed"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the server ends");
        }
    }
}
