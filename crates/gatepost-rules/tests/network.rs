//! Rules that ask the network, against a DNS server that the test plays itself.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use gatepost_settings::Period;

/// What the server knows: name and type, records as they stand in an answer.
type Zone = BTreeMap<(&'static str, &'static str), Vec<&'static str>>;

/// A DNS server on a free port of this machine.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    by_tcp: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

const TYPES: [(&str, u16); 5] = [("A", 1), ("NS", 2), ("MX", 15), ("TXT", 16), ("AAAA", 28)];

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
    (labels.join("."), kind.expect("a known type").0, at + 5)
}

fn answer(zone: &Zone, message: &[u8], truncate: bool) -> Vec<u8> {
    let (name, kind, end) = question(message);
    let records = zone.get(&(name.as_str(), kind));
    let exists = records.is_some() || zone.keys().any(|(known, _)| *known == name);
    let mut out = message[..2].to_vec();
    let is_long = truncate && records.is_some_and(|records| records[0].len() > 100);
    out.push(0x81 | if is_long { 0x02 } else { 0 });
    out.push(if exists { 0x80 } else { 0x83 });
    let count = if is_long {
        0
    } else {
        records.map_or(0, Vec::len)
    };
    out.extend_from_slice(&[0, 1, 0, count as u8, 0, 0, 0, 0]);
    out.extend_from_slice(&message[12..end]);
    for record in records.into_iter().flatten().take(count) {
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
    /// Starts one; names that begin with `silent` are never answered.
    fn start(zone: Zone) -> Self {
        let zone = Arc::new(zone);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let socket = UdpSocket::bind(address).expect("the same port");
        let wait = Some(Duration::from_millis(50));
        socket.set_read_timeout(wait).expect("set");
        listener.set_nonblocking(true).expect("set");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let by_tcp = Arc::new(AtomicUsize::new(0));
        let datagrams = {
            let (zone, asked, stop) = (zone.clone(), asked.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 1500];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                        continue;
                    };
                    let message = &buffer[..length];
                    let (name, kind, _) = question(message);
                    asked
                        .lock()
                        .expect("unharmed")
                        .push(format!("{name} {kind}"));
                    if !name.starts_with("silent") {
                        // A stranger's answer comes first, and must not count.
                        let mut forged = answer(&zone, message, true);
                        forged[0] ^= 0xff;
                        let _ = socket.send_to(&forged, from);
                        let _ = socket.send_to(&answer(&zone, message, true), from);
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
                    let answer = answer(&zone, &message, false);
                    let length = (answer.len() as u16).to_be_bytes();
                    stream
                        .write_all(&[&length[..], &answer].concat())
                        .expect("is read");
                }
            })
        };
        Self {
            address,
            asked,
            by_tcp,
            stop,
            threads: vec![datagrams, streams],
        }
    }

    fn settings(&self) -> RulesSettings {
        RulesSettings {
            network: true,
            dns_server: Some(self.address.to_string()),
            network_time_max: Period::seconds(60),
            ..RulesSettings::default()
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("unharmed"))
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

const RULES: &str = r"
util_rb_tld com org net example
trusted_networks 203.0.113.0/24
internal_networks 203.0.113.0/24
header  __ZEN      eval:check_rbl('zen', 'zen.example.')
tflags  __ZEN      net
header  IN_SBL     eval:check_rbl_sub('zen', '127.0.0.2')
header  IN_OTHER   eval:check_rbl_sub('zen', '127.0.0.9')
header  IN_PBL     eval:check_rbl('zen-lastexternal', 'zen.example.', '^127\.0\.0\.1[01]$')
header  BITS       eval:check_rbl('bits-firsttrusted', 'bits.example', '4')
header  TEXT       eval:check_rbl_txt('text', 'text.example.', '(?i:listed)')
header  LONG_TEXT  eval:check_rbl_txt('long', 'long.example.', 'end$')
header  NO_LISTING eval:check_rbl('page', 'page.example.')
header  NOT_LISTED eval:check_rbl('none', 'none.example.')
header  FROM_LIST  eval:check_rbl_envfrom('rhs', 'rhs.example.')
header  NO_SENDER  eval:check_dns_sender()
urirhssub LINK_BITS  multi.example.  A  8
body    LINK_BITS  eval:check_uridnsbl('LINK_BITS')
urirhssub LINK_EXACT multi.example.  A  127.0.0.12
body    LINK_EXACT eval:check_uridnsbl('LINK_EXACT')
urirhssub LINK_OTHER multi.example.  A  16
body    LINK_OTHER eval:check_uridnsbl('LINK_OTHER')
urirhsbl LINK_DOMAIN only.example. A
body    LINK_DOMAIN eval:check_uridnsbl('LINK_DOMAIN')
tflags  LINK_DOMAIN net domains_only
uridnssub LINK_HOST zen.example.     A  127.0.0.3
body    LINK_HOST  eval:check_uridnsbl('LINK_HOST')
tflags  LINK_HOST  net a
uridnssub LINK_SERVER zen.example.   A  127.0.0.4
body    LINK_SERVER eval:check_uridnsbl('LINK_SERVER')
uridnsbl_skip_domain skipped.example
askdns  ASKED      _AUTHORDOMAIN_.ask.example. A /^127\.2\.0\.2$/
askdns  ASKED_TEXT _SENDERDOMAIN_ TXT /^v=spf1 \+all$/
askdns  ASKED_NOT  _NOSUCHTAG_.ask.example. A
meta    ONLINE     !local_tests_only
meta    BOTH       __ZEN && LINK_BITS
";

const MESSAGE: &str = "Return-Path: <bounce@sender.example>\n\
Received: from mail.sender.example (mail.sender.example [192.0.2.7]) by mx.example.com (Postfix) with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\n\
Received: from home (home [198.51.100.9]) by mail.sender.example with ESMTP id 2; Sat, 21 Nov 2026 03:59:00 +0000\n\
From: anna@author.example\n\
Subject: links\n\
\n\
see http://www.bad.example/ and http://skipped.example/ and http://mail.quiet.example/\n";

fn zone() -> Zone {
    let long: &'static str = Box::leak(format!("{} end", "x".repeat(1500)).into_boxed_str());
    Zone::from([
        (
            ("7.2.0.192.zen.example", "A"),
            vec!["127.0.0.2", "127.0.0.11"],
        ),
        (("7.2.0.192.bits.example", "A"), vec!["127.0.0.6"]),
        (
            ("9.100.51.198.text.example", "TXT"),
            vec!["Listed, see the page"],
        ),
        (("7.2.0.192.long.example", "TXT"), vec![long]),
        (("7.2.0.192.page.example", "A"), vec!["192.0.2.80"]),
        (("sender.example.rhs.example", "A"), vec!["127.0.0.2"]),
        (("bad.example.multi.example", "A"), vec!["127.0.0.12"]),
        (("quiet.example.only.example", "A"), vec!["127.0.0.2"]),
        (("www.bad.example", "A"), vec!["192.0.2.33"]),
        (("33.2.0.192.zen.example", "A"), vec!["127.0.0.3"]),
        (("quiet.example", "NS"), vec!["ns.quiet.example"]),
        (("ns.quiet.example", "A"), vec!["192.0.2.44"]),
        (("44.2.0.192.zen.example", "A"), vec!["127.0.0.4"]),
        (("author.example.ask.example", "A"), vec!["127.2.0.2"]),
        (("sender.example", "TXT"), vec!["v=spf1 +all"]),
    ])
}

fn hits(rules: &RuleSet, message: &str) -> Vec<String> {
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    let mut names: Vec<String> = report.hits.iter().map(|hit| hit.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn lists_and_domains_are_asked() {
    let server = Server::start(zone());
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let expected = [
        "ASKED",
        "ASKED_TEXT",
        "BITS",
        "BOTH",
        "FROM_LIST",
        "IN_PBL",
        "IN_SBL",
        "LINK_BITS",
        "LINK_DOMAIN",
        "LINK_EXACT",
        "LINK_HOST",
        "LINK_SERVER",
        "LONG_TEXT",
        "ONLINE",
        "TEXT",
    ];
    assert_eq!(hits(&rules, MESSAGE), expected);
    assert_eq!(
        server.by_tcp.load(Ordering::Relaxed),
        1,
        "what does not fit is asked by TCP"
    );
    let asked = server.asked();
    assert!(
        !asked.iter().any(|question| question.contains("skipped")),
        "{asked:?}"
    );
    let mut once = asked.clone();
    once.sort();
    once.dedup();
    assert_eq!(
        once.len(),
        asked.len(),
        "each question is put once: {asked:?}"
    );
}

#[test]
fn a_sender_without_a_domain() {
    let server = Server::start(Zone::new());
    let (rules, _) = RuleSet::from_text("net.cf", RULES.as_bytes(), &server.settings());
    assert_eq!(hits(&rules, MESSAGE), ["NO_SENDER", "ONLINE"]);
}

#[test]
fn off_nothing_is_asked_and_each_rule_is_named() {
    let server = Server::start(zone());
    let settings = RulesSettings {
        network: false,
        ..server.settings()
    };
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &settings);
    assert_eq!(hits(&rules, MESSAGE), [""; 0]);
    assert_eq!(server.asked(), [""; 0]);
    let named = |name: &str| {
        let mut all = problems.iter();
        all.any(|problem| {
            problem.rule.as_deref() == Some(name) && problem.cause == "network tests are off"
        })
    };
    for name in [
        "__ZEN",
        "IN_SBL",
        "FROM_LIST",
        "NO_SENDER",
        "LINK_BITS",
        "LINK_SERVER",
        "ASKED",
    ] {
        assert!(named(name), "{name}: {problems:?}");
    }
}

#[test]
fn what_is_not_answered_in_time_does_not_hit() {
    let server = Server::start(Zone::from([(
        ("7.2.0.192.zen.example", "A"),
        vec!["127.0.0.2"],
    )]));
    let settings = RulesSettings {
        network_time_max: Period::milliseconds(1500),
        ..server.settings()
    };
    let text = "trusted_networks 203.0.113.0/24\n\
        header QUICK eval:check_rbl('zen', 'zen.example.')\n\
        askdns SILENT silent.example A\n";
    let (rules, problems) = RuleSet::from_text("net.cf", text.as_bytes(), &settings);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(hits(&rules, MESSAGE), ["QUICK"]);
    let silent = server.asked();
    let silent = silent
        .iter()
        .filter(|question| question.starts_with("silent"));
    assert_eq!(silent.count(), 2, "what is not answered is asked once more");
}

#[test]
fn a_server_that_cannot_be_is_told() {
    let settings = RulesSettings {
        network: true,
        dns_server: Some("moon".to_owned()),
        ..RulesSettings::default()
    };
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &settings);
    assert!(
        problems
            .iter()
            .any(|problem| problem.cause == "no DNS server"),
        "{problems:?}"
    );
    assert_eq!(hits(&rules, MESSAGE), [""; 0]);
}
