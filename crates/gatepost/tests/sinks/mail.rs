//! Mail made of messages, sent to a mail server of the test that refuses, hangs and disconnects, to
//! Postfix, and to another Gatepost that asks for a login. Signatures are verified by dkimpy.

use std::path::Path;
use std::time::Duration;

use super::mail_peer::{MailPeer, Reaction, pause};
use super::support::authority::Authority;
use super::support::postfix::Postfix;
use super::support::{
    Client, Gateway, add_user, await_some, command, feed, free_port, post, root, run, swaks,
    text_of,
};
use super::{PLAIN, lines, publish, sinks};

const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

/// A sink for `NAME/#`, and the smarthost.
fn settings(server: &str, name: &str, to: &str, more: &str) -> String {
    format!(
        "{PLAIN}smarthost.server = \"{server}\"\nsmarthost.timeout = \"1s\"\n\
         smarthost.connect_timeout = \"1s\"\n[[sink]]\nname = \"{name}\"\n\
         filters = [\"{name}/#\"]\nretry.first = \"20ms\"\nretry.longest = \"100ms\"\n\
         mail.from = \"gate@gate.example\"\nmail.to = {to}\n{more}\n"
    )
}

fn to_peer(peer: &MailPeer, name: &str, to: &str, more: &str) -> String {
    settings(&format!("smtp://{}", peer.address), name, to, more)
}

