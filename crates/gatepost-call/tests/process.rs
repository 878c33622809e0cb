//! The built program against a simulated server: exit codes, the bytes sent, and the files left
//! beside the message.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

const SPOOL: &str = "client;[10.0.0.1]:4012;server;[10.0.0.2]:25;time;logo\r\n\
    MAIL FROM:<anna@example.org>\r\nRCPT TO:<bert@example.org>\r\n\
    <<MAIL-DATA>>\r\nSubject: hi\r\n\r\nbody\r\n";

fn program(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gatepost-call"))
        .args(words)
        .output()
        .expect("the program runs")
}

/// Serves one call: returns the request, sends the parts of the answer, and returns the received
/// body if the answer began with `NEED body`.
fn take_call(mut stream: impl Read + Write, answer: &str) -> (String, Vec<u8>) {
    let mut request = String::new();
    let mut body = Vec::new();
    let mut reader = BufReader::new(&mut stream);
    while !request.ends_with("\n\n") && reader.read_line(&mut request).expect("a line") > 0 {}
    drop(reader);
    let mut rest = answer;
    if let Some(done) = answer.strip_prefix("NEED body\n") {
        stream.write_all(b"NEED body\n").expect("asked");
        let size = request.lines().find_map(|line| line.strip_prefix("size: "));
        body = vec![0; size.expect("a size").parse().expect("a number")];
        stream.read_exact(&mut body).expect("the body");
        rest = done;
    }
    // In some tests the client has already given up.
    let _ = stream.write_all(rest.as_bytes());
    (request, body)
}

fn server(answer: &'static str) -> (String, JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let thread = thread::spawn(move || {
        let (stream, _): (TcpStream, _) = listener.accept().expect("a client");
        take_call(stream, answer)
    });
    (address, thread)
}

fn spool_file(folder: &Path) -> String {
    let path = folder.join("spool");
    std::fs::write(&path, SPOOL).expect("a spool file");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_size_alone_is_sent_where_the_size_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = spool_file(folder.path());
    let (address, thread) = server("DONE accept\n\n");
    let output = program(&["--server", &address, "/sizecheck", &file, "-user", "anna b"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (request, body) = thread.join().expect("a call");
    let expected = format!(
        "CALL/1 /sizecheck\nsize: {}\nwant: close\narg-user: anna b\n\n",
        SPOOL.len()
    );
    assert_eq!((request, body), (expected, vec![]));
}

#[test]
fn the_body_is_sent_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large");
    let content: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &content).expect("a file");
    let (address, thread) = server("NEED body\nDONE quarantine\nreason: odd\n\n");
    let output = program(&[
        "--server",
        &address,
        "/spamcheck",
        path.to_str().expect("UTF-8"),
    ]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"odd\n");
    assert_eq!(thread.join().expect("a call").1, content);
}

