//! Quarantined mail: shown, learned, released, deleted, and its sender allowed.

use super::support::{Client, Gateway, add_user, await_some, run, swaks, text_of};
use super::{STATUS, curl, json};

const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const QUARANTINE: &str = "procedure.\"/spamcheck\".action = \"quarantine\"\n";

fn send(gateway: &Gateway, subject: &str) {
    let server = gateway.address("smtp").to_string();
    let subject = format!("Subject: {subject}");
    let options = ["--header", &subject, "--body", GTUBE];
    let output = swaks(&server, "a@example.org", "alarms+fire@localhost", &options);
    assert!(output.status.success(), "{}", text_of(&output));
}

fn kept(gateway: &Gateway) -> Vec<serde_json::Value> {
    let answer = json(gateway, "/admin/quarantine", &[]);
    answer["messages"].as_array().expect("a list").clone()
}

#[test]
fn a_quarantined_mail_is_looked_at_learned_released_and_deleted() {
    let gateway = Gateway::start(QUARANTINE);
    send(&gateway, "First <b>offer</b>");
    send(&gateway, "Second offer");
    let messages = kept(&gateway);
    assert_eq!(messages.len(), 2, "{messages:?}");
    // Newest first.
    let (second, first) = (&messages[0], &messages[1]);
    assert_eq!(first["subject"], "First <b>offer</b>");
    let path = format!("/admin/quarantine/{}", first["id"].as_str().expect("an id"));
    let whole = json(&gateway, &path, &[]);
    assert!(
        whole["text"]
            .as_str()
            .is_some_and(|text| text.contains("GTUBE")),
        "{whole}"
    );
    assert!(
        whole["source"]
            .as_str()
            .is_some_and(|text| text.contains("Received:")),
        "{whole}"
    );
    let source = curl(&gateway, &format!("{path}/source"), &["--include"]);
    assert!(
        source
            .to_lowercase()
            .contains("content-disposition: attachment"),
        "{source}"
    );

    let learned = json(&gateway, &format!("{path}/learn?as=ham"), &["-X", "POST"]);
    assert_eq!(learned["learned"], "new");
    let learned = json(&gateway, &format!("{path}/learn?as=spam"), &["-X", "POST"]);
    assert_eq!(learned["learned"], "changed");

    let port = gateway.port("mqtt");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &port, "-t", "alarms/#", "-q", "1", "-d"],
    );
    subscriber.await_line("Subscribed");
    let released = json(&gateway, &format!("{path}/release"), &["-X", "POST"]);
    assert_eq!(released["verdict"], "accept");
    assert_eq!(released["subscribers"], 1);
    subscriber.await_line("First <b>offer</b>");
    let story = json(&gateway, &path.replace("quarantine", "messages"), &[]);
    assert_eq!(story["action"], "accept");
    assert!(
        story["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("released"))
    );
    let story = await_some("the subscriber's acknowledgement", || {
        let story = json(&gateway, &path.replace("quarantine", "messages"), &[]);
        (story["steps"][0]["outcome"] == "acknowledged").then_some(story)
    });
    assert_eq!(story["steps"][0]["topic"], "alarms/fire", "{story}");
    assert_eq!(story["steps"][0]["kind"], "mqtt", "{story}");

    let path = format!(
        "/admin/quarantine/{}",
        second["id"].as_str().expect("an id")
    );
    assert_eq!(
        curl(&gateway, &path, &[&STATUS[..], &["-X", "DELETE"]].concat()),
        "204"
    );
    assert_eq!(
        curl(&gateway, &path, &[&STATUS[..], &["-X", "DELETE"]].concat()),
        "404"
    );
    assert!(kept(&gateway).is_empty());
    let found = json(
        &gateway,
        "/admin/messages?search=SECOND&verdict=quarantine",
        &[],
    );
    assert_eq!(
        found["messages"].as_array().map(Vec::len),
        Some(1),
        "{found}"
    );
}

