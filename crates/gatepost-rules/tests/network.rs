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

fn answer(zone: &Zone, message: &[u8], truncate: bool) -> Vec<u8> {
    let (name, kind, end) = question(message);
    let records = zone.get(&(name.as_str(), kind));
    let exists = records.is_some() || zone.keys().any(|(known, _)| *known == name);
    let mut out = message[..2].to_vec();
    let is_long = truncate && records.is_some_and(|records| records[0].len() > 1000);
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

/// The usual rules about senders, and lists of those who are welcome.
const SENDER_RULES: &str = r"
util_rb_tld com org net example
trusted_networks 203.0.113.0/24
internal_networks 203.0.113.0/24
header SPF_PASS          eval:check_for_spf_pass()
header SPF_NEUTRAL       eval:check_for_spf_neutral()
header SPF_NONE          eval:check_for_spf_none()
header SPF_FAIL          eval:check_for_spf_fail()
header SPF_SOFTFAIL      eval:check_for_spf_softfail()
header SPF_PERMERROR     eval:check_for_spf_permerror()
header SPF_TEMPERROR     eval:check_for_spf_temperror()
header SPF_HELO_PASS     eval:check_for_spf_helo_pass()
header SPF_HELO_NONE     eval:check_for_spf_helo_none()
header SPF_HELO_FAIL     eval:check_for_spf_helo_fail()
header SPF_HELO_SOFTFAIL eval:check_for_spf_helo_softfail()
header SPF_SKIPPED       eval:check_spf_skipped_noenvfrom()
header SPF_WELCOME       eval:check_for_spf_welcomelist_from()
header SPF_DEF_WELCOME   eval:check_for_def_spf_welcomelist_from()
full   DKIM_SIGNED       eval:check_dkim_signed()
full   DKIM_VALID        eval:check_dkim_valid()
full   DKIM_VALID_THIRD  eval:check_dkim_valid('third.example')
full   DKIM_VALID_BELOW  eval:check_dkim_valid('.author.example')
full   DKIM_VALID_OTHER  eval:check_dkim_valid('other.example')
full   DKIM_VALID_AU     eval:check_dkim_valid_author_sig()
full   DKIM_VALID_EF     eval:check_dkim_valid_envelopefrom()
full   DKIM_DEPENDABLE   eval:check_dkim_dependable()
header DKIM_NXDOMAIN     eval:check_dkim_adsp('N')
header DKIM_ALL          eval:check_dkim_adsp('A')
header DKIM_CUSTOM       eval:check_dkim_adsp('2')
header DKIM_WELCOME      eval:check_for_dkim_welcomelist_from()
header DKIM_DEF_WELCOME  eval:check_for_def_dkim_welcomelist_from()
meta   DKIM_INVALID      DKIM_SIGNED && !DKIM_VALID
full   ARC_SIGNED        eval:check_arc_signed()
full   ARC_VALID         eval:check_arc_valid()
header ASN               eval:check_asn('/^AS64496$/')
header ASN_FIELD         X-ASN =~ /^64496\b/
asn_lookup asn.example.  _ASN_ _ASNCIDR_
header HASHED            eval:check_hashbl_emails('hash.example', 'md5/max=10', 'From')
body   HASHED_TEXT       eval:check_hashbl_bodyre('raw.example', 'raw/max=10', '\b(signed)\b')
header HASHED_LINK       eval:check_hashbl_uris('hash.example', 'sha1')
welcomelist_from_spf     *@author.example
def_welcomelist_from_spf *@soft.example
welcomelist_from_dkim    *@author.example third.example
def_welcomelist_from_dkim anna@author.example
adsp_override            custom.example custom_med
";

fn sender_zone() -> Zone {
    let mut zone = Zone::new();
    let text = include_str!("data/authentication/keys.txt");
    for line in text.lines() {
        let (name, value) = line.split_once(" TXT ").expect("a key");
        zone.insert((name, "TXT"), vec![value]);
    }
    zone.extend([
        (
            ("author.example", "TXT"),
            vec!["v=spf1 include:_spf.author.example mx -all"],
        ),
        (
            ("_spf.author.example", "TXT"),
            vec!["v=spf1 a:out.author.example ~all"],
        ),
        (("out.author.example", "A"), vec!["192.0.2.7"]),
        (("author.example", "MX"), vec!["mx.author.example"]),
        (("mx.author.example", "A"), vec!["192.0.2.8"]),
        (("soft.example", "TXT"), vec!["v=spf1 ~all"]),
        (("soft.example", "MX"), vec!["mx.author.example"]),
        (("broken.example", "TXT"), vec!["v=spf1 moon"]),
        (("_adsp._domainkey.soft.example", "TXT"), vec!["dkim=all"]),
        (("mail.author.example", "TXT"), vec!["v=spf1 a -all"]),
        (("mail.author.example", "A"), vec!["192.0.2.7"]),
        (
            ("7.2.0.192.asn.example", "TXT"),
            vec!["64496 | 192.0.2.0/24 | ZZ"],
        ),
        // md5 of anna@author.example, and a word of the text as it stands.
        (
            ("9c59fc35eaeda938da824d6690ef827f.hash.example", "A"),
            vec!["127.0.0.2"],
        ),
        (("signed.raw.example", "A"), vec!["127.0.0.2"]),
    ]);
    zone
}

/// Messages of several senders, by what they show.
fn sent_messages() -> Vec<(&'static str, String)> {
    let signed = include_str!("data/authentication/signed.eml");
    let forwarded = include_str!("data/authentication/forwarded.eml");
    let plain = signed.split_once("From: ").expect("a field").1;
    let plain = format!("From: {plain}");
    let through = |address: &str, sender: &str, helo: &str, message: &str| {
        format!(
            "Return-Path: <{sender}>\nReceived: from {helo} ({helo} [{address}]) by mx.example.com (Postfix) \
             with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\n{message}"
        )
    };
    let ours = "anna@author.example";
    vec![
        (
            "signed, right server",
            through("192.0.2.7", ours, "mail.author.example", signed),
        ),
        (
            "signed, exchanger",
            through("192.0.2.8", ours, "mail.author.example", signed),
        ),
        (
            "signed, wrong server",
            through("198.51.100.1", ours, "unknown.example", signed),
        ),
        (
            "changed",
            through(
                "192.0.2.7",
                ours,
                "[192.0.2.7]",
                &signed.replace("Hello", "Hallo"),
            ),
        ),
        (
            "forwarded",
            through("198.51.100.1", "list@forward.example", "forward", forwarded),
        ),
        (
            "forwarded, changed",
            through(
                "198.51.100.1",
                "",
                "forward.example",
                &forwarded.replace("Hello", "Hi"),
            ),
        ),
        (
            "plain",
            through(
                "192.0.2.7",
                "x@soft.example",
                "soft.example",
                &plain.replace("author", "soft"),
            ),
        ),
        (
            "no such author",
            through(
                "192.0.2.7",
                "x@broken.example",
                "h.example",
                &plain.replace("author", "nowhere"),
            ),
        ),
        (
            "custom",
            through(
                "192.0.2.7",
                "x@nothing.example",
                "h.example",
                &plain.replace("author", "custom"),
            ),
        ),
        ("no relay", plain.clone()),
        (
            "noted",
            format!(
                "Received-SPF: softfail (x) identity=mailfrom; x\n{}",
                through("192.0.2.7", ours, "h.example", &plain)
            ),
        ),
    ]
}

/// What SpamAssassin itself says with the same rules and the same server.
fn theirs(server: &Server, rules: &str, messages: &[(&str, String)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["rules", "site", "state"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let plugins = [
        "Check", "DNSEval", "SPF", "DKIM", "ASN", "HashBL", "WLBLEval",
    ];
    let plugins = plugins.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    let network = format!("dns_available yes\ndns_server {}\n", server.address);
    std::fs::write(path("site/init.pre"), plugins.concat()).expect("written");
    std::fs::write(path("rules/cases.cf"), format!("{network}{rules}")).expect("written");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
    let mut judge = std::process::Command::new("perl")
        .arg(script)
        .env("RULES", path("rules"))
        .env("SITE", path("site"))
        .env("STATE", path("state"))
        .env("NETWORK", "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the peers 'perl' and 'spamassassin' are installed");
    let mut input = judge.stdin.take().expect("is piped");
    for (index, (_, message)) in messages.iter().enumerate() {
        let file = path(&format!("{index}.eml"));
        std::fs::write(&file, message).expect("written");
        writeln!(input, "{index}\t{}", file.display()).expect("SpamAssassin reads");
    }
    drop(input);
    let output = judge.wait_with_output().expect("SpamAssassin ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().map(|line| {
        let names = line.rsplit('\t').next().unwrap_or_default().split(',');
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    });
    names.collect()
}

#[test]
fn senders_are_proven_as_spamassassin_proves_them() {
    let server = Server::start(sender_zone());
    let (rules, problems) =
        RuleSet::from_text("net.cf", SENDER_RULES.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let messages = sent_messages();
    let theirs = theirs(&server, SENDER_RULES, &messages);
    let mut ours: Vec<Vec<String>> = messages
        .iter()
        .map(|(_, message)| hits(&rules, message))
        .collect();
    let mut theirs = theirs;
    // SpamAssassin's header rules may run before the field is there.
    let has_field = |names: &Vec<String>| names.iter().any(|name| name == "ASN_FIELD");
    assert!(ours.iter().any(has_field), "{ours:#?}");
    // It calls a chain valid of which one seal is, though the message was changed since.
    for names in ours.iter_mut().chain(&mut theirs) {
        names.retain(|name| name != "ASN_FIELD");
    }
    for ((name, _), names) in messages.iter().zip(&mut theirs) {
        names.retain(|rule| *name != "forwarded, changed" || rule != "ARC_VALID");
    }
    let mut wrong = Vec::new();
    for (((name, _), ours), theirs) in messages.iter().zip(&ours).zip(&theirs) {
        if ours != theirs {
            wrong.push(format!("{name}:\n  ours {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: std::collections::BTreeSet<&String> = ours.iter().flatten().collect();
    for rule in [
        "SPF_PASS",
        "SPF_FAIL",
        "SPF_SOFTFAIL",
        "SPF_NONE",
        "SPF_PERMERROR",
        "SPF_HELO_PASS",
        "SPF_WELCOME",
        "DKIM_VALID_AU",
        "DKIM_VALID_EF",
        "DKIM_INVALID",
        "DKIM_WELCOME",
        "DKIM_DEF_WELCOME",
        "DKIM_NXDOMAIN",
        "DKIM_ALL",
        "DKIM_CUSTOM",
        "ARC_VALID",
        "ASN",
        "HASHED",
        "HASHED_TEXT",
    ] {
        assert!(
            all.iter().any(|name| *name == rule),
            "{rule} hits nothing: {ours:#?}"
        );
    }
}
