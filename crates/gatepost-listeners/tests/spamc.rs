//! The spamd listener with SpamAssassin's own client, in each of its modes, and with the bytes that
//! Exim sends.

mod support;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use flate2::{Compression, write::ZlibEncoder};
use gatepost_learning::Learning;
use gatepost_rules::{RuleSet, RulesSettings};
use gatepost_settings::Bind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use support::Fixture;

const HAM: &str = "From: anna@example.org\r\nTo: bert@example.org\r\nSubject: lunch\r\n\
    Date: Sat, 21 Nov 2026 04:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\nat noon?\r\n";

/// The string that every SpamAssassin scores with 1,000.
fn spam() -> String {
    let gtube = [
        "XJS*C4JDBQADN1.NSBN3*2IDNEN",
        "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL",
        "C.34X",
    ];
    HAM.replace("at noon?", &gtube.join("*"))
}

struct SpamcOutput {
    code: Option<i32>,
    text: String,
}

/// Runs spamc with where to find the server, and options.
async fn spamc_at(server: &[&str], options: &[&str], input: &str) -> SpamcOutput {
    // -F: no config of this machine.
    let mut child = Command::new("spamc")
        .args(["-F", "/dev/null"])
        .args(server)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("spamc does not start ({error}); is it installed?"));
    let mut stdin = child.stdin.take().expect("a pipe");
    // A client that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("an exit");
    SpamcOutput {
        code: output.status.code(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
    }
}

/// As [`spamc_at`], by TCP, with errors in the exit code.
async fn spamc(address: SocketAddr, options: &[&str], input: &str) -> SpamcOutput {
    let port = address.port().to_string();
    spamc_at(&["-x", "-d", "127.0.0.1", "-p", &port], options, input).await
}

/// Rules with something to learn into and a user with preferences.
fn rules(users: Option<PathBuf>) -> RuleSet {
    let settings = RulesSettings {
        user_preferences: users,
        ..RulesSettings::default()
    };
    let (rules, _) = RuleSet::load(&[], &settings);
    rules.with_learning(Learning::in_memory())
}

#[tokio::test]
async fn it_asks_in_every_way() {
    let fixture = Fixture::new();
    let address = fixture.listen("spamd", "");
    let spam = spam();

    let said = spamc(address, &["-K"], "").await;
    assert_eq!(said.code, Some(0), "ping: {}", said.text);
    assert!(said.text.starts_with("SPAMD/1.5 0"), "{}", said.text);

    for check in ["-c", "-E"] {
        let said = spamc(address, &[check], &spam).await;
        assert_eq!(said.code, Some(1), "{check}: {}", said.text);
        let said = spamc(address, &[check], HAM).await;
        assert_eq!(said.code, Some(0), "{check}: {}", said.text);
    }
    let said = spamc(address, &["-c"], &spam).await;
    let (score, required) = said.text.trim().split_once('/').expect("score/required");
    let score: f64 = score.parse().expect("a number");
    assert!(score >= 1000.0, "{}", said.text);
    assert_eq!(required, "5.0");

    let said = spamc(address, &["-y"], &spam).await;
    let mut names = said.text.split([',', '\n']);
    assert!(names.any(|name| name == "GTUBE"), "symbols: {}", said.text);

    for report in ["-R", "-r"] {
        let said = spamc(address, &[report], &spam).await;
        let is_report = said.text.contains("GTUBE") && said.text.contains("points");
        assert!(is_report, "{report}: {}", said.text);
    }
    let said = spamc(address, &["-r"], HAM).await;
    assert!(
        !said.text.contains("points"),
        "no report of ham: {}",
        said.text
    );

    let said = spamc(address, &[], &spam).await;
    assert_eq!(said.code, Some(0), "process: {}", said.text);
    assert!(said.text.contains("X-Spam-Flag: YES"), "{}", said.text);
    let said = spamc(address, &["-E"], &spam).await;
    assert_eq!(
        said.code,
        Some(1),
        "processed, and the exit code reports it"
    );
    assert!(said.text.contains("X-Spam-Flag: YES"), "{}", said.text);
    // --headers: the response contains only the head, and spamc appends the body.
    for options in [&[][..], &["--headers"]] {
        let said = spamc(address, options, HAM).await;
        let is_whole = said.text.contains("X-Spam-Status: No") && said.text.contains("at noon?");
        assert!(is_whole, "{options:?}: {}", said.text);
    }

    fixture.store.flush().await;
    let journal = fixture.store.journal_recent(50).expect("the journal");
    let is_lunch = |subject: Option<&str>| subject == Some("lunch");
    assert!(
        journal
            .iter()
            .any(|entry| is_lunch(entry.subject.as_deref()))
    );
}