#[test]
fn xmail_gets_its_codes_its_rej_file_and_its_rewritten_message() {
    for (mode, answer, code, rejection, field) in [
        (
            "xmail-smtp",
            "DONE reject\nreason: too big\n\n",
            3,
            Some("too big\r\n"),
            false,
        ),
        (
            "xmail-offline",
            "DONE reject\nreason: too big\n\n",
            6,
            Some("too big\r\n"),
            false,
        ),
        (
            "xmail-offline",
            "DONE drop\n\n",
            4,
            Some("message refused\r\n"),
            false,
        ),
        ("xmail-offline", "DONE accept\n\n", 0, None, false),
        (
            "xmail-offline",
            "DONE tag\ntag: X-Spam-Flag: YES\n\n",
            7,
            None,
            true,
        ),
        (
            "xmail-smtp",
            "DONE tag\ntag: X-Spam-Flag: YES\n\n",
            0,
            None,
            false,
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = spool_file(folder.path());
        let (address, thread) = server(answer);
        let output = program(&["--server", &address, "--exit", mode, "/mail", &file]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{mode} {answer:?}: {output:?}"
        );
        let (request, _) = thread.join().expect("a call");
        // Off-line XMail reads the file again, so a changed message is useful.
        let want = match mode {
            "xmail-offline" => "want: message\n",
            _ => "",
        };
        let expected = format!(
            "CALL/1 /mail\nsize: 21\nwant: close\nsender: anna@example.org\nclient: client\n\
             address: 10.0.0.1\nrecipient: bert@example.org\n{want}\n"
        );
        assert_eq!(request, expected);
        let rej = std::fs::read_to_string(format!("{file}.rej")).ok();
        assert_eq!(rej.as_deref(), rejection, "{mode} {answer:?}");
        let content = std::fs::read_to_string(&file).expect("the spool file");
        let tagged = content.contains("<<MAIL-DATA>>\r\nX-Spam-Flag: YES\r\nSubject: hi\r\n");
        assert_eq!(tagged, field, "{mode} {answer:?}");
    }
}

#[test]
fn no_verdict_is_never_an_accept_unless_chosen() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unused_address = closed.local_addr().expect("an address").to_string();
    drop(closed);
    let folder = tempfile::tempdir().expect("a folder");
    let file = spool_file(folder.path());
    for (options, code) in [
        (vec![], 75),
        (vec!["--exit", "sysexits"], 75),
        (vec!["--exit", "xmail-smtp"], 202),
        (vec!["--on-failure", "accept"], 0),
        (vec!["--on-failure", "reject"], 1),
        (vec!["--exit", "xmail-offline", "--on-failure", "reject"], 6),
        (
            vec![
                "--exit",
                "xmail-offline",
                "--silent",
                "--on-failure",
                "reject",
            ],
            4,
        ),
        (vec!["--exit", "xmail-smtp", "--on-failure", "defer"], 75),
    ] {
        let words = [
            &["--server", &unused_address],
            &options[..],
            &["/sizecheck", &file],
        ]
        .concat();
        let output = program(&words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{words:?} says why");
    }
    let missing = program(&["--exit", "xmail-smtp", "/sizecheck", "/nonexistent/file"]);
    assert_eq!(missing.status.code(), Some(206));
    for (answer, code) in [
        ("", 203),
        ("DONE reject\nreason: cut", 203),
        ("EHLO\n", 205),
        ("FAIL there is no /sizecheck\n\n", 205),
    ] {
        let (address, thread) = server(answer);
        let output = program(&[
            "--server",
            &address,
            "--exit",
            "xmail-smtp",
            "/sizecheck",
            &file,
        ]);
        assert_eq!(output.status.code(), Some(code), "{answer:?}: {output:?}");
        thread.join().expect("a call");
    }
}

#[test]
fn a_silent_server_costs_no_more_than_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let words = [
        "--server",
        &address,
        "--timeout",
        "50ms",
        "--exit",
        "xmail-smtp",
        "/noop",
    ];
    assert_eq!(program(&words).status.code(), Some(204));
    drop(listener);
}

#[test]
fn a_unix_socket_serves_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("call.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        take_call(stream, "DONE defer\n\n")
    });
    let address = format!("unix:{}", path.display());
    assert_eq!(
        program(&["--server", &address, "/noop"]).status.code(),
        Some(75)
    );
    assert_eq!(
        thread.join().expect("a call").0,
        "CALL/1 /noop\nsize: 0\nwant: close\n\n"
    );
}

#[test]
fn help_and_mistakes() {
    let help = program(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("xmail-offline"));
    assert_eq!(program(&["/noop", "-user"]).status.code(), Some(64));
}

#[test]
fn a_changed_message_takes_the_place_of_xmails() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = spool_file(folder.path());
    let answer = "NEED body\nDONE tag\ntag: X-Odd: yes\nmessage: 23\n\nSubject: changed\n\nnew\r\n";
    let (address, thread) = server(answer);
    let filter = |address: &str| {
        program(&[
            "--server",
            address,
            "--exit",
            "xmail-offline",
            "/mail",
            &file,
        ])
    };
    let output = filter(&address);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let (request, _) = thread.join().expect("a call");
    assert!(request.contains("\nwant: message\n"), "{request}");
    let expected = SPOOL.replace(
        "Subject: hi\r\n\r\nbody\r\n",
        "X-Odd: yes\r\nSubject: changed\r\n\r\nnew\r\n",
    );
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), expected);

    // Accepted and changed: the change applies all the same; an incomplete one changes nothing.
    let (address, _thread) = server("NEED body\nDONE accept\nmessage: 14\n\nSubject: a\n\nx\n");
    let output = filter(&address);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let before = std::fs::read(&file).expect("the file");
    let (address, _thread) = server("NEED body\nDONE accept\nmessage: 100\n\nSubject");
    let output = filter(&address);
    assert_ne!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(std::fs::read(&file).expect("the file"), before);
}

