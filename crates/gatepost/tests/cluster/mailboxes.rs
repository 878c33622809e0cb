//! Mailboxes that all nodes share, with swaks, curl and POP3 by hand.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;

use tempfile::TempDir;

use super::nats::{self, Nats};
use super::support::{Gateway, await_some, run, swaks, text_of};
use super::{await_users_added, readyz, value_of};

pub(super) const SETTINGS: &str = "listeners.lmtp.bind = []\nlisteners.milter.bind = []\n\
    listeners.spamd.bind = []\nlisteners.call.bind = []\nlisteners.mqtt.bind = []\n\
    rules.paths = []\nbackbone.append_wait_max = \"10s\"\n\
    listeners.smtp.domains = [\"people.example\"]\nscope = []\n\
    [[listeners.smtp.routes]]\nrecipients = \"*@people.example\"\nmailbox = \"{user}\"\n";
pub(super) const ANNA: &str = "anna@people.example";
const BERT: &str = "bert@people.example";

/// A folder for a node.
pub(super) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A folder whose database has users.
pub(super) fn folder_with_users() -> TempDir {
    let folder = folder();
    let data = format!("data={}", folder.path().join("gatepost-data").display());
    for name in ["anna", "bert"] {
        let arguments = ["user", "add", name, "--admin", "--set", &data];
        let added = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(added.status.success(), "{}", text_of(&added));
    }
    folder
}

/// Starts a node in this folder, and waits until it is part of its cluster.
pub(super) fn start(settings: &str, folder: &Path) -> Gateway {
    let gateway = Gateway::start_in(folder, &format!("{settings}{SETTINGS}"));
    await_some("the node is part of its cluster", || {
        (!readyz(&gateway).contains("degraded")).then_some(())
    });
    gateway
}

/// Two nodes, the first of which brings the users.
pub(super) fn two_nodes(nats: &Nats) -> ([TempDir; 2], Gateway, Gateway) {
    let folders = [folder_with_users(), folder()];
    let one = start(&nats.settings(1), folders[0].path());
    await_users_added(&one);
    let two = start(&nats.settings(2), folders[1].path());
    (folders, one, two)
}

/// Sends a mail with this body by swaks; returns the conversation.
pub(super) fn send(gateway: &Gateway, to: &str, body: &str) -> String {
    let file = gateway.folder.join("mail.txt");
    let mail = format!("From: otto@example.org\nTo: {to}\nSubject: a mail\n\n{body}\n");
    std::fs::write(&file, mail).expect("written");
    let server = gateway.address("smtp").to_string();
    let data = format!("@{}", file.display());
    text_of(&swaks(&server, "otto@example.org", to, &["--data", &data]))
}

fn deliver(gateway: &Gateway, to: &str, body: &str) {
    let said = send(gateway, to, body);
    assert!(said.contains(" accepted"), "{said}");
}

/// The bytes of a user's mail of this number, as curl gets it from a node.
pub(super) fn read(gateway: &Gateway, user: &str, number: usize) -> Vec<u8> {
    let url = format!("pop3://127.0.0.1:{}/{number}", gateway.port("pop3"));
    let login = format!("{user}:secret");
    let output = run("curl", &["-s", "-S", "-u", &login, &url], b"");
    assert!(output.status.success(), "{}", text_of(&output));
    output.stdout
}

/// A conversation with a POP3 server.
pub(super) struct Pop3(BufReader<TcpStream>);

impl Pop3 {
    fn connect(gateway: &Gateway) -> Self {
        let stream = TcpStream::connect(gateway.address("pop3")).expect("connected");
        let mut pop3 = Self(BufReader::new(stream));
        assert!(pop3.line().starts_with("+OK"));
        pop3
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line
    }

    fn send(&mut self, command: &str) -> String {
        let line = format!("{command}\r\n");
        self.0.get_mut().write_all(line.as_bytes()).expect("sent");
        self.line()
    }

    /// Logs in; returns the answer.
    fn login(gateway: &Gateway, user: &str) -> (Self, String) {
        let mut pop3 = Self::connect(gateway);
        pop3.send(&format!("USER {user}"));
        let said = pop3.send("PASS secret");
        (pop3, said)
    }

