//! Every kind of state: created and checked by real clients.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::client::Publisher;
use super::gatepost;
use super::support::{Client, Gateway, await_some, run, swaks, text_of};

pub(crate) const USER: &str = "root";
pub(crate) const PASSWORD: &str = "secret";
const LOGIN: [&str; 4] = ["-u", USER, "-P", PASSWORD];
/// A procedure puts mail for `…+odd@people.example` into quarantine. Rows of any age are kept,
/// because databases of earlier versions become older.
pub(crate) const SETTINGS: &str = r#"
rules.paths = []
store.series_interval = "1s"
store.series_age_max = "36500d"
store.history_age_max = "36500d"
store.journal_age_max = "36500d"
store.quarantine_age_max = "36500d"
listeners.smtp.domains = ["people.example"]
[[listeners.smtp.routes]]
recipients = "*+odd@people.example"
topic = "mail/odd"
[[listeners.smtp.routes]]
recipients = "*@people.example"
mailbox = "{user}"
[[scope]]
path = "/strict"
recipients = ["*+odd@people.example"]
run = ["/odd"]
"#;

/// Starts a server that has users and the procedure, on the data of this folder.
pub(crate) fn start(folder: &Path) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function() return 'quarantine' end";
    std::fs::write(procedures.join("odd.luau"), code).expect("written");
    Gateway::start_in(folder, SETTINGS)
}

/// Users, before the first start.
pub(crate) fn add_users(folder: &Path) {
    std::fs::write(folder.join("gatepost.toml"), "").expect("a config");
    for arguments in [
        &["user", "add", USER, "--admin"][..],
        &["user", "add", "anna"],
    ] {
        let output = gatepost(folder, arguments);
        assert!(output.status.success(), "{}", text_of(&output));
    }
}

/// Makes at least one row in every table.
pub(crate) fn fill(gateway: &Gateway) {
    subscribe(gateway, "SUBACK");
    let mut publisher = Publisher::connect(gateway, "producer");
    for payload in ["first", "second"] {
        publisher.publish("jobs/a", payload);
    }
    publisher.publish_half("jobs/b", "half");
    let port = gateway.port("mqtt");
    let retained = ["-p", &port, "-q", "1", "-r", "-t", "rooms/1", "-m", "21.5"];
    let output = run("mosquitto_pub", &[&LOGIN[..], &retained].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
    let server = gateway.address("smtp").to_string();
    for (to, subject) in [
        ("anna@people.example", "kept for anna"),
        ("anna+odd@people.example", "withheld"),
    ] {
        let header = format!("Subject: {subject}");
        let body = "the quick brown fox jumps over the lazy dog";
        let more = ["--header", &header, "--body", body];
        let output = swaks(&server, "otto@example.org", to, &more);
        assert!(output.status.success(), "{}", text_of(&output));
    }
    let withheld = admin(gateway, "/admin/quarantine", &[]);
    let id = withheld["messages"][0]["id"].as_str().expect("an id");
    let learn = format!("/admin/quarantine/{id}/learn?as=spam");
    assert_eq!(admin(gateway, &learn, &["-X", "POST"])["learned"], "new");
    let url = gateway.url("/admin/senders/friend@example.org");
    let allow = ["-sf", "--user", "root:secret", "-X", "PUT", &url];
    assert!(run("curl", &allow, b"").status.success());
    let url = gateway.url("");
    let ban = ["bans", "add", "192.0.2.0/24", "--url", &url];
    let output = run(
        env!("CARGO_BIN_EXE_gatepost"),
        &[&ban[..], &LOGIN].concat(),
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    // Learning and bans reach the disk without a request.
    let database = gateway.folder.join("gatepost-data/gatepost.db");
    await_some("every table has rows", || {
        // A sample of the figures over time waits for a commit of other changes, or for a request.
        admin(gateway, "/admin/series", &[]);
        let rows = rows(&database);
        let is_there = |kind: &str| {
            rows.get("record").is_some_and(|rows| {
                rows.iter()
                    .any(|row| row.contains(&format!("Text(\"{kind}\")")))
            })
        };
        let are_there = ["bayes", "ban", "mailbox", "allowed_sender"]
            .into_iter()
            .all(is_there);
        (are_there && rows.values().all(|rows| !rows.is_empty())).then_some(())
    });
}

/// mosquitto_sub with the session `keeper`, until it prints this.
fn subscribe(gateway: &Gateway, until: &str) -> Client {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p",
        &port,
        "-V",
        "5",
        "-i",
        "keeper",
        "-c",
        "-x",
        "604800",
        "-q",
        "1",
        "-t",
        "jobs/#",
        "-d",
        "-F",
        "got %t %p",
    ];
    let mut client = Client::start("mosquitto_sub", &[&LOGIN[..], &arguments].concat());
    client.await_line(until);
    client
}

/// Looks for what [`fill`] made; `last` is the last message that waits for the session.
pub(crate) fn expect(gateway: &Gateway, last: &str) -> Vec<String> {
    let withheld = admin(gateway, "/admin/quarantine", &[]);
    assert_eq!(withheld["messages"][0]["subject"], "withheld", "{withheld}");
    let journal = admin(gateway, "/admin/messages?search=kept%20for", &[]);
    assert_eq!(journal["messages"][0]["action"], "accept", "{journal}");
    let bans = admin(gateway, "/admin/bans", &[]).to_string();
    assert!(bans.contains("192.0.2.0/24"), "{bans}");
    let senders = admin(gateway, "/admin/senders", &[]).to_string();
    assert!(senders.contains("friend@example.org"), "{senders}");
    let retained = admin(gateway, "/topics/rooms/1", &[]).to_string();
    assert!(retained.contains("21.5"), "{retained}");
    let history = admin(gateway, "/topics/jobs/b", &[]).to_string();
    assert!(history.contains("half"), "{history}");
    let mailbox = format!("pop3://127.0.0.1:{}/1", gateway.port("pop3"));
    let mail = run("curl", &["-sS", "--user", "anna:secret", &mailbox], b"");
    assert!(
        text_of(&mail).contains("kept for anna"),
        "{}",
        text_of(&mail)
    );
    let stranger = run(
        "curl",
        &[
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &gateway.url("/"),
        ],
        b"",
    );
    assert_eq!(text_of(&stranger), "401", "a login is asked for");
    let mut keeper = subscribe(gateway, last);
    let got = keeper
        .seen()
        .iter()
        .filter_map(|line| line.strip_prefix("got "));
    got.map(str::to_owned).collect()
}

fn admin(gateway: &Gateway, path: &str, more: &[&str]) -> Value {
    let url = gateway.url(path);
    let login = ["-sS", "--user", "root:secret"];
    let output = run("curl", &[&login[..], more, &[&url]].concat(), b"");
    let text = text_of(&output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

/// All rows of all tables, as text.
pub(crate) fn rows(database: &Path) -> BTreeMap<String, Vec<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(database, flags).expect("a database");
    let mut names = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .expect("the schema");
    let names = names
        .query_map([], |row| row.get::<_, String>(0))
        .expect("names");
    let mut all = BTreeMap::new();
    for name in names.map(|name| name.expect("a name")) {
        let mut statement = connection
            .prepare(&format!("SELECT * FROM {name}"))
            .expect("a table");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values: rusqlite::Result<Vec<rusqlite::types::Value>> =
                (0..columns).map(|column| row.get(column)).collect();
            Ok(format!("{:?}", values?))
        });
        let mut rows: Vec<String> = rows.expect("rows").map(|row| row.expect("a row")).collect();
        rows.sort();
        all.insert(name, rows);
    }
    all
}
