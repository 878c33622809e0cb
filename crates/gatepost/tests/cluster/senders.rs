//! Each user's own list of senders, which all nodes share, with curl and swaks.

use serde_json::Value;

use super::mailboxes::{ANNA, SETTINGS, folder_with_users, start, two_nodes};
use super::nats::{self, Nats};
use super::readyz;
use super::support::{Gateway, await_some, run, swaks, text_of};

/// A request of a user, who is an administrator: the status, and the answer.
fn request(gateway: &Gateway, user: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    request_at(&gateway.url(path), user, method, body)
}

fn request_at(url: &str, user: &str, method: &str, body: &str) -> (u16, Value) {
    let login = format!("{user}:secret");
    let arguments = [
        "-s",
        "-u",
        &login,
        "-X",
        method,
        "-w",
        "\n%{http_code}",
        url,
    ];
    let json = ["-H", "Content-Type: application/json", "-d", body];
    let more: &[&str] = if body.is_empty() { &[] } else { &json };
    let output = run("curl", &[&arguments[..], more].concat(), b"");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (answer, status) = text.rsplit_once('\n').expect("a status");
    let answer = serde_json::from_str(answer).unwrap_or_default();
    (status.parse().expect("a status"), answer)
}

pub(crate) fn block(gateway: &Gateway, user: &str, entry: &str) -> u16 {
    let path = format!("/v1/senders/{entry}?list=block");
    request(gateway, user, "PUT", &path, "").0
}

/// The entries of a user's list, as bert sees it.
fn entries(gateway: &Gateway, user: &str) -> Vec<String> {
    let (_, list) = request(
        gateway,
        "bert",
        "GET",
        &format!("/v1/senders?user={user}"),
        "",
    );
    let entries = list["entries"].as_array().into_iter().flatten();
    let text = |entry: &Value| entry["entry"].as_str().expect("an entry").to_owned();
    entries.map(text).collect()
}

pub(crate) fn await_entries(gateway: &Gateway, user: &str, expected: &[&str]) {
    await_some(&format!("{user} has {expected:?}"), || {
        (entries(gateway, user) == expected).then_some(())
    });
}

/// The verdict of a node about a mail to anna with this subject.
fn action(gateway: &Gateway, subject: &str) -> String {
    let (server, header) = (
        gateway.address("smtp").to_string(),
        format!("Subject: {subject}"),
    );
    let sent = swaks(&server, "otto@example.org", ANNA, &["--header", &header]);
    assert!(!text_of(&sent).contains("<** "), "{}", text_of(&sent));
    let path = format!("/admin/messages?search={subject}");
    await_some("the journal has the mail", || {
        let (_, found) = request(gateway, "bert", "GET", &path, "");
        let entry = found["messages"].as_array()?.first()?.clone();
        Some(entry["action"].as_str()?.to_owned())
    })
}

#[test]
fn a_sender_that_is_blocked_on_one_node_is_blocked_on_all() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let (folders, one, two) = two_nodes(&nats);
    assert_eq!(action(&two, "before"), "accept");
    assert_eq!(block(&one, "anna", "otto@example.org"), 200);
    await_entries(&two, "anna", &["otto@example.org"]);
    assert_eq!(action(&two, "blocked"), "quarantine");

    // Without a majority, nothing is changed, and the list is obeyed after a restart.
    assert_eq!(two.terminate(), Some(0));
    nats.kill();
    await_some("the loss is noticed", || {
        readyz(&one).contains("degraded: backbone").then_some(())
    });
    let two = Gateway::start_in(
        folders[1].path(),
        &format!("{}{SETTINGS}", nats.settings(2)),
    );
    for gateway in [&one, &two] {
        assert_eq!(block(gateway, "anna", "eve@example.org"), 503);
        let path = "/v1/senders/otto@example.org";
        assert_eq!(request(gateway, "anna", "DELETE", path, "").0, 503);
        assert_eq!(entries(gateway, "anna"), ["otto@example.org"]);
    }
    nats.start_again();
    for gateway in [&one, &two] {
        await_some("the node is part of its cluster again", || {
            (!readyz(gateway).contains("degraded")).then_some(())
        });
    }
    let path = "/v1/senders/otto@example.org";
    assert_eq!(request(&two, "anna", "DELETE", path, "").0, 200);
    await_entries(&one, "anna", &[]);
    assert_eq!(action(&one, "after"), "accept");

    // A user of the same name as one that was removed begins without a list.
    assert_eq!(block(&two, "anna", "otto@example.org"), 200);
    await_entries(&one, "anna", &["otto@example.org"]);
    assert_eq!(
        request(&one, "bert", "DELETE", "/admin/users/anna", "").0,
        204
    );
    let last = "{\"last_by_subj\":\"$KV.GP_USERS.sender_list.anna\"}";
    await_some("the list is removed", || {
        let answer = nats.request("$JS.API.STREAM.MSG.GET.KV_GP_USERS", last);
        (!answer.contains("\"data\"")).then_some(())
    });
    let new = "{\"name\":\"anna\",\"password\":\"secret word\"}";
    assert_eq!(request(&one, "bert", "POST", "/admin/users", new).0, 201);
    for gateway in [&one, &two] {
        await_some("the user is known", || {
            let path = "/v1/senders?user=anna";
            (request(gateway, "bert", "GET", path, "").0 == 200).then_some(())
        });
        assert!(entries(gateway, "anna").is_empty());
    }
}

#[test]
fn a_server_that_joins_adds_the_lists_of_users_that_have_none() {
    if nats::program().is_none() {
        return;
    }
    let folders = [folder_with_users(), folder_with_users()];
    let own = [("anna", "a.example"), ("anna", "b.example")];
    for (folder, (user, entry)) in folders.iter().zip(own) {
        let alone = Gateway::start_in(folder.path(), SETTINGS);
        assert_eq!(block(&alone, user, entry), 200);
        if entry == "b.example" {
            assert_eq!(block(&alone, "bert", "c.example"), 200);
        }
        assert_eq!(alone.terminate(), Some(0));
    }
    let nats = Nats::start("");
    let one = start(&nats.settings(1), folders[0].path());
    let two = start(&nats.settings(2), folders[1].path());
    for gateway in [&one, &two] {
        await_entries(gateway, "anna", &["*@a.example"]);
        await_entries(gateway, "bert", &["*@c.example"]);
    }
    let log = two.log();
    assert!(
        log.contains("is in force key=\"sender_list.anna\""),
        "{log}"
    );
}

#[test]
fn lists_that_several_nodes_change_have_all_changes() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (_folders, one, two) = two_nodes(&nats);
    await_entries(&two, "anna", &[]);
    let expected: Vec<String> = (0..12)
        .map(|number| format!("*@d{number:02}.example"))
        .collect();
    std::thread::scope(|scope| {
        for (number, entry) in expected.iter().enumerate() {
            let domain = entry.trim_start_matches("*@");
            let path = format!("/v1/senders/{domain}?list=block");
            let url = [&one, &two][number % 2].url(&path);
            // A change that is computed too often is refused, which the client can see.
            scope.spawn(move || {
                await_some("the sender is blocked", || {
                    let (status, _) = request_at(&url, "anna", "PUT", "");
                    assert!(status == 200 || status == 503, "{status}");
                    (status == 200).then_some(())
                });
            });
        }
    });
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    await_entries(&one, "anna", &expected);
    await_entries(&two, "anna", &expected);
}