    /// Logs in to a mailbox with so many mails.
    pub(super) fn open(gateway: &Gateway, user: &str, count: usize) -> Self {
        let (pop3, said) = Self::login(gateway, user);
        assert!(said.starts_with(&format!("+OK {count} messages")), "{said}");
        pop3
    }

    /// Ends the session, and with it the mails that are marked.
    pub(super) fn quit(mut self) {
        let said = self.send("QUIT");
        assert!(said.starts_with("+OK"), "{said}");
    }
}

/// The number of mails that a node shows, once it shows a mailbox at all.
pub(super) fn count(gateway: &Gateway, user: &str) -> usize {
    await_some("the mailbox can be opened", || {
        let (pop3, said) = Pop3::login(gateway, user);
        let count = said.strip_prefix("+OK ")?.split(' ').next()?.parse().ok();
        pop3.quit();
        count
    })
}

/// Removes a mail.
fn delete(gateway: &Gateway, user: &str, number: usize) {
    let (mut pop3, said) = Pop3::login(gateway, user);
    assert!(said.starts_with("+OK"), "{said}");
    let said = pop3.send(&format!("DELE {number}"));
    assert!(said.starts_with("+OK"), "{said}");
    pop3.quit();
}

/// Text of some megabytes in which no two lines are the same.
fn long_text(lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line:08} {}", "0123456789".repeat(6));
    }
    text
}

#[test]
fn mail_is_in_its_mailbox_on_all_nodes() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let folders = [folder_with_users(), folder(), folder()];
    let settings = [1, 2, 3].map(|number| Nats::settings_of_all(&servers, number));
    let one = start(&settings[0], folders[0].path());
    await_users_added(&one);
    let two = start(&settings[1], folders[1].path());
    let three = start(&settings[2], folders[2].path());
    deliver(&one, ANNA, ".a dot\nshort");
    // Every 250 is followed by the next node at once.
    Pop3::open(&two, "anna", 1).quit();
    let long = long_text(50_000);
    deliver(&two, &format!("{ANNA},{BERT}"), &long);
    Pop3::open(&three, "anna", 2).quit();
    for number in [1, 2] {
        let mail = read(&one, "anna", number);
        assert!(mail.starts_with(b"Return-Path: <otto@example.org>\r\n"));
        for gateway in [&two, &three] {
            assert!(read(gateway, "anna", number) == mail, "mail {number}");
        }
    }
    let mail = String::from_utf8(read(&three, "bert", 1)).expect("text");
    assert!(mail.contains(&long.replace('\n', "\r\n")), "{}", mail.len());

    assert_eq!(three.terminate(), Some(0));
    delete(&two, "anna", 1);
    Pop3::open(&one, "anna", 1).quit();
    Pop3::open(&two, "anna", 1).quit();
    let three = start(&settings[2], folders[2].path());
    assert_eq!(count(&three, "anna"), 1);
    assert_eq!(one.terminate(), Some(0));
    let one = start(&settings[0], folders[0].path());
    assert_eq!(count(&one, "anna"), 1);
    assert_eq!(count(&one, "bert"), 1);
    let metrics = run(
        "curl",
        &["-s", "-u", "bert:secret", &one.url("/metrics")],
        b"",
    );
    let metrics = text_of(&metrics);
    let value = |name| value_of(&metrics, name).unwrap_or_else(|| panic!("{name}: {metrics}"));
    assert!(value("gatepost_backbone_mail_bytes ") > 6_000_000);
    assert_eq!(value("gatepost_backbone_mail_unread "), 0);
}

