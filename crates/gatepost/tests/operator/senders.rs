//! Senders that users allow and block for their own mailboxes.

use serde_json::Value;

use super::support::{Gateway, add_user, await_some, run, swaks, text_of};
use super::{STATUS, curl, json};

const SETTINGS: &str = "
rules.paths = []
listeners.smtp.domains = ['people.example']
[[listeners.smtp.routes]]
recipients = '*@people.example'
mailbox = '{user}'
[[listeners.lmtp.routes]]
recipients = '*@people.example'
mailbox = '{user}'
[[scope]]
path = '/mail'
listeners = ['smtp', 'lmtp']
run = ['/spamcheck']
";
const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const ROOT: [&str; 2] = ["--user", "root:secret"];

/// A server with an administrator and three users, who can log in.
fn start() -> Gateway {
    with_users(Gateway::start(SETTINGS))
}

fn with_users(gateway: Gateway) -> Gateway {
    for (name, more) in [
        ("root", &["--admin"][..]),
        ("anna", &[]),
        ("bert", &[]),
        ("otto", &[]),
    ] {
        let added = add_user(&gateway, name, "secret", more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    // The server sees users that a command adds a moment later.
    await_some("the users", || {
        let status = curl(
            &gateway,
            "/v1/senders",
            &[&STATUS[..], &["--user", "otto:secret"]].concat(),
        );
        (status == "200").then_some(())
    });
    gateway
}

fn change(gateway: &Gateway, user: &str, method: &str, entry: &str) -> String {
    let login = format!("{user}:secret");
    let path = format!("/v1/senders/{entry}");
    curl(
        gateway,
        &path,
        &[&STATUS[..], &["-X", method, "--user", &login]].concat(),
    )
}

fn mail(gateway: &Gateway, from: &str, to: &str, subject: &str, more: &[&str]) -> String {
    let header = format!("Subject: {subject}");
    let more = [&["--header", &header][..], more].concat();
    text_of(&swaks(
        &gateway.address("smtp").to_string(),
        from,
        to,
        &more,
    ))
}

/// The verdict and the reason of each part of a mail, by recipient.
fn outcomes(gateway: &Gateway, subject: &str) -> Vec<(String, String, String)> {
    let found = json(gateway, &format!("/admin/messages?search={subject}"), &ROOT);
    let messages = found["messages"].as_array().expect("messages").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut outcomes: Vec<_> = messages
        .map(|entry| {
            let recipients = entry["recipients"].as_array().expect("recipients");
            let recipients: Vec<String> = recipients.iter().map(text).collect();
            (
                recipients.join(" "),
                text(&entry["action"]),
                text(&entry["reason"]),
            )
        })
        .collect();
    outcomes.sort();
    outcomes
}

fn actions(gateway: &Gateway, subject: &str) -> Vec<(String, String)> {
    let outcomes = outcomes(gateway, subject).into_iter();
    outcomes
        .map(|(recipient, action, _)| (recipient, action))
        .collect()
}

fn pair(recipient: &str, action: &str) -> (String, String) {
    (recipient.to_owned(), action.to_owned())
}

#[test]
fn a_blocked_sender_is_quarantined_for_who_blocks_it_only() {
    let gateway = start();
    assert_eq!(
        change(&gateway, "anna", "PUT", "far.example?list=block"),
        "200"
    );
    let to = "anna@people.example,bert@people.example";
    let sent = mail(&gateway, "eve@far.example", to, "circular", &[]);
    assert!(
        sent.contains("<-  250 2.6.0") || sent.contains("<-  250 2."),
        "{sent}"
    );
    let expected = [
        pair("anna@people.example", "quarantine"),
        pair("bert@people.example", "accept"),
    ];
    assert_eq!(actions(&gateway, "circular"), expected);
    let arguments = ["--protocol", "LMTP", "--header", "Subject: local"];
    let lmtp = gateway.address("lmtp").to_string();
    let lmtp = text_of(&swaks(&lmtp, "eve@far.example", to, &arguments));
    assert!(!lmtp.contains("<** "), "{lmtp}");
    assert_eq!(actions(&gateway, "local"), expected);
    let (_, _, reason) = outcomes(&gateway, "circular").swap_remove(0);
    assert!(
        reason.contains("anna blocks eve@far.example by the entry *@far.example"),
        "{reason}"
    );

    // A message that an administrator releases reaches only the mailbox of the user who blocked it.
    let kept = json(&gateway, "/admin/quarantine", &ROOT);
    let id = kept["messages"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    json(
        &gateway,
        &format!("/admin/quarantine/{id}/release"),
        &[&ROOT[..], &["-X", "POST"]].concat(),
    );
    assert_eq!(change(&gateway, "anna", "DELETE", "far.example"), "200");
    mail(&gateway, "eve@far.example", to, "again", &[]);
    assert_eq!(
        actions(&gateway, "again"),
        [pair("anna@people.example bert@people.example", "accept")]
    );
}

#[test]
fn an_allowed_sender_must_be_proven_and_the_others_lose_nothing() {
    let gateway = start();
    assert_eq!(
        change(&gateway, "anna", "PUT", "otto@people.example?list=allow"),
        "200"
    );
    let both = "anna@people.example,bert@people.example";
    let spam = ["--body", GTUBE];
    // Every client can write this sender: without proof the mail is rejected as before.
    let forged = mail(&gateway, "otto@people.example", both, "forged", &spam);
    assert!(forged.contains("<** 550"), "{forged}");
    assert_eq!(
        actions(&gateway, "forged"),
        [pair("anna@people.example bert@people.example", "reject")]
    );

    let login = [
        "--auth",
        "PLAIN",
        "--auth-user",
        "otto",
        "--auth-password",
        "secret",
    ];
    let genuine = [&spam[..], &login].concat();
    let sent = mail(&gateway, "otto@people.example", both, "genuine", &genuine);
    assert!(!sent.contains("<** "), "{sent}");
    let expected = [
        pair("anna@people.example", "accept"),
        pair("bert@people.example", "quarantine"),
    ];
    assert_eq!(
        actions(&gateway, "genuine"),
        expected,
        "one reply is for both"
    );
}

#[test]
fn users_change_their_own_list_and_administrators_any() {
    let gateway = start();
    let status = |path: &str, more: &[&str]| curl(&gateway, path, &[&STATUS[..], more].concat());
    let anna = ["--user", "anna:secret"];
    assert_eq!(status("/v1/senders", &[]), "401");
    assert_eq!(status("/v1/senders?user=bert", &anna), "403");
    assert_eq!(
        status(
            "/v1/senders/x.example?list=allow&user=bert",
            &[&anna[..], &["-X", "PUT"]].concat()
        ),
        "403"
    );
    assert_eq!(status("/v1/senders?user=unknown", &ROOT), "404");
    for (entry, expected) in [
        ("x.example?list=maybe", "400"),
        ("x.example", "400"),
        ("%2A?list=block", "400"),
        ("a%20b@x.example?list=block", "400"),
        ("Eve@X.example?list=block", "200"),
        ("eve@x.example?list=allow", "200"),
    ] {
        assert_eq!(change(&gateway, "anna", "PUT", entry), expected, "{entry}");
    }
    assert_eq!(change(&gateway, "anna", "DELETE", "bert@x.example"), "404");
    let own = json(&gateway, "/v1/senders", &anna);
    let expected = serde_json::json!({
        "user": "anna", "entries": [{ "entry": "eve@x.example", "list": "allow" }]
    });
    assert_eq!(own, expected, "an entry is in one list");
    assert_eq!(json(&gateway, "/v1/senders?user=anna", &ROOT), expected);

    // The command, by the same API.
    let url = gateway.url("");
    let password = gateway.folder.join("password");
    std::fs::write(&password, "secret\n").expect("a file");
    let password = password.display().to_string();
    let senders = |arguments: &[&str]| {
        let more = ["--url", &url, "--pw-file", &password];
        let output = run(
            env!("CARGO_BIN_EXE_gatepost"),
            &[&["senders"], arguments, &more].concat(),
            b"",
        );
        assert!(output.status.success(), "{}", text_of(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    senders(&["block", "example.net", "-u", "anna"]);
    senders(&["allow", "otto@example.org", "--user", "anna", "-u", "root"]);
    senders(&["remove", "eve@x.example", "-u", "anna"]);
    let listed = senders(&["list", "-u", "anna"]);
    assert_eq!(listed, "block  *@example.net\nallow  otto@example.org\n");
    let changes = json(&gateway, "/admin/changes", &ROOT).to_string();
    assert!(
        changes.contains("otto@example.org"),
        "what an administrator changed: {changes}"
    );

    // A later user of the same name inherits nothing, nor does a restart.
    assert_eq!(
        status(
            "/admin/users/anna",
            &[&ROOT[..], &["-X", "DELETE"]].concat()
        ),
        "204"
    );
    let added = add_user(&gateway, "anna", "secret", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("an empty list", || {
        let list = curl(&gateway, "/v1/senders", &anna);
        list.contains("\"entries\":[]").then_some(())
    });
}

#[test]
fn lists_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = with_users(Gateway::start_in(folder.path(), SETTINGS));
    assert_eq!(
        change(&gateway, "anna", "PUT", "far.example?list=block"),
        "200"
    );
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    let list = json(&gateway, "/v1/senders", &["--user", "anna:secret"]);
    assert_eq!(list["entries"][0]["entry"], "*@far.example");
    mail(
        &gateway,
        "eve@far.example",
        "anna@people.example",
        "restarted",
        &[],
    );
    assert_eq!(
        actions(&gateway, "restarted"),
        [pair("anna@people.example", "quarantine")]
    );
}
