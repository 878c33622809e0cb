//! The journal and the quarantine of all nodes, asked of any of them, with curl.

use std::path::Path;

use serde_json::Value;

use super::nats::{self, Nats};
use super::refusals::run_with_settings;
use super::support::{Client, Gateway, add_user, await_some, run, swaks, text_of};
use super::{await_joined, metric};

/// Keeps mail whose subject begins with `keep`.
const JUDGE: &str = r"
return function(message)
    local subject = message:header('Subject') or ''
    return string.sub(subject, 1, 4) == 'keep' and 'quarantine' or 'accept'
end";
const MAIL: &str = "listeners.lmtp.bind = []\nlisteners.milter.bind = []\n\
    listeners.spamd.bind = []\nlisteners.call.bind = []\nlisteners.pop3.bind = []\n\
    rules.paths = []\n[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
    run = [\"/judge\"]\n";

/// A node that takes mail, in this folder.
fn mail_node(folder: &Path, servers: &[Nats], number: u8) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    std::fs::write(procedures.join("judge.luau"), JUDGE).expect("written");
    let settings = Nats::settings_of_all(servers, number);
    Gateway::start_in(folder, &format!("{settings}{MAIL}"))
}

fn two_mail_nodes(servers: &[Nats]) -> (Gateway, Gateway) {
    let [one, two] = [1, 2].map(|number| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut node = mail_node(folder.path(), servers, number);
        node.keep(folder);
        node
    });
    await_joined(&one, 1);
    await_joined(&two, 1);
    (one, two)
}

/// Three nodes, each with a folder that outlives it.
fn three_nodes(servers: &[Nats]) -> [(Gateway, tempfile::TempDir); 3] {
    let nodes = [1, 2, 3].map(|number| {
        let folder = tempfile::tempdir().expect("a folder");
        (mail_node(folder.path(), servers, number), folder)
    });
    for (node, _) in &nodes {
        await_joined(node, 2);
    }
    // On a busy machine, the NATS servers may still be choosing their leaders.
    for (node, _) in &nodes {
        await_some("the log stores messages", || {
            let port = node.port("mqtt");
            let arguments = [
                "-p", &port, "-V", "5", "-t", "alarms/x", "-m", "x", "-q", "1",
            ];
            let output = run("mosquitto_pub", &[&arguments[..], &["-d"]].concat(), b"");
            let said = text_of(&output);
            (said.contains("rc0") || said.contains("RC:0")).then_some(())
        });
    }
    // Each node knows the members too.
    for (node, _) in &nodes {
        await_some("each node answers", || {
            let answer = json(node, "/admin/messages", &[]);
            (answer["unanswered"] == Value::Array(Vec::new())).then_some(())
        });
    }
    nodes
}

fn send(gateway: &Gateway, sender: &str, subject: &str) {
    let server = gateway.address("smtp").to_string();
    let subject = format!("Subject: {subject}");
    let options = ["--header", subject.as_str(), "--body", "hello"];
    let output = swaks(&server, sender, "alarms+fire@localhost", &options);
    assert!(output.status.success(), "{}", text_of(&output));
}

