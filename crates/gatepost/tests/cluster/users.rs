//! Users, tokens, rules and allowed senders that all nodes share.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, free_port, run, text_of};
use super::{PLAIN, readyz};

const ROOT: &str = "root:correct horse";

/// A folder for a node.
fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Starts a node in this folder, and waits until it is part of its cluster.
fn start(settings: &str, folder: &Path) -> Gateway {
    let gateway = Gateway::start_in(folder, &format!("{settings}{PLAIN}"));
    await_member(&gateway);
    gateway
}

fn await_member(gateway: &Gateway) {
    await_some("the node is part of its cluster", || {
        (!readyz(gateway).contains("degraded")).then_some(())
    });
}

/// `gatepost user` with these arguments and options that name the users.
fn user_command(arguments: &[&str], place: &[&str], password: &str) -> (Option<i32>, String) {
    let arguments = [&["user"], arguments, place].concat();
    let input = format!("{password}\n");
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, input.as_bytes());
    (output.status.code(), text_of(&output))
}

/// The setting that names the data of the node in this folder.
fn data_of(folder: &TempDir) -> String {
    format!("data={}", folder.path().join("gatepost-data").display())
}

/// `gatepost user` with the config of the node in this folder.
fn user(folder: &TempDir, arguments: &[&str], password: &str) -> (Option<i32>, String) {
    let config = folder.path().join("gatepost.toml");
    let config = config.display().to_string();
    let data = data_of(folder);
    user_command(arguments, &["--config", &config, "--set", &data], password)
}

fn add(folder: &TempDir, name: &str, password: &str, more: &[&str]) {
    let (code, said) = user(folder, &[&["add", name], more].concat(), password);
    assert_eq!(code, Some(0), "{said}");
}

/// `gatepost user` with the database of this folder, and without its config.
fn user_of_database(folder: &TempDir, arguments: &[&str], password: &str) -> (Option<i32>, String) {
    user_command(arguments, &["--set", &data_of(folder)], password)
}

/// mosquitto_pub with a login: whether it ended well, and its words.
fn mosquitto_pub(gateway: &Gateway, login: &[&str], more: &[&str]) -> (bool, String) {
    let port = gateway.port("mqtt");
    let options = ["-p", &port, "-V", "5", "-d", "-m", "x"];
    let output = run("mosquitto_pub", &[&options, login, more].concat(), b"");
    (output.status.success(), text_of(&output))
}

/// Whether a client without a login is admitted.
fn admits_anybody(gateway: &Gateway) -> bool {
    mosquitto_pub(gateway, &[], &["-t", "t"]).0
}

fn logs_in(gateway: &Gateway, user: &str, password: &str) -> bool {
    mosquitto_pub(gateway, &["-u", user, "-P", password], &["-t", "t"]).0
}

/// Whether anna may publish on a topic.
fn publishes(gateway: &Gateway, password: &str, topic: &str) -> bool {
    let more = ["-q", "1", "-t", topic];
    let (is_good, said) = mosquitto_pub(gateway, &["-u", "anna", "-P", password], &more);
    is_good && (said.contains("PUBACK (m1, rc0)") || said.contains("RC:0)"))
}

/// A client of anna that stays connected.
fn subscriber(gateway: &Gateway, password: &str) -> Client {
    let (port, login) = (gateway.port("mqtt"), ["-u", "anna", "-P", password]);
    let options = ["-p", &port, "-V", "5", "-d", "-t", "t"];
    let mut client = Client::start("mosquitto_sub", &[&options[..], &login].concat());
    client.await_line("SUBACK");
    client
}

fn await_login(gateway: &Gateway, user: &str, password: &str, expected: bool) {
    await_some(
        &format!("{user} logs in with {password}: {expected}"),
        || (logs_in(gateway, user, password) == expected).then_some(()),
    );
}

/// A request of an administrator: the status, and the answer.
fn request(gateway: &Gateway, method: &str, path: &str, body: &str) -> (u16, String) {
    request_at(&gateway.url(path), method, body)
}