#[test]
fn one_client_of_the_cluster_has_a_mailbox() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (_folders, one, two) = two_nodes(&nats);
    deliver(&one, ANNA, "x");
    let mut first = Pop3::open(&one, "anna", 1);
    for gateway in [&one, &two] {
        let (_, said) = Pop3::login(gateway, "anna");
        assert!(said.starts_with("-ERR [IN-USE]"), "{said}");
    }
    Pop3::open(&two, "bert", 0).quit();
    assert!(first.send("DELE 1").starts_with("+OK"));
    first.quit();
    // The mailbox is free as soon as the first client knows.
    let second = Pop3::open(&two, "anna", 0);
    drop(second);
    await_some("a client that is gone leaves the mailbox", || {
        let (_, said) = Pop3::login(&one, "anna");
        said.starts_with("+OK").then_some(())
    });
    await_some("the last one is gone, too", || {
        let (pop3, said) = Pop3::login(&two, "anna");
        said.starts_with("+OK").then(|| pop3.quit())
    });

    let left = Pop3::open(&two, "anna", 0);
    two.kill();
    let (_, said) = Pop3::login(&one, "anna");
    assert!(said.starts_with("-ERR [IN-USE]"), "{said}");
    await_some("the claim of a node that is gone ends", || {
        let (_, said) = Pop3::login(&one, "anna");
        said.starts_with("+OK").then_some(())
    });
    drop(left);
}

#[test]
fn mail_outlives_the_node_that_accepted_it() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (_folders, one, two) = two_nodes(&nats);
    let long = long_text(20_000);
    deliver(&one, ANNA, &long);
    one.kill();
    let mail = String::from_utf8(read(&two, "anna", 1)).expect("text");
    assert!(mail.contains(&long.replace('\n', "\r\n")));
}

#[test]
fn without_a_majority_mail_stays_with_its_sender() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    let folder = folder_with_users();
    let settings = Nats::settings_of_all(&servers, 1);
    let one = start(&settings, folder.path());
    deliver(&one, ANNA, "before");
    let mut open = Pop3::open(&one, "anna", 1);
    assert!(open.send("DELE 1").starts_with("+OK"));
    servers[0].kill();
    servers[1].kill();
    let long = long_text(10_000);
    for body in ["short", &long] {
        let said = send(&one, ANNA, body);
        assert!(said.contains("<** 451 4.3.0"), "{said}");
    }
    let said = open.send("QUIT");
    assert!(said.starts_with("-ERR [SYS/TEMP]"), "{said}");
    let (_, said) = Pop3::login(&one, "anna");
    assert!(said.starts_with("-ERR [SYS/TEMP]"), "{said}");

    servers[0].start_again();
    servers[1].start_again();
    await_some("mail is accepted again", || {
        send(&one, BERT, "x").contains(" accepted").then_some(())
    });
    for body in ["short", &long] {
        deliver(&one, ANNA, body);
    }
    // Neither a mail that was refused nor a removal that was not confirmed is there.
    await_some("the mailbox has each mail once", || {
        (count(&one, "anna") == 3).then_some(())
    });
    assert!(String::from_utf8_lossy(&read(&one, "anna", 1)).contains("before"));
}

#[test]
fn a_server_that_joins_brings_its_mail() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    // A server of its own.
    let one = Gateway::start_in(folders[0].path(), SETTINGS);
    let long = long_text(20_000);
    deliver(&one, ANNA, "own");
    deliver(&one, ANNA, &long);
    let mail = [1, 2].map(|number| read(&one, "anna", number));
    assert_eq!(one.terminate(), Some(0));
    let one = start(&nats.settings(1), folders[0].path());
    let two = start(&nats.settings(2), folders[1].path());
    assert_eq!(count(&two, "anna"), 2);
    assert!(mail == [1, 2].map(|number| read(&two, "anna", number)));

    // Without the cluster for a while: what it deletes returns, what it receives is added, and what
    // was deleted in the cluster does not return.
    assert_eq!(one.terminate(), Some(0));
    delete(&two, "anna", 1);
    let one = Gateway::start_in(folders[0].path(), SETTINGS);
    delete(&one, "anna", 2);
    deliver(&one, ANNA, "later");
    assert_eq!(one.terminate(), Some(0));
    let one = start(&nats.settings(1), folders[0].path());
    for gateway in [&one, &two] {
        await_some("both have the same mail", || {
            (count(gateway, "anna") == 2).then_some(())
        });
        assert!(read(gateway, "anna", 1) == mail[1]);
        assert!(String::from_utf8_lossy(&read(gateway, "anna", 2)).contains("later"));
    }
}