#[test]
fn a_release_reaches_every_topic_and_an_allowed_sender_passes() {
    let gateway = Gateway::start(QUARANTINE);
    let to = "alarms+fire@localhost,alarms+flood@localhost";
    let server = gateway.address("smtp").to_string();
    let send = || swaks(&server, "Anna@example.org", to, &["--body", GTUBE]);
    assert!(send().status.success());
    let messages = kept(&gateway);
    let path = format!(
        "/admin/quarantine/{}",
        messages[0]["id"].as_str().expect("an id")
    );
    assert_eq!(
        messages[0]["topics"],
        serde_json::json!(["alarms/fire", "alarms/flood"])
    );
    json(&gateway, &format!("{path}/release"), &["-X", "POST"]);
    for topic in ["alarms/fire", "alarms/flood"] {
        let there = json(&gateway, &format!("/topics/{topic}"), &[]);
        assert_eq!(there.as_array().map(Vec::len), Some(1), "{topic}: {there}");
    }

    assert!(send().status.success());
    let path = format!(
        "/admin/quarantine/{}",
        kept(&gateway)[0]["id"].as_str().expect("an id")
    );
    let allowed = json(&gateway, &format!("{path}/allow-sender"), &["-X", "POST"]);
    assert_eq!(allowed["sender"], "Anna@example.org");
    assert!(send().status.success());
    assert_eq!(kept(&gateway).len(), 1, "the next mail from there passes");
    let found = json(&gateway, "/admin/messages?search=allowed%20sender", &[]);
    assert_eq!(found["messages"][0]["action"], "accept", "{found}");
    let senders = json(&gateway, "/admin/senders", &[]);
    assert_eq!(senders["senders"], serde_json::json!(["anna@example.org"]));
    let forget = [&STATUS[..], &["-X", "DELETE"]].concat();
    for status in ["204", "404"] {
        assert_eq!(
            curl(&gateway, "/admin/senders/anna@example.org", &forget),
            status
        );
    }
}

/// Without network rules no check confirms a sender, whose address can be forged.
#[test]
fn an_allowed_sender_whom_nothing_confirms_passes_the_score_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function(message) \
        if message:contains('odd word') then return 'quarantine', 'kept here' end end";
    std::fs::write(procedures.join("keep.luau"), code).expect("written");
    let settings = "rules.network = false\n[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
        run = [\"/spamcheck\", \"/keep\"]\n";
    let gateway = Gateway::start_in(folder.path(), settings);
    let allow = [&STATUS[..], &["-X", "PUT"]].concat();
    curl(&gateway, "/admin/senders/anna@example.org", &allow);
    let server = gateway.address("smtp").to_string();
    for (body, kept_after) in [(GTUBE, 0), ("an odd word", 1)] {
        let sent = swaks(
            &server,
            "anna@example.org",
            "alarms@localhost",
            &["--body", body],
        );
        assert!(sent.status.success(), "{}", text_of(&sent));
        assert_eq!(kept(&gateway).len(), kept_after, "{body}");
    }
}

#[test]
fn an_allowed_sender_passes_no_procedure_of_the_operators_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function(message) \
        if message:contains('blocked word') then return 'reject', 'blocked here' end end";
    std::fs::write(procedures.join("block.luau"), code).expect("written");
    let settings = "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
        run = [\"/spamcheck\", \"/block\"]\n";
    let gateway = Gateway::start_in(folder.path(), settings);
    let server = gateway.address("smtp").to_string();
    let send = |body: &str| {
        let more = ["--body", body];
        text_of(&swaks(
            &server,
            "anna@example.org",
            "alarms@localhost",
            &more,
        ))
    };
    let allow = [&STATUS[..], &["-X", "PUT"]].concat();
    curl(&gateway, "/admin/senders/anna@example.org", &allow);
    let said = send(GTUBE);
    assert!(said.contains("250 2.0.0"), "{said}");
    let said = send("a blocked word");
    assert!(said.contains("550 5.7.1 blocked here"), "{said}");
}