#[tokio::test]
async fn it_teaches() {
    let fixture = Fixture::with_rules(rules(None));
    let address = fixture.listen("spamd", "");
    let (learned, known) = ("successfully un/learned", "already un/learned");
    for (options, text) in [
        (["-L", "spam"], learned),
        (["-L", "spam"], known),
        (["-L", "ham"], learned),
        (["-L", "forget"], learned),
        (["-L", "forget"], known),
        // -C teaches here as well, and has no other receiver of reports: spamc reports that it
        // failed.
        (["-C", "report"], "Unable to report/revoke"),
        (["-L", "spam"], known),
        (["-C", "revoke"], "Unable to report/revoke"),
        (["-L", "ham"], known),
    ] {
        let said = spamc(address, &options, HAM).await;
        assert!(said.text.contains(text), "{options:?}: {}", said.text);
    }
    // A message with this filter's own header fields is the message that was scanned.
    let marked = spamc(address, &[], HAM).await.text;
    assert!(marked.contains("X-Spam-Status"), "{marked}");
    let said = spamc(address, &["-L", "forget"], &marked).await;
    assert!(said.text.contains(learned), "{}", said.text);
}

#[tokio::test]
async fn teaching_can_be_refused() {
    let fixture = Fixture::with_rules(rules(None));
    let address = fixture.listen("spamd", "allow_tell = false");
    let nothing_to_learn = Fixture::new().listen("spamd", "");
    for address in [address, nothing_to_learn] {
        let said = spamc(address, &["-L", "spam"], HAM).await;
        // The answer is 69, unavailable, in the one line that the protocol has for errors; spamc
        // takes any such line for a broken answer (74, input/output error). Not for success.
        assert_ne!(said.code, Some(0), "{}", said.text);
    }
}

#[tokio::test]
async fn users_have_their_own_threshold_scores_and_fields() {
    let users = tempfile::tempdir().expect("a folder");
    let file = users.path().join("anna");
    std::fs::write(
        &file,
        "required_score 2000\nadd_header all Whose anna\nscore GTUBE 1500\nbody MINE /noon/\n",
    )
    .expect("written");
    let fixture = Fixture::with_rules(rules(Some(users.path().to_path_buf())));
    let address = fixture.listen("spamd", "");
    let spam = spam();
    let said = spamc(address, &["-c", "-u", "anna"], &spam).await;
    assert_eq!(said.code, Some(0), "below her threshold: {}", said.text);
    assert!(said.text.contains("/2000.0"), "{}", said.text);
    let score: f64 = said
        .text
        .split('/')
        .next()
        .and_then(|text| text.trim().parse().ok())
        .expect("a score");
    assert!(score >= 1500.0, "her score: {score}");
    let said = spamc(address, &["-u", "anna"], HAM).await;
    assert!(said.text.contains("X-Spam-Whose: anna"), "{}", said.text);
    assert!(
        !said.text.contains("MINE"),
        "users define no rules: {}",
        said.text
    );
    let said = spamc(address, &["-c", "-u", "bert"], &spam).await;
    assert_eq!(said.code, Some(1), "bert has no preferences: {}", said.text);

    let mut more = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .expect("opens");
    writeln!(more, "required_score 10").expect("written");
    let said = spamc(address, &["-c", "-u", "anna"], &spam).await;
    assert_eq!(
        said.code,
        Some(1),
        "her changed file holds at once: {}",
        said.text
    );
}

#[tokio::test]
async fn messages_are_accepted_by_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spamd.sock");
    let fixture = Fixture::new();
    fixture.listen_on(&Bind::Unix(path.clone()), "spamd", "");
    let server = ["-x", "-U", path.to_str().expect("text")];
    let said = spamc_at(&server, &["-c"], &spam()).await;
    assert_eq!(said.code, Some(1), "{}", said.text);
    let said = spamc_at(&server, &[], HAM).await;
    assert!(said.text.contains("X-Spam-Status: No"), "{}", said.text);
}

#[tokio::test]
async fn a_message_is_never_lost() {
    let fixture = Fixture::new();
    let address = fixture.listen("spamd", "message_max = \"1KiB\"");
    let port = address.port().to_string();
    let long = format!("{HAM}{}", "more\r\n".repeat(1000));
    // Too large for the server: spamc returns the message unchanged.
    let said = spamc_at(&["-d", "127.0.0.1", "-p", &port], &[], &long).await;
    assert_eq!((said.code, said.text.as_str()), (Some(0), long.as_str()));
    // With -x the exit code reports that it was not judged.
    let said = spamc_at(&["-x", "-d", "127.0.0.1", "-p", &port], &[], &long).await;
    assert_ne!(said.code, Some(0));
    // Too large for spamc itself: it sends no request.
    let said = spamc_at(&["-d", "127.0.0.1", "-p", &port, "-s", "500"], &[], &long).await;
    assert_eq!((said.code, said.text.as_str()), (Some(0), long.as_str()));
}

/// Sends a request as it stands and reads the whole answer.
async fn send_request(address: SocketAddr, request: &str) -> String {
    request_bytes(address, request.as_bytes()).await
}

