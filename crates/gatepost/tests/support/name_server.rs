//! A DNS server within a test, on a free port of this machine. It reports for each record set
//! whether DNSSEC proves it, as a validating resolver does.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// Kinds of records.
pub(crate) const A: u16 = 1;
pub(crate) const MX: u16 = 15;
pub(crate) const TXT: u16 = 16;
pub(crate) const TLSA: u16 = 52;

/// The answer of the server.
#[derive(Clone)]
enum Answer {
    Records {
        data: Vec<Vec<u8>>,
        is_authentic: bool,
    },
    /// SERVFAIL.
    Failure,
}

type Zone = HashMap<(String, u16), Answer>;

/// Ends with the process of the tests.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

impl NameServer {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        let zone = Arc::<Mutex<Zone>>::default();
        let answered = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                if let Some(answer) = answer(&answered.lock().expect("the zone"), &buffer[..length])
                {
                    // The next question shows whether the peer is still there.
                    let _ = socket.send_to(&answer, peer);
                }
            }
        });
        Self { address, zone }
    }

    fn set(&self, name: &str, kind: u16, answer: Answer) {
        let mut zone = self.zone.lock().expect("the zone");
        zone.insert((name.to_owned(), kind), answer);
    }

    /// The record set of a name, in place of an earlier one.
    pub(crate) fn records(&self, name: &str, kind: u16, data: &[Vec<u8>], is_authentic: bool) {
        let data = data.to_vec();
        self.set(name, kind, Answer::Records { data, is_authentic });
    }

    /// The question gets no answer but a failure.
    pub(crate) fn fail(&self, name: &str, kind: u16) {
        self.set(name, kind, Answer::Failure);
    }

    pub(crate) fn remove(&self, name: &str, kind: u16) {
        let mut zone = self.zone.lock().expect("the zone");
        zone.remove(&(name.to_owned(), kind));
    }

    /// This machine, under a name.
    pub(crate) fn here(&self, name: &str, is_authentic: bool) {
        let address = Ipv4Addr::LOCALHOST.octets().to_vec();
        self.records(name, A, &[address], is_authentic);
    }
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short text");
    [&[length], text.as_bytes()].concat()
}

pub(crate) fn exchanger(preference: u8, name: &str) -> Vec<u8> {
    [vec![0, preference], encoded(name)].concat()
}

fn encoded(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

fn answer(zone: &Zone, question: &[u8]) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    while let Some(&length @ 1..) = question.get(at) {
        let label = question.get(at + 1..at + 1 + usize::from(length))?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + usize::from(length);
    }
    let kind = u16::from_be_bytes([*question.get(at + 1)?, *question.get(at + 2)?]);
    let name = labels.join(".");
    let found = zone.get(&(name.clone(), kind));
    let exists = zone.keys().any(|(known, _)| *known == name);
    let (data, is_authentic, code) = match found {
        Some(Answer::Records { data, is_authentic }) => (data.clone(), *is_authentic, 0),
        Some(Answer::Failure) => (Vec::new(), false, 2),
        None if exists => (Vec::new(), false, 0),
        None => (Vec::new(), false, 3),
    };
    // Response, recursion desired and available.
    let flags = [0x81, 0x80 | if is_authentic { 0x20 } else { 0 } | code];
    let count = u8::try_from(data.len()).expect("few records");
    let mut out = [question.get(..2)?, &flags, &[0, 1, 0, count, 0, 0, 0, 0]].concat();
    out.extend_from_slice(question.get(12..at + 5)?);
    for data in data {
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        out.extend_from_slice(&u16::try_from(data.len()).expect("short").to_be_bytes());
        out.extend_from_slice(&data);
    }
    Some(out)
}