#[test]
fn a_stream_that_was_lost_is_filled_again() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (_folders, one, two) = two_nodes(&nats);
    deliver(&one, ANNA, "kept");
    assert_eq!(count(&two, "anna"), 1);
    let removed = nats.request("$JS.API.STREAM.DELETE.GP_MAIL", "");
    assert!(removed.contains("\"success\":true"), "{removed}");
    await_some("a node has made another stream", || {
        send(&one, ANNA, "later")
            .contains(" accepted")
            .then_some(())
    });
    // A message that cannot be read does not stop the others.
    let stored = nats.request("gp.mail.box.anna.0000000000000000", "?");
    assert!(stored.contains("GP_MAIL"), "{stored}");
    deliver(&two, ANNA, "last");
    for gateway in [&one, &two] {
        await_some("all mail is there", || {
            (count(gateway, "anna") == 3).then_some(())
        });
    }
    assert!(one.log().contains("cannot be read here"), "{}", one.log());
}

#[test]
fn mail_for_which_there_is_no_room_is_refused() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("max_payload: 4096");
    let folder = folder_with_users();
    let settings = format!("{}backbone.mail_bytes_max = \"4MB\"\n", nats.settings(1));
    let one = start(&settings, folder.path());
    // More pieces than the engine stores together.
    let said = send(&one, ANNA, &long_text(50_000));
    assert!(said.contains("<** 552 5.3.4"), "{said}");
    let long = long_text(30_000);
    deliver(&one, ANNA, &long);
    let mail = String::from_utf8(read(&one, "anna", 1)).expect("text");
    assert!(mail.contains(&long.replace('\n', "\r\n")));
    let said = send(&one, BERT, &long);
    assert!(said.contains("<** 452 4.3.1"), "{said}");
    assert_eq!(count(&one, "bert"), 0);
    delete(&one, "anna", 1);
    await_some("there is room again", || {
        send(&one, BERT, &long).contains(" accepted").then_some(())
    });
    assert_eq!(count(&one, "bert"), 1);
}

/// The numbers in the subjects of anna's mail, as poplib reads them.
fn numbers(gateway: &Gateway) -> Vec<usize> {
    let port = gateway.port("pop3");
    let script = format!(
        "import poplib, re\nserver = poplib.POP3('127.0.0.1', {port})\nserver.user('anna')\n\
         server.pass_('secret')\nfor number in range(1, server.stat()[0] + 1):\n    \
         text = b'\\n'.join(server.retr(number)[1])\n    \
         print(re.search(rb'number (\\d+) of', text).group(1).decode())\nserver.quit()"
    );
    let output = run("python3", &["-c", &script], b"");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn each_mail_is_there_once_although_nats_servers_fail() {
    const MAILS: usize = 40;
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    let folders = [folder_with_users(), folder()];
    let settings = [1, 2].map(|number| {
        let all = Nats::settings_of_all(&servers, number);
        // Shorter than an election, so that mail is refused.
        format!("{all}backbone.append_wait_max = \"1s\"\n")
    });
    let plain = SETTINGS.replace("backbone.append_wait_max = \"10s\"\n", "");
    let nodes = [0, 1].map(|place| {
        let settings = format!("{}{plain}", settings[place]);
        let gateway = Gateway::start_in(folders[place].path(), &settings);
        await_some("the node is part of its cluster", || {
            (!readyz(&gateway).contains("degraded")).then_some(())
        });
        gateway
    });
    let padding = long_text(10_000);
    let mut refused = 0;
    for number in 0..MAILS {
        if number % 10 == 5 {
            servers[number / 10 % 3].kill();
        }
        let body = if number % 4 == 0 { &*padding } else { "" };
        await_some("the sender is rid of the mail", || {
            let body = format!("number {number} of {MAILS}\n{body}");
            let is_accepted = send(&nodes[number % 2], ANNA, &body).contains(" accepted");
            refused += usize::from(!is_accepted);
            is_accepted.then_some(())
        });
        if number % 10 == 9 {
            servers[number / 10 % 3].start_again();
            // Without it, the next one would fail while this one does not vote yet.
            servers[0].await_replicas(3);
        }
    }
    eprintln!("{refused} times the sender had to repeat a mail");
    for gateway in &nodes {
        await_some("each mail is there once", || {
            let mut found = numbers(gateway);
            found.sort_unstable();
            found.into_iter().eq(0..MAILS).then_some(())
        });
    }
}