fn quarantine(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let url = gateway.url("");
    let arguments = [&["quarantine"], arguments, &["--url", &url]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    (output.status.success(), text_of(&output))
}

#[test]
fn the_list_names_the_topic_of_a_publication_and_the_options_of_a_login() {
    let gateway = Gateway::start(
        "procedure.\"/jsoncheck\".action = \"quarantine\"\n\
         [[scope]]\npath = \"/kept\"\ntopics = [\"kept/#\"]\nrun = [\"/jsoncheck\"]\n",
    );
    curl(&gateway, "/topics/kept/hall", &["--data", "no JSON"]);
    let (_, listed) = quarantine(&gateway, &["list"]);
    assert!(listed.contains("kept/hall"), "{listed}");

    let added = add_user(&gateway, "root", "a long secret", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    let refused = await_some("the login that is required", || {
        let (done, said) = quarantine(&gateway, &["list"]);
        (!done).then_some(said)
    });
    let options = "log in with --username NAME and --pw-file FILE";
    assert!(refused.contains(options), "{refused}");
}

#[test]
fn the_quarantine_is_searched_sorted_and_paged_through_and_counted() {
    let gateway = Gateway::start(QUARANTINE);
    for number in 1..=5 {
        send(&gateway, &format!("Offer {number}"));
    }
    send(&gateway, "Other");
    let page = json(
        &gateway,
        "/admin/quarantine?search=OFFER&count=2&skip=1",
        &[],
    );
    assert_eq!(
        (&page["found"], &page["total"]),
        (&5.into(), &6.into()),
        "{page}"
    );
    let subjects = |page: &serde_json::Value| -> Vec<String> {
        let messages = page["messages"].as_array().expect("a list").iter();
        let subject = |message: &serde_json::Value| message["subject"].as_str().map(str::to_owned);
        messages.filter_map(subject).collect()
    };
    assert_eq!(subjects(&page), ["Offer 4", "Offer 3"]);
    let oldest = json(&gateway, "/admin/quarantine?sort=oldest&count=1", &[]);
    assert_eq!(subjects(&oldest), ["Offer 1"]);
    let wrong = curl(&gateway, "/admin/quarantine?sort=colour", &STATUS);
    assert_eq!(wrong, "400");

    let (_, listed) = quarantine(&gateway, &["list", "--search", "offer", "--count", "2"]);
    assert!(
        listed.contains("Offer 5") && listed.contains("--skip 2"),
        "{listed}"
    );
    assert!(listed.contains("5 match, 6 in quarantine"), "{listed}");
    assert!(listed.contains("a@example.org  "), "{listed}");
    let (done, said) = quarantine(&gateway, &["delete", "--matching", "offer"]);
    assert!(!done && said.contains("--yes"), "without consent: {said}");
    let (done, said) = quarantine(&gateway, &["delete", "--matching", "offer", "--yes"]);
    assert!(done && said.contains("5 of 5 done"), "{said}");
    assert_eq!(kept(&gateway).len(), 1);

    let id = kept(&gateway)[0]["id"].as_str().expect("an id").to_owned();
    let (_, shown) = quarantine(&gateway, &["show", &id]);
    for part in [
        "from       a@example.org",
        "topics     alarms/fire",
        "GTUBE",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let (_, source) = quarantine(&gateway, &["show", &id, "--source"]);
    assert!(source.contains("Subject: Other\r\n"), "{source}");
    let (_, learned) = quarantine(&gateway, &["learn", &id, "--as", "ham"]);
    assert!(learned.contains("learned as ham: new"), "{learned}");
    let (done, said) = quarantine(&gateway, &["release", &id, "0000000000000"]);
    assert!(
        !done && said.contains("released to topic alarms/fire"),
        "{said}"
    );
    assert!(said.contains("1 of 2 done"), "{said}");
}

#[test]
fn a_mail_for_a_mailbox_is_released_into_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!(
        r#"{QUARANTINE}
listeners.smtp.domains = ["people.example"]
[[listeners.smtp.routes]]
recipients = "*@people.example"
mailbox = "{{user}}"
"#
    );
    let data = format!("data={}", folder.path().join("gatepost-data").display());
    for user in [&["anna"][..], &["root", "--admin"]] {
        let arguments = [&["user", "add"], user, &["--set", &data]].concat();
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(output.status.success(), "{}", text_of(&output));
    }
    let gateway = Gateway::start_in(folder.path(), &settings);
    let server = gateway.address("smtp").to_string();
    let sent = swaks(
        &server,
        "a@example.org",
        "anna@people.example",
        &["--body", GTUBE],
    );
    assert!(sent.status.success(), "{}", text_of(&sent));
    let root = ["-u", "root", "-P", "secret"];
    let (_, listed) = quarantine(&gateway, &[&["list", "--json"], &root[..]].concat());
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let id = listed["messages"][0]["id"].as_str().expect("an id");
    let (done, said) = quarantine(&gateway, &[&["release", id], &root[..]].concat());
    assert!(done && said.contains("released to mailbox anna"), "{said}");
    let mailbox = format!("pop3://127.0.0.1:{}/1", gateway.port("pop3"));
    let mail = run("curl", &["-s", "-u", "anna:secret", &mailbox], b"");
    let mail = text_of(&mail);
    assert!(mail.starts_with("Return-Path: <a@example.org>"), "{mail}");
    assert!(mail.contains("GTUBE"), "{mail}");
    let (done, said) = quarantine(&gateway, &[&["release", id], &root[..]].concat());
    assert!(
        !done && said.contains("no message in quarantine with this id"),
        "released once: {said}"
    );
}