fn request_at(url: &str, method: &str, body: &str) -> (u16, String) {
    let arguments = ["-s", "-u", ROOT, "-X", method, "-w", "\n%{http_code}", url];
    let json = ["-H", "Content-Type: application/json", "-d", body];
    let more: &[&str] = if body.is_empty() { &[] } else { &json };
    let output = run("curl", &[&arguments[..], more].concat(), b"");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (answer, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a status"), answer.to_owned())
}

fn expect(gateway: &Gateway, method: &str, path: &str, body: &str, status: u16) -> Value {
    let (answered, text) = request(gateway, method, path, body);
    assert_eq!(answered, status, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn a_change_on_one_node_is_in_force_on_all() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let folders = [folder(), folder()];
    let of = |node: u8| Nats::settings_of_all(&servers, node);
    let one = start(&of(1), folders[0].path());
    let two = start(&of(2), folders[1].path());
    assert!(admits_anybody(&two), "there is no user yet");
    add(&folders[0], "root", "correct horse", &["--admin"]);
    await_login(&one, "root", "correct horse", true);
    await_login(&two, "root", "correct horse", true);
    assert!(!admits_anybody(&two), "now a login is needed");

    let new = "{\"name\":\"anna\",\"password\":\"first secret\"}";
    expect(&one, "POST", "/admin/users", new, 201);
    assert!(
        logs_in(&one, "anna", "first secret"),
        "in force at once where it was made"
    );
    await_login(&two, "anna", "first secret", true);
    let mut live = subscriber(&two, "first secret");
    let changed = "{\"password\":\"second secret\"}";
    expect(&one, "PATCH", "/admin/users/anna", changed, 200);
    await_login(&two, "anna", "first secret", false);
    assert!(logs_in(&two, "anna", "second secret"));
    live.await_line("eceived DISCONNECT (135)");
    drop(live);

    let created = expect(
        &two,
        "POST",
        "/admin/users/anna/tokens",
        "{\"label\":\"x\"}",
        201,
    );
    let token = created["token"].as_str().expect("a token").to_owned();
    await_login(&one, "anna", &token, true);
    let rule = "{\"effect\":\"deny\",\"access\":[\"publish\"],\"filter\":\"locked/#\"}";
    expect(&one, "POST", "/admin/users/anna/rules", rule, 200);
    let on = |gateway: &Gateway| publishes(gateway, "second secret", "locked/a");
    await_some("the rule is in force", || (!on(&two)).then_some(()));
    assert!(!on(&one));
    let removed = "/admin/users/anna/rules?access=publish&filter=locked/%23";
    expect(&two, "DELETE", removed, "", 200);
    await_some("the rule is gone", || on(&one).then_some(()));

    let listed = expect(&one, "GET", "/admin/users/anna", "", 200);
    let id = listed["tokens"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let (code, said) = user(&folders[0], &["token", "remove", &id], "");
    assert_eq!(code, Some(0), "{said}");
    await_login(&two, "anna", &token, false);
    let mut live = subscriber(&one, "second secret");
    expect(&two, "DELETE", "/admin/users/anna", "", 204);
    await_login(&one, "anna", "second secret", false);
    live.await_line("eceived DISCONNECT (135)");
    drop(live);

    expect(&one, "PUT", "/admin/senders/otto@far.example", "", 204);
    let senders = |gateway: &Gateway| expect(gateway, "GET", "/admin/senders", "", 200).to_string();
    await_some("the sender is known", || {
        senders(&two).contains("otto@far").then_some(())
    });
    expect(&two, "DELETE", "/admin/senders/otto@far.example", "", 204);
    await_some("the sender is gone", || {
        (!senders(&one).contains("otto")).then_some(())
    });

    let config = folders[0].path().join("gatepost.toml");
    let check = [
        "backbone",
        "check",
        "--config",
        &config.display().to_string(),
    ];
    let said = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &check, b""));
    assert!(
        said.contains("the stream KV_GP_USERS has 3 replicas"),
        "{said}"
    );
}

#[test]
fn changes_of_two_nodes_at_the_same_time_are_all_made() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder(), folder()];
    let one = start(&nats.settings(1), folders[0].path());
    let two = start(&nats.settings(2), folders[1].path());
    add(&folders[0], "root", "correct horse", &["--admin"]);
    for gateway in [&one, &two] {
        await_login(gateway, "root", "correct horse", true);
    }
    let new = "{\"name\":\"anna\",\"password\":\"some secret\"}";
    let urls = [&one, &two].map(|gateway| gateway.url("/admin/users"));
    let mut statuses = std::thread::scope(|scope| {
        let both = urls.each_ref();
        let both = both.map(|url| scope.spawn(move || request_at(url, "POST", new).0));
        both.map(|made| made.join().expect("answered"))
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "one is first");
    for gateway in [&one, &two] {
        await_login(gateway, "anna", "some secret", true);
    }
    std::thread::scope(|scope| {
        for number in 0..12 {
            let url = format!("{}/anna/rules", urls[number % 2]);
            scope.spawn(move || {
                let rule = format!(
                    "{{\"effect\":\"allow\",\"access\":[\"publish\"],\"filter\":\"r/{number}\"}}"
                );
                // A change that is computed too often is refused, which the client can see.
                await_some("the rule is made", || {
                    let (status, said) = request_at(&url, "POST", &rule);
                    assert!(status == 200 || status == 503, "{said}");
                    (status == 200).then_some(())
                });
            });
        }
    });
    for gateway in [&one, &two] {
        await_some("all rules are there", || {
            let user = expect(gateway, "GET", "/admin/users/anna", "", 200);
            (user["rules"].as_array()?.len() == 12).then_some(())
        });
    }
}