/// Whether each signature holds by dkimpy, with these records in DNS.
pub(super) fn verified(mail: &str, records: &[(String, String)]) -> Vec<bool> {
    let packages = root().join(".peers/dkimpy");
    assert!(
        packages.exists(),
        "{} is missing: run tests/install-peers",
        packages.display()
    );
    let script = "import dkim, json, sys\n\
        given = json.load(sys.stdin)\n\
        names = dict(given['records'])\n\
        dns = lambda name, timeout=5: names[name.decode().rstrip('.')].encode()\n\
        mail = given['mail'].encode()\n\
        count = mail.lower().count(b'dkim-signature:')\n\
        print(json.dumps([dkim.DKIM(mail).verify(at, dnsfunc=dns) for at in range(count)]))";
    let mut python = command("python3");
    python.args(["-c", script]).env("PYTHONPATH", packages);
    let given = serde_json::json!({ "mail": mail, "records": records });
    let output = feed(&mut python, given.to_string().as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The name and the text of the record that `gatepost dkim` prints.
pub(super) fn record(action: &str, domain: &str, selector: &str, key: &Path) -> (String, String) {
    let key = key.to_str().expect("UTF-8");
    let arguments = ["--domain", domain, "--selector", selector, "--key", key];
    let output = run(GATEPOST, &[&["dkim", action][..], &arguments].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
    let line = text_of(&output);
    let (name, text) = line.split_once(". IN TXT ").expect("a record");
    let strings: String = text.split('"').skip(1).step_by(2).collect();
    (name.to_owned(), strings)
}

#[test]
fn mail_of_topics_and_replies_arrive_at_postfix_signed_by_both_keys() {
    let postfix = Postfix::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let (ed25519, rsa) = (folder.path().join("ed.pem"), folder.path().join("rsa.pem"));
    let script = "umask 077; openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out";
    let made = run("sh", &["-c", &format!("{script} {}", rsa.display())], b"");
    assert!(made.status.success(), "{}", text_of(&made));
    let records = [
        record("new", "gate.example", "ed", &ed25519),
        record("record", "gate.example", "rsa", &rsa),
    ];
    let again = [
        "--domain",
        "a",
        "--selector",
        "b",
        "--key",
        ed25519.to_str().expect("UTF-8"),
    ];
    let again = run(GATEPOST, &[&["dkim", "new"][..], &again].concat(), b"");
    assert_eq!(again.status.code(), Some(69), "a key is never overwritten");
    let keys = format!(
        "[[smarthost.dkim]]\ndomain = \"gate.example\"\nselector = \"ed\"\nkey = \"{}\"\n\
         [[smarthost.dkim]]\ndomain = \"gate.example\"\nselector = \"rsa\"\nkey = \"{}\"\n\
         [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/autoreply\"]\n",
        ed25519.display(),
        rsa.display()
    );
    let server = format!("smtp://{}", postfix.address());
    let to = "[\"anna@boxes.example\", \"bert@boxes.example\"]";
    let settings = settings(&server, "alarms", to, &keys);
    let gateway = Gateway::start_in(
        folder.path(),
        &format!("listeners.smtp.domains = [\"gate.example\"]\n{settings}"),
    );
    let answer = post(&gateway, "alarms/fire", "Rauch in Küche 4\n.\nFrom here on");
    assert!(answer.contains("200 OK"), "{answer}");
    for user in ["anna", "bert"] {
        let mail = postfix.await_mail(user, 1).remove(0);
        assert_eq!(verified(&mail, &records), [true, true], "{mail}");
        assert!(mail.contains("Subject: alarms/fire\n"), "{mail}");
        let changed = mail.replace("Subject: alarms", "Subject: Alarms");
        assert_ne!(verified(&changed, &records), [true, true], "{changed}");
    }
    let headers = [
        "--header",
        "Subject: hello",
        "--h-To",
        "office@gate.example",
    ];
    let smtp = gateway.address("smtp").to_string();
    let sent = swaks(&smtp, "bert@boxes.example", "office@gate.example", &headers);
    assert!(sent.status.success(), "{}", text_of(&sent));
    let mails = postfix.await_mail("bert", 2);
    let reply = mails
        .iter()
        .find(|mail| mail.contains("Auto-Submitted: auto-replied"));
    let reply = reply.unwrap_or_else(|| panic!("no reply: {mails:?}"));
    assert_eq!(verified(reply, &records), [true, true], "{reply}");
    let listed = sinks(&gateway);
    assert!(listed.contains("mail/outgoing"), "{listed}");
}

#[test]
fn refusals_decide_for_each_recipient_whether_mail_is_repeated_or_given_up() {
    let peer = MailPeer::start(|command, before| match (command, before) {
        ("RCPT TO:<later@boxes.example>", 0 | 1) => Reaction::Say("451 4.7.1 greylisted"),
        ("RCPT TO:<never@boxes.example>", _) => Reaction::Say("550 5.1.1 no such user"),
        _ => Reaction::Take,
    });
    let to = "[\"now@boxes.example\", \"later@boxes.example\", \"never@boxes.example\"]";
    let settings = to_peer(&peer, "alarms", to, "dead_letter = \"dead/alarms\"");
    let gateway = Gateway::start(&settings);
    let mut letters = Client::subscribe(&gateway, "dead/#", "%t %p %P");
    post(&gateway, "alarms/fire", "smoke");
    let letter = letters.await_line("dead/alarms smoke");
    for part in [
        "sink:alarms",
        "never@boxes.example: 550",
        "topic:alarms/fire",
    ] {
        assert!(letter.contains(part), "{part}: {letter}");
    }
    let taken = peer.await_mail(2);
    let recipients: Vec<_> = taken.iter().map(|mail| mail.recipients.join(" ")).collect();
    assert_eq!(recipients, ["now@boxes.example", "later@boxes.example"]);
    assert_eq!(taken[0].field("Message-ID"), taken[1].field("Message-ID"));
    let count_of = |command: &str| peer.commands().iter().filter(|one| *one == command).count();
    assert_eq!(
        count_of("RCPT TO:<never@boxes.example>"),
        1,
        "not sent again"
    );
}

#[test]
fn a_server_that_breaks_off_hangs_or_lies_gets_the_mail_again() {
    let peer = MailPeer::start(|command, before| match (command, before) {
        ("greeting", 0) => Reaction::Say("554 not today"),
        ("greeting", 1) | (".", 0) => Reaction::Drop,
        ("greeting", 2) | (".", 1) => Reaction::Hang,
        ("greeting", 3) => Reaction::Say("hello?"),
        (command, 0) if command.starts_with("MAIL") => Reaction::Drop,
        (".", 2) => Reaction::Say("452 4.3.1 disk full"),
        ("DATA", 4) => Reaction::Say("421 4.3.2 going down"),
        _ => Reaction::Take,
    });
    let gateway = Gateway::start(&to_peer(&peer, "alarms", "[\"anna@boxes.example\"]", ""));
    for payload in ["one", "two"] {
        post(&gateway, "alarms/a", payload);
    }
    let taken = peer.await_mail(2);
    assert!(
        taken[0].body().contains("one") && taken[1].body().contains("two"),
        "{taken:?}"
    );
    let listed = await_some("the sink has recovered", || {
        let listed = sinks(&gateway);
        let is_done = |line: &str| line.starts_with("alarms ") && line.contains("delivered 2");
        listed.lines().any(is_done).then_some(listed)
    });
    assert!(listed.contains("queued 0"), "{listed}");
    assert_eq!(peer.taken().len(), 2, "nothing twice");
}

#[test]
fn a_mail_that_is_refused_for_good_is_a_dead_letter() {
    let peer = MailPeer::start(|command, _| match command {
        "." => Reaction::Say("554 5.7.1 looks like spam"),
        _ => Reaction::Take,
    });
    let more = "dead_letter = \"dead/alarms\"\nmail.digest_every = \"100ms\"";
    let settings = to_peer(&peer, "alarms", "[\"anna@boxes.example\"]", more);
    let gateway = Gateway::start(&settings);
    let mut letters = Client::subscribe(&gateway, "dead/#", "%t %p %P");
    publish(&gateway, "alarms/a", "1", &lines(3));
    for line in lines(3) {
        let letter = letters.await_line(&format!("dead/alarms {line}"));
        assert!(letter.contains("554 5.7.1 looks like spam"), "{letter}");
    }
}

#[test]
fn a_digest_contains_the_messages_of_its_period() {
    let peer = MailPeer::start(|_, _| Reaction::Take);
    let more = "mail.digest_every = \"2s\"\nmail.digest_messages_max = 40";
    let settings = to_peer(&peer, "alarms", "[\"anna@boxes.example\"]", more);
    let gateway = Gateway::start(&settings);
    post(&gateway, "alarms/first", "at once");
    peer.await_mail(1);
    publish(&gateway, "alarms/more", "1", &lines(60));
    let taken = peer.await_mail(3);
    for pair in taken.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(1_900), "{gap:?}");
    }
    assert_eq!(taken[1].field("Subject"), "alarms/more (and 39 more)");
    assert_eq!(taken[2].field("Subject"), "alarms/more (and 19 more)");
    let of = |text: &str| -> Vec<String> {
        let body = text.lines().filter(|line| line.starts_with("line "));
        body.map(str::to_owned).collect()
    };
    assert_eq!(
        [of(taken[1].body()), of(taken[2].body())].concat(),
        lines(60)
    );
}

#[test]
fn killed_at_any_moment_no_mail_is_lost() {
    let peer = MailPeer::start(|command, _| {
        if command == "." {
            pause();
        }
        Reaction::Take
    });
    let folder = tempfile::tempdir().expect("a folder");
    let more = "mail.subject = \"{{ payload }}\"";
    let settings = to_peer(&peer, "alarms", "[\"anna@boxes.example\"]", more);
    let mut gateway = Gateway::start_in(folder.path(), &settings);
    let sent = lines(150);
    publish(&gateway, "alarms/a", "1", &sent);
    for arrived in [20, 70] {
        peer.await_mail(arrived);
        gateway.kill();
        gateway = Gateway::start_in(folder.path(), &settings);
    }
    let taken = await_some("the last line", || {
        let taken = peer.taken();
        let is_last = taken
            .last()
            .is_some_and(|mail| mail.field("Subject") == "line 149");
        is_last.then_some(taken)
    });
    // The mail under way at a kill may be repeated, whatever the disk is busy with. Another
    // connection carries the repetition, so the server may take it after the next mail.
    let mut subjects: Vec<String> = taken.iter().map(|mail| mail.field("Subject")).collect();
    let mut seen = std::collections::BTreeSet::new();
    subjects.retain(|subject| seen.insert(subject.clone()));
    assert_eq!(subjects, sent, "in order");
    let repeated = taken.len() - sent.len();
    assert!(repeated <= 2, "{repeated} repeated");
    drop(gateway);
}

#[test]
fn a_login_goes_over_tls_alone_by_each_mechanism() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("server", "localhost", &["localhost", "127.0.0.1"]);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let encrypted_port = free_port();
    let server = Gateway::start(&format!(
        "{PLAIN}listeners.smtp.login_required = true\nlisteners.smtp.domains = [\"in.example\"]\n\
         [listeners.smtp.tls]\nbind = [\"127.0.0.1:{encrypted_port}\"]\ncert = \"{}\"\n\
         key = \"{}\"\n",
        file("server.pem"),
        file("server.key"),
    ));
    assert!(
        add_user(&server, "gate", "open sesame", &[])
            .status
            .success()
    );
    std::fs::write(file("password"), "open sesame\n").expect("written");
    std::fs::write(file("wrong"), "open barley\n").expect("written");
    for name in ["password", "wrong"] {
        let changed = run("chmod", &["600", &file(name)], b"");
        assert!(changed.status.success(), "{}", text_of(&changed));
    }
    let with = |address: &str, password: &str, number: usize| {
        let mut text = settings(
            address,
            "alarms",
            &format!("[\"box{number}@in.example\"]"),
            "",
        );
        text.insert_str(0, "smarthost.user = \"gate\"\n");
        text.insert_str(
            0,
            &format!("smarthost.password_file = \"{}\"\n", file(password)),
        );
        text.insert_str(
            0,
            &format!("smarthost.tls_ca = \"{}\"\n", file("authority.pem")),
        );
        text
    };
    let plain = server.address("smtp");
    let starting = format!("smtp://localhost:{}", plain.port());
    let encrypted = format!("smtps://localhost:{encrypted_port}");
    for (number, address) in [&starting, &encrypted].into_iter().enumerate() {
        let client = Gateway::start(&with(address, "password", number));
        post(&client, "alarms/a", "hello");
        await_some("the mail is taken", || {
            let listed = sinks(&client);
            let is_taken = |line: &str| line.starts_with("alarms ") && line.contains("delivered 1");
            listed.lines().any(is_taken).then_some(())
        });
    }
    let config = folder.path().join("check.toml");
    let check = |settings: &str| {
        std::fs::write(&config, settings).expect("written");
        let path = config.to_str().expect("UTF-8");
        let output = run(GATEPOST, &["check", "--connect", "--config", path], b"");
        (output.status.code(), text_of(&output))
    };
    let (code, text) = check(&with(&encrypted, "password", 0));
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(&format!("{encrypted} can be reached")),
        "{text}"
    );
    let (code, text) = check(&with(&encrypted, "wrong", 0));
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("535"), "{text}");
    let no_authority = with(&starting, "password", 0).replace("smarthost.tls_ca", "#");
    let (code, text) = check(&no_authority);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("TLS with localhost fails"), "{text}");
}

