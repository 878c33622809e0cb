//! An administrator ends the session of a client, with mosquitto_sub as the client.

use super::support::{Client, Gateway, await_some, run, text_of};

fn gatepost(gateway: &Gateway, arguments: &[&str]) -> String {
    let url = gateway.url("");
    let arguments = [&["sessions"], arguments, &["--url", &url]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

#[test]
fn a_session_that_an_administrator_ends_is_over() {
    let gateway = Gateway::start("rules.paths = []\n");
    let port = gateway.port("mqtt");
    let arguments = [
        "-p",
        &port,
        "-V",
        "5",
        "-i",
        "squatter/1",
        "-c",
        "-x",
        "604800",
        "-q",
        "1",
        "-t",
        "news",
        "-d",
    ];
    let mut client = Client::start("mosquitto_sub", &arguments);
    client.await_line("SUBACK");
    let listed = gatepost(&gateway, &["list", "--search", "squatter"]);
    assert!(
        listed.contains("squatter/1") && listed.contains("connected"),
        "{listed}"
    );
    let ended = gatepost(&gateway, &["end", "squatter/1"]);
    assert_eq!(ended.trim(), "1 ended");
    client.await_line("DISCONNECT (152)");
    drop(client);
    // The client may have come back before it was stopped.
    await_some("the client is gone", || {
        let listed = gatepost(&gateway, &["list"]);
        (!listed.contains("connected")).then_some(())
    });
    let audit = gateway.folder.join("gatepost-data/audit.log");
    let audit = std::fs::read_to_string(audit).expect("the audit log");
    assert!(
        audit.contains("DELETE /admin/sessions/squatter/1"),
        "{audit}"
    );
    let unknown = ["sessions", "end", "unknown", "--url", &gateway.url("")];
    let unknown = run(env!("CARGO_BIN_EXE_gatepost"), &unknown, b"");
    assert_eq!(unknown.status.code(), Some(65), "{}", text_of(&unknown));
}
