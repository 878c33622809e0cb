//! Mailboxes with clients of other projects: Python's poplib, mpop and fetchmail.

mod support;

use std::path::Path;

use support::{Gateway, command, run, swaks, text_of};

fn gateway(folder: &Path) -> Gateway {
    gateway_with(folder, "")
}

/// Settings before the first table.
fn gateway_with(folder: &Path, more: &str) -> Gateway {
    let settings = r#"
rules.paths = []
listeners.smtp.domains = ["people.example", "other.example"]
[[listeners.smtp.routes]]
recipients = "*@people.example"
mailbox = "{user}"
[[listeners.smtp.routes]]
recipients = "*@other.example"
topic = "others/{user}"
[[scope]]
path = "/strict"
recipients = ["*+odd@people.example", "*+odd@other.example"]
run = ["/odd"]
"#;
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function() return 'quarantine' end";
    std::fs::write(procedures.join("odd.luau"), code).expect("written");
    let data = format!("data={}", folder.join("gatepost-data").display());
    for user in ["anna", "bert"] {
        let mut arguments = vec!["user", "add", user, "--set", &data];
        if user == "bert" {
            arguments.push("--admin");
        }
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(output.status.success(), "{}", text_of(&output));
    }
    Gateway::start_in(folder, &format!("{more}{settings}"))
}

#[test]
fn mail_for_users_that_do_not_exist_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path());
    let server = gateway.address("smtp").to_string();
    let to = "anna@people.example,nobody@people.example";
    let said = text_of(&swaks(&server, "otto@example.org", to, &[]));
    assert!(said.contains("<** 550 5.1.1 no such user here"), "{said}");
    assert!(said.contains("accepted"), "{said}");
}

#[test]
fn a_full_mailbox_refuses_mail_until_some_is_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway_with(folder.path(), "listeners.smtp.mailbox_max = \"20kB\"");
    let server = gateway.address("smtp").to_string();
    let body = "A line of seventy bytes, of which there are enough for ten kB of it.\n".repeat(150);
    let try_send = || {
        let options = ["--body", &body];
        text_of(&swaks(
            &server,
            "otto@example.org",
            "anna@people.example",
            &options,
        ))
    };
    for number in 0..2 {
        let said = try_send();
        assert!(said.contains("accepted"), "{number}: {said}");
    }
    let said = try_send();
    assert!(said.contains("<** 452 4.2.2 the mailbox is full"), "{said}");
    let script = "server = login('anna')\nassert server.stat()[0] == 2\n\
                  server.dele(1)\nserver.quit()\nprint('done')\n";
    assert!(poplib(&gateway, script).contains("done"));
    let said = try_send();
    assert!(said.contains("accepted"), "{said}");
}

fn send(gateway: &Gateway, to: &str, subject: &str) {
    let server = gateway.address("smtp").to_string();
    let subject = format!("Subject: {subject}");
    let body = ".hidden dot\n.\nlast line";
    let options = ["--header", &subject, "--body", body];
    let output = swaks(&server, "otto@example.org", to, &options);
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Runs a script with poplib; `server` is connected, and `login(name)` logs in as soon as the
/// user, made beside the server, is known to it.
fn poplib(gateway: &Gateway, script: &str) -> String {
    let port = gateway.port("pop3");
    let whole = format!(
        "import poplib, time\n\
         def login(name, password='secret'):\n    \
         for attempt in range(600):\n        \
         server = poplib.POP3('127.0.0.1', {port})\n        \
         server.user(name)\n        \
         try:\n            server.pass_(password)\n            return server\n        \
         except poplib.error_proto as error:\n            last = error\n            \
         time.sleep(0.1)\n    raise last\n{script}"
    );
    let output = run("python3", &["-c", &whole], b"");
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

#[test]
fn poplib_reads_marks_and_empties_a_mailbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path());
    send(&gateway, "anna@people.example", "one");
    send(
        &gateway,
        "Anna+lists@people.example,bert@people.example",
        "two",
    );
    let said = poplib(
        &gateway,
        r"
server = login('anna')
count, size = server.stat()
assert count == 2, count
listed = [line.split() for line in server.list()[1]]
assert sum(int(entry[1]) for entry in listed) == size, listed
uids = [line.split()[1] for line in server.uidl()[1]]
assert len(set(uids)) == 2
first = b'\n'.join(server.retr(1)[1])
assert b'Return-Path: <otto@example.org>' in first, first
assert b'Subject: one' in first and b'\n.hidden dot\n.\nlast line' in first, first
top = b'\n'.join(server.top(1, 1)[1])
assert b'.hidden dot' in top and b'last line' not in top, top
capabilities = server.capa()
assert {'TOP', 'UIDL', 'USER', 'SASL'} <= set(capabilities), capabilities
# A mailbox is one client's at a time.
try:
    other = poplib.POP3('127.0.0.1', server.port)
    other.user('anna')
    other.pass_('secret')
    assert False, 'two at once'
except poplib.error_proto as error:
    assert b'[IN-USE]' in error.args[0], error
server.dele(1)
assert server.stat()[0] == 1
server.rset()
assert server.stat()[0] == 2
server.dele(1)
server.close()                      # not quit: nothing is removed
server = login('anna')
assert server.stat()[0] == 2
server.dele(1)
server.quit()
server = login('anna')
assert [line.split()[1] for line in server.uidl()[1]] == uids[1:]
try:
    server.retr(2)
    assert False
except poplib.error_proto as error:
    assert b'no such message' in error.args[0]
server.quit()
print('done')
",
    );
    assert!(said.contains("done"), "{said}");

    // The dashboard's story of a mail names the mailboxes that contain it.
    let ask = |path: &str| -> serde_json::Value {
        let arguments = ["-s", "-u", "bert:secret", &gateway.url(path)];
        serde_json::from_str(&text_of(&run("curl", &arguments, b""))).expect("JSON")
    };
    let found = ask("/admin/messages?search=two");
    let id = found["messages"][0]["id"].as_str().expect("an id");
    let story = ask(&format!("/admin/messages/{id}"));
    for (step, user) in [(0, "anna"), (1, "bert")] {
        let step = &story["steps"][step];
        assert_eq!(
            (&step["client"], &step["kind"]),
            (&user.into(), &"mailbox".into())
        );
        assert_eq!(step["outcome"], "kept", "{story}");
    }
}