fn curl(gateway: &Gateway, path: &str, more: &[&str]) -> String {
    let url = gateway.url(path);
    let output = run("curl", &[&["-sS"], more, &[url.as_str()]].concat(), b"");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(gateway: &Gateway, path: &str, more: &[&str]) -> Value {
    let text = curl(gateway, path, more);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

/// A list that all nodes have answered, which a busy machine may not do at the first attempt.
fn whole_list(gateway: &Gateway, path: &str) -> Value {
    await_some("all nodes answer", || {
        let list = json(gateway, path, &[]);
        let unanswered = list["unanswered"].as_array().expect("a list");
        unanswered.is_empty().then_some(list)
    })
}

/// Subject and node of each message.
fn subjects(list: &Value) -> Vec<(String, u64)> {
    let messages = list["messages"].as_array().expect("messages").iter();
    let entry = |message: &Value| {
        let subject = message["subject"].as_str().expect("a subject").to_owned();
        (subject, message["node"].as_u64().expect("a node"))
    };
    messages.map(entry).collect()
}

fn id_of(list: &Value, subject: &str) -> String {
    let mut messages = list["messages"].as_array().expect("messages").iter();
    let found = messages.find(|message| message["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("no {subject} in {list}"));
    found["id"].as_str().expect("an id").to_owned()
}

#[test]
fn the_journal_of_all_nodes_is_searched_from_any() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let nodes = three_nodes(&servers);
    let [(one, _), (two, _), (three, _)] = &nodes;
    let mut expected = Vec::new();
    for round in 0..4 {
        for (number, (node, _)) in (1..).zip(&nodes) {
            let subject = format!("mail {round} at {number}");
            send(node, "anna@example.org", &subject);
            expected.push((subject, number));
        }
    }
    expected.reverse();
    let found = whole_list(two, "/admin/messages?sender=ANNA&count=100");
    assert_eq!(subjects(&found), expected);
    assert!(found["next"].is_null(), "{found}");
    // Pages over all nodes.
    let (mut paged, mut before) = (Vec::new(), String::new());
    loop {
        let page = whole_list(one, &format!("/admin/messages?count=5&before={before}"));
        paged.extend(subjects(&page));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut before),
            None => break,
        }
    }
    assert_eq!(paged, expected);
    // One node, which is another one.
    let of_three = whole_list(one, "/admin/messages?node=3");
    assert_eq!(of_three["messages"].as_array().map(Vec::len), Some(4));
    assert!(subjects(&of_three).iter().all(|(_, node)| *node == 3));
    for (wrong, said) in [("9", "has no node 9"), ("x", "from 1 to 255")] {
        let path = format!("/admin/messages?node={wrong}");
        let refused = curl(one, &path, &["-w", " %{http_code}"]);
        assert!(
            refused.ends_with(" 400") && refused.contains(said),
            "{refused}"
        );
    }
    // The story, with the steps that only the node of the message has.
    let id = id_of(&found, "mail 0 at 3");
    let story = await_some("node 3 answers", || {
        let story = json(one, &format!("/admin/messages/{id}"), &[]);
        (story["subject"] == "mail 0 at 3").then_some(story)
    });
    assert_eq!(story["node"], 3, "{story}");
    assert!(story["steps"].is_array(), "{story}");
    let elsewhere = curl(
        one,
        &format!("/admin/messages/{id}?node=2"),
        &["-w", "%{http_code}"],
    );
    assert!(elsewhere.ends_with("404"), "{elsewhere}");
    assert_eq!(metric(three, "gatepost_backbone_malformed_total"), 0);
}

#[test]
fn a_node_that_does_not_answer_is_named() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let [(one, _of_one), (two, folder), (three, _of_three)] = three_nodes(&servers);
    for (number, node) in (1..).zip([&one, &two, &three]) {
        send(node, "anna@example.org", &format!("mail at {number}"));
    }
    let id = id_of(&whole_list(&one, "/admin/messages"), "mail at 2");
    let expect_unanswered = |subjects_left: &[&str]| {
        let left = await_some("node 2 is named, and no other", || {
            let list = json(&one, "/admin/messages", &[]);
            let unanswered = list["unanswered"].as_array().expect("a list");
            let is_named = unanswered.len() == 1 && unanswered[0]["node"] == 2;
            is_named.then_some(list)
        });
        assert_eq!(left["unanswered"][0]["reason"], "node 2 did not answer");
        let left: Vec<String> = subjects(&left)
            .into_iter()
            .map(|(subject, _)| subject)
            .collect();
        assert_eq!(left, subjects_left);
        let story = format!("/admin/messages/{id}");
        let refused = curl(&one, &story, &["-w", " %{http_code}"]);
        assert!(
            refused.ends_with(" 503") && refused.contains("node 2 did not answer"),
            "{refused}"
        );
    };
    // It stands still, and is still registered.
    two.signal("STOP");
    expect_unanswered(&["mail at 3", "mail at 1"]);
    two.signal("CONT");
    whole_list(&one, "/admin/messages");
    // It has left the cluster: nothing names it but the list of members.
    two.terminate();
    expect_unanswered(&["mail at 3", "mail at 1"]);
    let two = mail_node(folder.path(), &servers, 2);
    await_joined(&two, 2);
    assert_eq!(subjects(&whole_list(&one, "/admin/messages")).len(), 3);
    // It does not return.
    two.terminate();
    expect_unanswered(&["mail at 3", "mail at 1"]);
    let settings = Nats::settings_of_all(&servers, 1);
    let (code, said) = run_with_settings(&["nodes", "forget", "2"], &settings);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(subjects(&whole_list(&one, "/admin/messages")).len(), 2);
}

