//! The journal, and the way of what it does not have.

use super::json;
use super::support::{Client, Gateway, await_some};

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
