//! Rules, procedures and scopes are reloaded while the listeners continue to serve.

use std::fs;
use std::io::Write;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc;

use super::json;
use super::support::{Gateway, PATIENCE, command, run, swaks, text_of};

#[test]
fn a_reload_reports_its_changes_and_a_check_changes_nothing() {
    let gateway = Gateway::start("rules.paths = [\"rules\"]\n");
    let rules = gateway.folder.join("rules");
    fs::create_dir(&rules).expect("a folder");
    let write = |text: &str| fs::write(rules.join("a.cf"), text).expect("written");
    write("body ONE /one/\nscore ONE 1\nbody TWO /two/\nscore TWO 1\n");
    let reload = |path: &str| json(&gateway, path, &["-X", "POST"]);
    assert_eq!(reload("/admin/reload")["applied"], true);
    write("body ONE /one/\nscore ONE 2\nbody THREE /three/\nscore THREE 1\n");
    let config = gateway.folder.join("gatepost.toml");
    let before = fs::read_to_string(&config).expect("a config");
    let scope = "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/spamcheck\"]\n";
    fs::write(&config, before.clone() + scope).expect("written");
    for (path, applied) in [("/admin/reload?check=1", false), ("/admin/reload", true)] {
        let report = reload(path);
        assert_eq!(report["applied"], applied, "{report}");
        assert_eq!(
            report["rules"]["added"],
            serde_json::json!(["THREE"]),
            "{report}"
        );
        assert_eq!(
            report["rules"]["removed"],
            serde_json::json!(["TWO"]),
            "{report}"
        );
        assert_eq!(
            report["rules"]["changed"],
            serde_json::json!(["ONE"]),
            "{report}"
        );
    }
    let report = reload("/admin/reload");
    assert_eq!(
        report["rules"]["changed"],
        serde_json::json!([]),
        "{report}"
    );
    fs::write(
        &config,
        before + "[[scope]]\npath = \"/x\"\nrun = [\"/nothing\"]\n",
    )
    .expect("written");
    let report = reload("/admin/reload");
    assert_eq!(report["possible"], false, "{report}");
    assert!(
        report["problems"].to_string().contains("/nothing"),
        "{report}"
    );
}

/// Sends a POST request, and continues. The limits of the store are among what a reload changes.
#[test]
fn a_reload_ends_the_history() {
    let gateway = Gateway::start("rules.paths = []\n");
    let publish = |text: &str| {
        let arguments = ["-s", "--fail", "-d", text, &gateway.url("/topics/kept")];
        let sent = run("curl", &arguments, b"");
        assert!(sent.status.success(), "{}", text_of(&sent));
    };
    publish("first");
    let config = gateway.folder.join("gatepost.toml");
    let settings = fs::read_to_string(&config).expect("a config");
    fs::write(&config, settings + "store.history_messages_max = 0\n").expect("written");
    let report = json(&gateway, "/admin/reload", &["-X", "POST"]);
    assert_eq!(report["applied"], true, "{report}");
    publish("second");
    let database = gateway.folder.join("gatepost-data/gatepost.db");
    let database = rusqlite::Connection::open(database).expect("the database");
    let count = "SELECT count(*) FROM history WHERE payload = CAST('second' AS BLOB)";
    let kept: u64 = database
        .query_row(count, (), |row| row.get(0))
        .expect("a number");
    assert_eq!(kept, 0);
}

fn begin_post(gateway: &Gateway, path: &str) -> Child {
    let mut curl = command("curl");
    curl.args(["-s", "-X", "POST", &gateway.url(path)])
        .stdout(Stdio::piped());
    curl.spawn().expect("the peer curl starts")
}

/// The report in the answer; the limit is generous, and only reached by a defect.
fn report_of(reloading: Child) -> serde_json::Value {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(reloading.wait_with_output()));
    let output: Output = receiver
        .recv_timeout(PATIENCE)
        .expect("an answer")
        .expect("curl ends");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A config that is a pipe holds a reload for as long as the test wants: it is read when the test
/// has written it.
#[test]
fn listeners_go_on_during_a_reload_and_the_next_reload_waits() {
    let gateway = Gateway::start("rules.paths = []\n");
    let config = gateway.folder.join("gatepost.toml");
    let text = fs::read_to_string(&config).expect("a config");
    fs::remove_file(&config).expect("removed");
    let made = run("mkfifo", &[config.to_str().expect("UTF-8")], b"");
    assert!(made.status.success(), "{}", text_of(&made));

    let mut first = begin_post(&gateway, "/admin/reload");
    let (sender, opened) = mpsc::channel();
    let pipe = config.clone();
    // To open it for writing waits for its reader.
    std::thread::spawn(move || sender.send(fs::OpenOptions::new().write(true).open(pipe)));
    let pipe = opened.recv_timeout(PATIENCE);
    let mut pipe = pipe.expect("the config is read").expect("a pipe");
    // The next reload finds a file there again.
    let fixed = gateway.folder.join("fixed.toml");
    fs::write(&fixed, &text).expect("written");
    fs::rename(fixed, &config).expect("renamed");
    let mut second = begin_post(&gateway, "/admin/reload?check=1");

    let server = gateway.address("smtp").to_string();
    let mail = swaks(&server, "a@example.org", "alarms+fire@localhost", &[]);
    assert!(mail.status.success(), "{}", text_of(&mail));
    let port = gateway.port("mqtt");
    let publish = ["-p", &port, "-q", "1", "-t", "hall/door", "-m", "open"];
    let published = run("mosquitto_pub", &publish, b"");
    assert!(published.status.success(), "{}", text_of(&published));
    let posted = json(&gateway, "/topics/hall/lamp", &["-d", "on"]);
    assert_eq!(posted["verdict"], "accept", "{posted}");
    json(&gateway, "/admin/state", &[]);
    for reload in [&mut first, &mut second] {
        let ended = reload.try_wait().expect("our child");
        assert!(ended.is_none(), "it waits: {ended:?}");
    }

    let scope = "[[scope]]\npath = \"/separate\"\nrun = [\"/noop\"]\n";
    pipe.write_all((text + scope).as_bytes()).expect("written");
    drop(pipe);
    let report = report_of(first);
    assert_eq!(report["applied"], true, "{report}");
    // It is compared with the settings that the first one put in force.
    let report = report_of(second);
    assert_eq!(report["possible"], true, "{report}");
    assert_eq!(report["applied"], false, "{report}");
    assert_eq!(
        report["scopes"]["removed"],
        serde_json::json!(["/separate"]),
        "{report}"
    );
}