#[test]
fn without_the_nats_servers_a_node_says_that_it_asked_no_other() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = [Nats::start("")];
    let folder = tempfile::tempdir().expect("a folder");
    let one = mail_node(folder.path(), &servers, 1);
    await_joined(&one, 0);
    servers[0].kill();
    let list = await_some("the loss is noticed", || {
        let list = json(&one, "/admin/messages", &[]);
        let unanswered = list["unanswered"].as_array().expect("a list");
        (!unanswered.is_empty()).then_some(list)
    });
    let reason = list["unanswered"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("not part of its cluster"), "{list}");
    let own = json(&one, "/admin/messages?node=1", &[]);
    assert_eq!(own["unanswered"], Value::Array(Vec::new()), "{own}");
}

#[test]
fn a_server_in_no_cluster_answers_as_before() {
    let gateway = Gateway::start("rules.paths = []\n");
    let answer = json(&gateway, "/admin/messages", &[]);
    assert!(answer["unanswered"].is_null(), "{answer}");
    let chosen = json(&gateway, "/admin/messages?node=2", &[]);
    assert_eq!(chosen, answer);
}

#[test]
fn only_administrators_reach_other_nodes() {
    if nats::program().is_none() {
        return;
    }
    let servers = [Nats::start("")];
    let (one, two) = two_mail_nodes(&servers);
    send(&two, "anna@example.org", "keep this");
    let id = id_of(&json(&two, "/admin/quarantine?node=2", &[]), "keep this");
    let config = one.folder.join("gatepost.toml").display().to_string();
    for (name, more) in [("root", &["--admin"][..]), ("bert", &[])] {
        let options = [&["--config", &config], more].concat();
        let added = add_user(&one, name, &format!("{name}-secret"), &options);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    let with = |login: &str, method: &str, path: &str| {
        curl(
            &one,
            path,
            &["-u", login, "-X", method, "-w", " %{http_code}"],
        )
    };
    await_some("the users are known", || {
        let answer = curl(&one, "/admin/messages", &["-w", " %{http_code}"]);
        answer.ends_with(" 401").then_some(())
    });
    let allowed = with("root:root-secret", "GET", "/admin/messages?node=2");
    assert!(allowed.ends_with(" 200"), "{allowed}");
    for (method, path) in [
        ("GET", "/admin/messages".to_owned()),
        ("GET", "/admin/messages?node=2".to_owned()),
        ("GET", format!("/admin/quarantine/{id}/source")),
        ("DELETE", format!("/admin/quarantine/{id}")),
    ] {
        for login in ["bert:bert-secret", "root:wrong"] {
            let refused = with(login, method, &path);
            let is_refused = refused.ends_with(" 403") || refused.ends_with(" 401");
            assert!(is_refused, "{login} {path}: {refused}");
        }
    }
    let login = ["-u", "root:root-secret"];
    await_some("the other node knows the users", || {
        let answer = curl(
            &two,
            "/admin/messages",
            &[login[0], login[1], "-w", " %{http_code}"],
        );
        answer.ends_with(" 200").then_some(())
    });
    let kept = json(&two, "/admin/quarantine?node=2", &login);
    assert_eq!(subjects(&kept).len(), 1);
}

/// Waits until a node has so many messages in quarantine.
fn await_quarantined(node: &Gateway, count: u64) {
    await_some("the node has all messages in quarantine", || {
        let list = json(node, "/admin/quarantine", &[]);
        (list["total"] == count).then_some(())
    });
}

#[test]
fn the_quarantine_of_all_nodes_is_one_list() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let nodes = three_nodes(&servers);
    let [(one, _), (two, _), (three, _)] = &nodes;
    let senders = ["carl@x.example", "anna@x.example", "bert@x.example"];
    let mut expected = Vec::new();
    for round in 0..2 {
        for ((number, (node, _)), sender) in (1..).zip(&nodes).zip(senders) {
            let subject = format!("keep {round} at {number}");
            send(node, sender, &subject);
            expected.push((subject, number));
        }
    }
    for (node, _) in &nodes {
        await_quarantined(node, 6);
    }
    let oldest = whole_list(one, "/admin/quarantine?sort=oldest");
    assert_eq!(subjects(&oldest), expected);
    assert_eq!((&oldest["found"], &oldest["total"]), (&6.into(), &6.into()));
    expected.reverse();
    // Each node has the entries in its journal, and they are listed once.
    let journal = whole_list(two, "/admin/messages?search=keep");
    assert_eq!(subjects(&journal), expected);
    let second = whole_list(two, "/admin/quarantine?skip=2&count=3");
    assert_eq!(subjects(&second), expected[2..5]);
    let by_sender = whole_list(three, "/admin/quarantine?sort=sender");
    let nodes_by_sender: Vec<u64> = subjects(&by_sender).iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes_by_sender, [2, 2, 3, 3, 1, 1]);
    let found = whole_list(three, "/admin/quarantine?search=anna");
    assert_eq!((&found["found"], &found["total"]), (&2.into(), &6.into()));
    // The original, and actions, which any node carries out.
    let path = |subject: &str| format!("/admin/quarantine/{}", id_of(&oldest, subject));
    let source = curl(one, &format!("{}/source", path("keep 0 at 2")), &[]);
    assert!(source.contains("Subject: keep 0 at 2"), "{source}");
    let whole = json(one, &path("keep 0 at 2"), &[]);
    assert_eq!(whole["node"], 2, "{whole}");
    assert!(
        whole["text"]
            .as_str()
            .is_some_and(|text| text.contains("hello"))
    );
    let learned = json(
        one,
        &format!("{}/learn?as=ham", path("keep 0 at 2")),
        &["-X", "POST"],
    );
    assert_eq!(learned["learned"], "new", "{learned}");
    let mut reader = Client::subscribe(one, "alarms/#", "%t");
    let released = json(
        one,
        &format!("{}/release", path("keep 0 at 2")),
        &["-X", "POST"],
    );
    assert_eq!(released["verdict"], "accept", "{released}");
    reader.await_line("alarms/fire");
    let allow = format!("{}/allow-sender", path("keep 0 at 3"));
    assert_eq!(
        json(one, &allow, &["-X", "POST"])["sender"],
        "bert@x.example"
    );
    let deleted = curl(
        one,
        &path("keep 0 at 3"),
        &["-X", "DELETE", "-w", "%{http_code}"],
    );
    assert_eq!(deleted, "204");
    let gone = curl(
        one,
        &path("keep 0 at 3"),
        &["-X", "DELETE", "-w", " %{http_code}"],
    );
    assert!(gone.ends_with(" 404"), "{gone}");
    assert_eq!(whole_list(one, "/admin/quarantine")["total"], 4);
    let senders = json(three, "/admin/senders", &[]);
    assert_eq!(senders["senders"][0], "bert@x.example", "{senders}");
    let changes = json(one, "/admin/changes", &[]).to_string();
    assert!(changes.contains("/release"), "{changes}");
}