#[test]
fn logins_by_plain_and_login_are_understood_by_other_servers() {
    let peer = MailPeer::start(|command, before| match (command, before) {
        ("EHLO localhost", 0) => Reaction::Say("250-mail.example\r\n250 AUTH LOGIN PLAIN"),
        ("EHLO localhost", _) => Reaction::Say("250-mail.example\r\n250 AUTH LOGIN"),
        ("AUTH PLAIN AGdhdGUAc2VzYW1l" | "c2VzYW1l", _) => Reaction::Say("235 2.7.0 welcome"),
        ("AUTH LOGIN", _) => Reaction::Say("334 VXNlcm5hbWU6"),
        ("Z2F0ZQ==", _) => Reaction::Say("334 UGFzc3dvcmQ6"),
        (".", 0) => Reaction::Drop,
        _ => Reaction::Take,
    });
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password");
    std::fs::write(&password, "sesame\n").expect("written");
    let path = password.to_str().expect("UTF-8");
    assert!(run("chmod", &["600", path], b"").status.success());
    let login = format!(
        "smarthost.user = \"gate\"\nsmarthost.tls = \"off\"\nsmarthost.password_file = \"{path}\"\n"
    );
    let gateway = Gateway::start(&format!(
        "{login}{}",
        to_peer(&peer, "alarms", "[\"anna@boxes.example\"]", "")
    ));
    post(&gateway, "alarms/a", "hello");
    peer.await_mail(1);
    let commands = peer.commands();
    for command in ["AUTH PLAIN AGdhdGUAc2VzYW1l", "c2VzYW1l"] {
        assert!(
            commands.iter().any(|one| one == command),
            "{command}: {commands:?}"
        );
    }
}