#[test]
fn without_nats_servers_logins_continue_and_changes_are_refused() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let folders = [folder(), folder()];
    let settings = [nats.settings(1), nats.settings(2)];
    let one = start(&settings[0], folders[0].path());
    let two = start(&settings[1], folders[1].path());
    add(&folders[0], "root", "correct horse", &["--admin"]);
    add(&folders[1], "anna", "some secret", &[]);
    await_login(&one, "anna", "some secret", true);
    await_login(&two, "anna", "some secret", true);
    nats.kill();
    await_some("the loss is noticed", || {
        readyz(&one).contains("degraded: backbone").then_some(())
    });
    assert!(logs_in(&one, "anna", "some secret"));
    let new = "{\"name\":\"zoe\",\"password\":\"some secret\"}";
    let (status, said) = request(&one, "POST", "/admin/users", new);
    assert!(
        status == 503 && said.contains("cannot be reached"),
        "{status} {said}"
    );
    expect(&one, "PUT", "/admin/senders/otto@far.example", "", 503);
    let (code, said) = user(&folders[0], &["add", "zoe"], "some secret");
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("which cannot be reached") && said.contains("nothing was changed"));
    let (code, said) = user(&folders[0], &["list"], "");
    assert!(code == Some(0) && said.contains("anna"), "{said}");
    assert!(said.contains("the users that this server knows"), "{said}");

    // A restart needs no NATS server.
    assert_eq!(two.terminate(), Some(0));
    let two = Gateway::start_in(folders[1].path(), &format!("{}{PLAIN}", settings[1]));
    assert!(logs_in(&two, "anna", "some secret"));
    assert!(!admits_anybody(&two) && !logs_in(&two, "anna", "wrong"));

    // What the others did while a node was down reaches it, removals too.
    assert_eq!(two.terminate(), Some(0));
    nats.start_again();
    await_member(&one);
    expect(&one, "POST", "/admin/users", new, 201);
    expect(&one, "DELETE", "/admin/users/anna", "", 204);
    let two = start(&settings[1], folders[1].path());
    assert!(logs_in(&two, "zoe", "some secret"));
    assert!(!logs_in(&two, "anna", "some secret"));
}

#[test]
fn a_bucket_that_was_lost_is_filled_again() {
    if nats::program().is_none() {
        return;
    }
    let port = free_port();
    let nats = Nats::start_at(port, "");
    let folders = [folder(), folder()];
    let settings = [nats.settings(1), nats.settings(2)];
    let one = start(&settings[0], folders[0].path());
    add(&folders[0], "root", "correct horse", &["--admin"]);
    await_login(&one, "root", "correct horse", true);
    drop(nats);
    await_some("the loss is noticed", || {
        readyz(&one).contains("degraded: backbone").then_some(())
    });
    // Another server, without the data of the first.
    let nats = Nats::start_at(port, "");
    await_member(&one);
    assert!(logs_in(&one, "root", "correct horse"));
    let two = start(&settings[1], folders[1].path());
    assert!(logs_in(&two, "root", "correct horse"));

    // The bucket alone is removed, while the nodes are connected.
    let removed = nats.request("$JS.API.STREAM.DELETE.KV_GP_USERS", "");
    assert!(removed.contains("\"success\":true"), "{removed}");
    let new = "{\"name\":\"zoe\",\"password\":\"some secret\"}";
    await_some("a node has made another bucket", || {
        (request(&one, "POST", "/admin/users", new).0 == 201).then_some(())
    });
    await_login(&two, "zoe", "some secret", true);
    assert!(logs_in(&two, "root", "correct horse"));
}

