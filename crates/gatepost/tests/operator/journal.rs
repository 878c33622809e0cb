//! The journal, and messages that it does not record.

use super::support::{Client, Gateway, await_some, swaks, text_of};
use super::{STATUS, curl, json};

#[test]
fn unjudged_messages_fill_no_journal_but_have_a_trace() {
    let gateway = Gateway::start("");
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-i", "display", "-t", "hall/#", "-d"];
    let mut subscriber = Client::start("mosquitto_sub", &arguments);
    subscriber.await_line("Subscribed");
    let url = gateway.url("/topics/hall/%23");
    let event_stream = "Accept: text/event-stream";
    let mut reader = Client::start("curl", &["-sN", "-H", event_stream, &url]);
    reader.await_line("retry:");
    let published = json(&gateway, "/topics/hall/door", &["-d", "open"]);
    reader.await_line("open");
    let id = published["id"].as_str().expect("an id");
    let story = await_some("both have it", || {
        let story = json(&gateway, &format!("/admin/messages/{id}"), &[]);
        let steps = story["steps"].as_array()?.clone();
        let sent = steps
            .iter()
            .filter(|step| step["outcome"] == "sent")
            .count();
        (sent == 2).then_some(story)
    });
    let kinds: Vec<_> = story["steps"].as_array().expect("steps").iter().collect();
    assert!(kinds.iter().any(|step| step["kind"] == "sse"), "{story}");
    assert!(
        kinds.iter().any(|step| step["client"] == "display"),
        "{story}"
    );
    let listed = json(&gateway, "/admin/messages", &[]);
    assert_eq!(listed["messages"], serde_json::json!([]), "{listed}");
    let seen = await_some("the reader is listed by what it is", || {
        let state = json(&gateway, "/admin/state", &[]);
        let last = state["stats"].as_array()?.last()?.clone();
        let sessions = last["sessions"].as_array()?.clone();
        sessions
            .into_iter()
            .find(|session| session["kind"] == "sse")
    });
    assert!(
        seen["client"]
            .as_str()
            .is_some_and(|client| client.starts_with("127.0.0.1:")),
        "{seen}"
    );
}

/// The subjects that a search finds, and where its next page begins.
fn found(gateway: &Gateway, query: &str) -> (Vec<String>, Option<String>) {
    let page = json(gateway, &format!("/admin/messages?{query}"), &[]);
    let subject = |message: &serde_json::Value| message["subject"].as_str().map(str::to_owned);
    let messages = page["messages"].as_array().expect("messages");
    let next = page["next"].as_str().map(str::to_owned);
    (messages.iter().filter_map(subject).collect(), next)
}

#[test]
fn the_whole_journal_is_searched_by_conditions_and_pages() {
    let gateway = Gateway::start("");
    let server = gateway.address("smtp").to_string();
    for (from, to, subject) in [
        ("anna@example.org", "alarms+fire@localhost", "First"),
        ("otto@example.net", "alarms+flood@localhost", "Second"),
        ("anna@example.org", "hall+door@localhost", "Third"),
    ] {
        let subject = format!("Subject: {subject}");
        let sent = swaks(&server, from, to, &["--header", &subject]);
        assert!(sent.status.success(), "{}", text_of(&sent));
    }
    let all = ["Third", "Second", "First"];
    assert_eq!(found(&gateway, "").0, all);
    assert_eq!(found(&gateway, "topic=alarms/%23").0, ["Second", "First"]);
    assert_eq!(found(&gateway, "sender=ANNA").0, ["Third", "First"]);
    assert_eq!(found(&gateway, "sender=anna&topic=hall/door").0, ["Third"]);
    assert_eq!(found(&gateway, "search=flood").0, ["Second"]);
    assert_eq!(found(&gateway, "since=1h&until=4000000000").0, all);
    assert!(found(&gateway, "until=1h").0.is_empty());
    assert!(found(&gateway, "rule=NO_SUCH_RULE").0.is_empty());

    let (page, next) = found(&gateway, "count=2");
    assert_eq!(page, ["Third", "Second"]);
    let next = next.expect("another page");
    let (page, next) = found(&gateway, &format!("count=2&before={next}"));
    assert_eq!((page, next), (vec!["First".to_owned()], None));

    for wrong in [
        "since=yesterday",
        "before=x",
        "topic=a/%23/b",
        "verdict=maybe",
    ] {
        let path = format!("/admin/messages?{wrong}");
        assert_eq!(curl(&gateway, &path, &STATUS), "400", "{wrong}");
    }
}