/// Starts the program as a filter; writes lines to it and reads its answers.
struct Filter {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Filter {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gatepost-call"))
            .args(words)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the program runs");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut filter = Self { child, answers };
        filter.tell("config|smtpd-version|7.4.0\nconfig|ready\n");
        while filter.answer() != "register|ready" {}
        filter
    }

    fn tell(&mut self, lines: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(lines.as_bytes()).expect("it reads");
    }

    /// Sends the lines of a message in a session.
    fn tell_message(&mut self, session: &str, lines: &[&str]) {
        for line in lines {
            self.tell(&format!(
                "filter|0.7|1.2|smtp-in|data-line|{session}|t|{line}\n"
            ));
        }
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn answers(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.answer()).collect()
    }
}

#[test]
fn sessions_of_smtpd_do_not_mix() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut filter = Filter::start(&[
        "--server",
        &address,
        "--opensmtpd",
        "/mail",
        "-site",
        "north",
    ]);
    filter.tell(
        "report|0.7|1.2|smtp-in|link-connect|one|host|pass|192.0.2.9:40|192.0.2.1:25\n\
         report|0.7|1.2|smtp-in|tx-mail|one|m|ok|anna@example.org\n\
         report|0.7|1.2|smtp-in|tx-rcpt|one|m|ok|bert@example.org\n",
    );
    filter.tell_message("one", &["Subject: 1", "", "..a"]);
    filter.tell_message("two", &["Subject: 2", "", "b", "."]);
    filter.tell_message("one", &["."]);
    // Both calls are made at once: neither waits for the other's verdict.
    let streams = [(); 2].map(|()| listener.accept().expect("a call").0);
    for stream in streams {
        let answer = "NEED body\nDONE reject\nreason: no\n\n";
        let (request, body) = take_call(stream, answer);
        let of_one = body == b"Subject: 1\r\n\r\n.a\r\n";
        assert!(of_one || body == b"Subject: 2\r\n\r\nb\r\n", "{body:?}");
        assert!(request.contains("arg-site: north\n"), "{request}");
        for field in [
            "sender: anna@example.org",
            "recipient: bert@example.org",
            "address: 192.0.2.9",
        ] {
            assert_eq!(request.contains(field), of_one, "{request}");
        }
    }
    let mut lines = filter.answers(8);
    lines.sort();
    let expected = [
        "filter-dataline|one|t|",
        "filter-dataline|one|t|.",
        "filter-dataline|one|t|..a",
        "filter-dataline|one|t|Subject: 1",
        "filter-dataline|two|t|",
        "filter-dataline|two|t|.",
        "filter-dataline|two|t|Subject: 2",
        "filter-dataline|two|t|b",
    ];
    assert_eq!(lines, expected);
    filter.tell("filter|0.7|1.2|smtp-in|commit|one|t\nfilter|0.7|1.2|smtp-in|commit|none|t\n");
    let expected = [
        "filter-result|one|t|reject|550 5.7.1 no",
        "filter-result|none|t|reject|451 4.3.0 the message was not judged",
    ];
    assert_eq!(filter.answers(2), expected);
    // It ends with smtpd.
    drop(filter.child.stdin.take());
    assert_eq!(filter.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn without_a_server_smtpd_gets_the_configured_decision() {
    for (choice, expected) in [
        (
            "defer",
            "reject|451 4.3.0 mail cannot be judged at the moment",
        ),
        ("reject", "reject|550 5.7.1 message refused"),
        ("accept", "proceed"),
    ] {
        let words = [
            "--server",
            "unix:/nowhere",
            "--on-failure",
            choice,
            "--opensmtpd",
            "/mail",
        ];
        let mut filter = Filter::start(&words);
        filter.tell_message("s", &["text", "."]);
        assert_eq!(
            filter.answers(2),
            ["filter-dataline|s|t|text", "filter-dataline|s|t|."]
        );
        filter.tell("filter|0.7|1.2|smtp-in|commit|s|t\n");
        assert_eq!(filter.answer(), format!("filter-result|s|t|{expected}"));
        drop(filter.child.stdin.take());
        assert_eq!(
            filter.child.wait().expect("it ends").code(),
            Some(0),
            "{choice}"
        );
    }
}