#[test]
fn a_quarantine_is_a_maildrop_to_look_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path());
    send(&gateway, "anna+odd@people.example", "odd one");
    send(&gateway, "bert+odd@people.example", "not hers");
    send(&gateway, "anna+odd@other.example", "another anna's");
    let said = poplib(
        &gateway,
        r"
server = login('anna+quarantine')
assert server.stat()[0] == 1
assert b'Subject: odd one' in b'\n'.join(server.retr(1)[1])
try:
    server.dele(1)
    assert False
except poplib.error_proto as error:
    assert b'read-only' in error.args[0]
server.quit()
server = login('anna')
assert server.stat()[0] == 0
server.quit()
print('done')
",
    );
    assert!(said.contains("done"), "{said}");
}

/// The most memory that the server ever had, bytes.
fn most_held(gateway: &Gateway) -> usize {
    let path = format!("/proc/{}/status", gateway.pid());
    let status = std::fs::read_to_string(path).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    1024 * kibibytes
        .and_then(|text| text.parse::<usize>().ok())
        .expect("a number")
}

#[test]
fn who_asks_for_much_at_once_has_to_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path());
    let mail = folder.path().join("mail");
    let text = "x".repeat(998) + "\r\n";
    let text = format!("Subject: large\r\n\r\n{}", text.repeat(2_000));
    std::fs::write(&mail, text).expect("written");
    let server = gateway.address("smtp").to_string();
    let data = format!("@{}", mail.display());
    let to = "anna@people.example";
    let output = swaks(&server, "otto@example.org", to, &["--data", &data]);
    assert!(output.status.success(), "{}", text_of(&output));
    poplib(&gateway, "login('anna').quit()");
    let before = most_held(&gateway);
    // 200 MB are arguments for before any of it is read.
    let said = poplib(
        &gateway,
        r"
server = login('anna')
server.sock.sendall(b'RETR 1\r\n' * 100)
lengths = {len(server._getlongresp()[1]) for answer in range(100)}
assert len(lengths) == 1 and lengths.pop() > 2000, lengths
server.quit()
print('done')
",
    );
    assert!(said.contains("done"), "{said}");
    // The kernel counts in coarse steps for each thread, so the later figure may be the lower one.
    let held = most_held(&gateway).saturating_sub(before);
    assert!(held < 64 << 20, "{held} bytes held");
}

#[test]
fn mpop_and_fetchmail_collect_the_mail() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path());
    // Until the users are known.
    poplib(&gateway, "login('anna').quit()\nlogin('bert').quit()\n");
    let port = gateway.port("pop3");
    let both = "anna@people.example,bert@people.example";
    for subject in ["first", "second", "third"] {
        send(&gateway, both, subject);
    }
    let maildir = folder.path().join("Maildir");
    for part in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(maildir.join(part)).expect("a folder");
    }
    let delivery = format!("--delivery=maildir,{}", maildir.display());
    let uidls = format!("--uidls-file={}", folder.path().join("uidls").display());
    for mechanism in ["plain", "scram-sha-256", "user"] {
        let auth = format!("--auth={mechanism}");
        let arguments = [
            "--host=127.0.0.1",
            &format!("--port={port}"),
            "--user=anna",
            "--passwordeval=echo secret",
            "--keep=on",
            "--tls=off",
            "--received-header=off",
            &auth,
            &delivery,
            &uidls,
        ];
        let output = run("mpop", &arguments, b"");
        assert!(output.status.success(), "{mechanism}: {}", text_of(&output));
    }
    let collected = std::fs::read_dir(maildir.join("new"))
        .expect("a folder")
        .count();
    assert_eq!(collected, 3, "each once, by its UIDL");

    let control = folder.path().join("fetchmailrc");
    let box_file = folder.path().join("collected");
    let text = format!(
        "poll 127.0.0.1 service {port} protocol pop3 auth password username bert password secret \
         mda \"cat >> {}\" nokeep sslproto ''\n",
        box_file.display()
    );
    std::fs::write(&control, text).expect("written");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&control, std::fs::Permissions::from_mode(0o600)).expect("private");
    let output = command("fetchmail")
        .env("HOME", folder.path())
        .env("FETCHMAILHOME", folder.path())
        .args(["--nosyslog", "--nodetach", "-v", "-f"])
        .arg(&control)
        .output()
        .expect("fetchmail runs");
    assert!(output.status.success(), "{}", text_of(&output));
    let mail = std::fs::read_to_string(&box_file).expect("mail");
    assert_eq!(mail.matches("Subject: ").count(), 3, "{mail}");
    poplib(
        &gateway,
        "server = login('bert')\nassert server.stat()[0] == 0\nserver.quit()\n",
    );
}