#[test]
fn the_command_acts_on_the_quarantine_of_all_nodes_and_large_mail_comes_in_pieces() {
    if nats::program().is_none() {
        return;
    }
    let servers = [Nats::start("")];
    let (one, two) = two_mail_nodes(&servers);
    // More than a message of the NATS servers has.
    let body = "0123456789abcdef0123456789abcdef0123456789abcdef012345678\r\n".repeat(60_000);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, &body).expect("written");
    let server = two.address("smtp").to_string();
    let data = format!("@{}", file.display());
    let options = ["--header", "Subject: keep it", "--body", &data];
    let sent = swaks(&server, "a@x.example", "alarms+fire@localhost", &options);
    assert!(sent.status.success(), "{}", text_of(&sent));
    await_quarantined(&one, 1);
    let list = whole_list(&one, "/admin/quarantine");
    let id = id_of(&list, "keep it");
    let source = await_some("the original comes", || {
        let source = curl(&one, &format!("/admin/quarantine/{id}/source"), &[]);
        (source.len() > body.len()).then_some(source)
    });
    assert!(source.contains(&body), "{} bytes", source.len());
    let url = one.url("");
    let gatepost = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_gatepost");
        let arguments = [&["quarantine"], arguments, &["--url", &url]].concat();
        text_of(&run(program, &arguments, b""))
    };
    let listed = gatepost(&["list"]);
    assert!(listed.contains(&id), "{listed}");
    assert!(gatepost(&["delete", &id]).contains("deleted"));
    assert_eq!(whole_list(&one, "/admin/quarantine")["total"], 0);
}