async fn request_bytes(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(request).await.expect("is sent");
    stream.shutdown().await.expect("half-closes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// The worker sends the rest of an answer that the judge's socket does not take immediately.
#[tokio::test]
async fn a_long_answer_arrives_whole() {
    let fixture = Fixture::new();
    let address = fixture.listen("spamd", "message_max = \"64MiB\"");
    let message = format!("{HAM}{}", "a line of a long message\r\n".repeat(1_000_000));
    let length = message.len();
    let request = format!("PROCESS SPAMC/1.5\r\nContent-length: {length}\r\n\r\n{message}");
    let answer = send_request(address, &request).await;
    assert!(answer.starts_with("SPAMD/1.1 0 EX_OK\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let announced = format!("Content-length: {}\r\n", body.len());
    assert!(format!("{head}\r\n").contains(&announced), "{head}");
    assert!(body.len() > length && body.ends_with("a line of a long message\r\n"));
}

/// Debian's spamc is built without zlib; these are the bytes that it would send.
#[tokio::test]
async fn a_message_may_be_compressed() {
    let fixture = Fixture::new();
    let address = fixture.listen("spamd", "");
    let mut packing = ZlibEncoder::new(Vec::new(), Compression::default());
    packing.write_all(spam().as_bytes()).expect("memory");
    let packed = packing.finish().expect("memory");
    let head = format!(
        "CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: {}\r\n\r\n",
        packed.len()
    );
    let answer = request_bytes(address, &[head.as_bytes(), &packed].concat()).await;
    assert!(
        answer.starts_with("SPAMD/1.1 0 EX_OK\r\nSpam: True ; "),
        "{answer}"
    );
    let broken = request_bytes(
        address,
        &[head.as_bytes(), &vec![b'x'; packed.len()]].concat(),
    )
    .await;
    assert!(broken.starts_with("SPAMD/1.0 76 "), "{broken}");
}

/// Exim's `spam =` condition asks so, and takes the answer apart with a fixed pattern.
#[tokio::test]
async fn exim_understands_the_answer() {
    let fixture = Fixture::new();
    let address = fixture.listen("spamd", "");
    let message = spam();
    let request = format!(
        "REPORT SPAMC/1.2\r\nUser: nobody\r\nContent-length: {}\r\n\r\n{message}",
        message.len()
    );
    let answer = send_request(address, &request).await;
    let rest = answer.strip_prefix("SPAMD/1.1 0 EX_OK\r\nSpam: True ; ");
    let (numbers, report) = rest
        .and_then(|rest| rest.split_once("\r\n\r\n"))
        .unwrap_or_else(|| panic!("{answer}"));
    let (score, required) = numbers.split_once(" / ").expect("two numbers");
    assert!(
        score.parse::<f64>().is_ok_and(|score| score >= 1000.0),
        "{answer}"
    );
    assert_eq!(required, "5.0");
    assert!(report.contains("GTUBE"), "{answer}");
}

#[tokio::test]
async fn the_letters_of_the_protocol() {
    let fixture = Fixture::with_rules(rules(None));
    let address = fixture.listen("spamd", "");
    let length = HAM.len();
    for (request, expected) in [
        ("PING SPAMC/1.2\r\n".to_owned(), "SPAMD/1.5 0 PONG\r\n"),
        (
            "hello PING SPAMC/1.5\r\n\r\n".to_owned(),
            "SPAMD/1.5 0 PONG\r\n",
        ),
        ("SKIP SPAMC/1.5\r\n\r\n".to_owned(), ""),
        (
            "MAKE-TEA SPAMC/1.5\r\n\r\n".to_owned(),
            "SPAMD/1.0 76 Bad header line: ",
        ),
        (
            format!(
                "CHECK SPAMC/1.5\r\nContent-length: {}\r\n\r\n{HAM}",
                length + 1
            ),
            "SPAMD/1.0 76 Bad header line: (Content-",
        ),
        (
            format!(
                "TELL SPAMC/1.5\r\nContent-length: {length}\r\nMessage-class: ham\r\n\
                 Set: local\r\n\r\n{HAM}"
            ),
            "SPAMD/1.1 0 EX_OK\r\nDidSet: local\r\n\r\n\r\n",
        ),
        (
            format!(
                "TELL SPAMC/1.5\r\nContent-length: {length}\r\nMessage-class: ham\r\n\
                 Set: local, remote\r\n\r\n{HAM}"
            ),
            "SPAMD/1.1 0 EX_OK\r\n\r\n\r\n",
        ),
        (
            format!("TELL SPAMC/1.5\r\nContent-length: {length}\r\nRemove: local\r\n\r\n{HAM}"),
            "SPAMD/1.1 0 EX_OK\r\nDidRemove: local\r\n\r\n\r\n",
        ),
        (
            format!(
                "TELL SPAMC/1.5\r\nContent-length: {length}\r\nMessage-class: spam\r\n\
                 Set: local\r\nRemove: local\r\n\r\n{HAM}"
            ),
            "SPAMD/1.0 76 Bad header line: ",
        ),
        (
            format!(
                "REPORT_IFSPAM SPAMC/1.5\r\nuser: \u{e9}\r\nX-Unknown: 1\r\n\
                 content-LENGTH: {length}\r\n\r\n{HAM}"
            ),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: No ; ",
        ),
    ] {
        let answer = send_request(address, &request).await;
        let fits = answer.starts_with(expected) && answer.is_empty() == expected.is_empty();
        assert!(
            fits,
            "{request:?}\nanswered {answer:?}\ninstead of {expected:?}"
        );
    }
}