#[test]
fn an_entry_that_cannot_be_read_changes_nothing() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folder = folder();
    let one = start(&nats.settings(1), folder.path());
    add(&folder, "root", "correct horse", &["--admin"]);
    await_login(&one, "root", "correct horse", true);
    let record = "{\"space\":\"user\",\"key\":\"mallory\",\"value\":\"{}\"}";
    let of_another = format!("{{\"version\":1,\"records\":[{record}]}}");
    for stored in ["{", "{\"version\":2}", &of_another] {
        let answer = nats.request("$KV.GP_USERS.access.root", stored);
        assert!(answer.contains("KV_GP_USERS"), "{answer}");
    }
    // A later change has arrived, so those have, too.
    add(&folder, "anna", "some secret", &[]);
    await_login(&one, "anna", "some secret", true);
    assert!(logs_in(&one, "root", "correct horse"));
    let log = one.log();
    assert!(log.contains("a record of another entry"), "{log}");
    let changed = "{\"password\":\"other secret\"}";
    expect(&one, "PATCH", "/admin/users/root", changed, 503);
    assert_eq!(one.terminate(), Some(0));
    let one = start(&nats.settings(1), folder.path());
    assert!(logs_in(&one, "root", "correct horse"));
    assert!(logs_in(&one, "anna", "some secret"));
}

#[test]
fn a_server_that_joins_adds_its_users() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder(), folder()];
    for (folder, own) in folders.iter().zip(["otto", "zoe"]) {
        for name in [own, "anna"] {
            let (code, said) = user_of_database(folder, &["add", name], &format!("{own}'s secret"));
            assert_eq!(code, Some(0), "{said}");
        }
    }
    let one = start(&nats.settings(1), folders[0].path());
    let two = start(&nats.settings(2), folders[1].path());
    await_login(&one, "zoe", "zoe's secret", true);
    for gateway in [&one, &two] {
        assert!(logs_in(gateway, "otto", "otto's secret"));
        assert!(logs_in(gateway, "zoe", "zoe's secret"));
        assert!(
            logs_in(gateway, "anna", "otto's secret"),
            "the first one is the cluster's"
        );
        assert!(!logs_in(gateway, "anna", "zoe's secret"));
    }
    assert!(
        two.log().contains("is in force key=\"access.anna\""),
        "{}",
        two.log()
    );

    // A change of a node's database alone is refused.
    let (code, said) = user_of_database(&folders[1], &["passwd", "anna"], "other secret");
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("those of a cluster"), "{said}");
    // Without the cluster, the server continues with the users that it has.
    assert_eq!(two.terminate(), Some(0));
    let two = Gateway::start_in(folders[1].path(), PLAIN);
    assert!(logs_in(&two, "anna", "otto's secret"));
    let (code, said) = user_of_database(&folders[1], &["passwd", "anna"], "other secret");
    assert_eq!(code, Some(0), "{said}");
    await_login(&two, "anna", "other secret", true);
    assert!(logs_in(&one, "anna", "otto's secret"));
}

#[test]
fn a_new_node_admits_nobody_before_it_knows_the_users() {
    if nats::program().is_none() {
        return;
    }
    let port = free_port();
    let settings =
        format!("backbone.nats = [\"nats://127.0.0.1:{port}\"]\nbackbone.replicas = 1\n");
    let one = Gateway::start(&format!("{settings}{PLAIN}"));
    assert!(!admits_anybody(&one));
    assert!(
        one.log().contains("has never read the users"),
        "{}",
        one.log()
    );
    let _nats = Nats::start_at(port, "");
    await_some("the cluster has no users", || {
        admits_anybody(&one).then_some(())
    });
}
