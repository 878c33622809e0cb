//! Rules are loaded beside the listeners, and only where something needs them. The rule file here
//! is a named pipe: reading it lasts until the test writes the rules, and a pipe that no one has
//! opened cannot be opened for writing without waiting.

#[path = "support/mod.rs"]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use tempfile::TempDir;

use support::{Gateway, await_some, post, run, swaks, text_of};

const RULES: &str = "header LOCAL Subject =~ /local/\nscore LOCAL 10\n";

/// The settings that turn off all but MQTT and the web.
const WEB_ONLY: &str = "listeners.smtp.bind = []\nlisteners.lmtp.bind = []\n\
    listeners.milter.bind = []\nlisteners.spamd.bind = []\nlisteners.call.bind = []\n";

/// A rule file that is a pipe.
struct RulePipe(PathBuf);

impl RulePipe {
    fn make(folder: &Path) -> Self {
        let path = folder.join("rules.cf");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a pipe");
        Self(path)
    }

    fn settings(&self) -> String {
        format!("rules.paths = [\"{}\"]\n", self.0.display())
    }

    /// The pipe to write to, if the server reads it.
    fn open(&self) -> Option<File> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&self.0);
        opened.ok()
    }

    fn write_when_read(&self) {
        let mut pipe = await_some("the server reads the rules", || self.open());
        pipe.write_all(RULES.as_bytes()).expect("written");
    }
}

/// A server that has not read its rules yet.
fn start(settings: &str) -> (TempDir, RulePipe, Gateway) {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = RulePipe::make(folder.path());
    let settings = format!("{}{settings}", pipe.settings());
    let gateway = Gateway::start_in(folder.path(), &settings);
    (folder, pipe, gateway)
}

fn readyz(gateway: &Gateway) -> String {
    text_of(&run("curl", &["-si", &gateway.url("/readyz")], b""))
}

fn rules_state(gateway: &Gateway) -> String {
    let output = run("curl", &["-sf", &gateway.url("/admin/rules")], b"");
    let rules: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    rules["state"].as_str().expect("a state").to_owned()
}

fn send(server: &str, subject: &str) -> String {
    let subject = format!("Subject: {subject}");
    text_of(&swaks(
        server,
        "sender@example.org",
        "alarms+fire@localhost",
        &["--header", &subject, "--timeout", "60"],
    ))
}

#[test]
fn listeners_serve_while_rules_are_loaded_and_mail_is_judged_by_them() {
    let (_folder, pipe, gateway) = start("");
    assert!(post(&gateway, "a/b", "served").starts_with("HTTP/1.1 20"));
    let ready = readyz(&gateway);
    assert!(
        ready.contains(" 200 ") && ready.contains("loading: rules"),
        "{ready}"
    );
    let server = format!("127.0.0.1:{}", gateway.port("smtp"));
    thread::scope(|scope| {
        let spam = scope.spawn(|| send(&server, "local"));
        let ham = scope.spawn(|| send(&server, "other"));
        await_some("both mails wait", || {
            let metrics = run("curl", &["-sf", &gateway.url("/metrics")], b"");
            let metrics = text_of(&metrics);
            let waiting = metrics
                .lines()
                .find_map(|line| line.strip_prefix("gatepost_messages_waiting_for_network "))
                .map(str::to_owned);
            (waiting.expect("the figure") == "2").then_some(())
        });
        pipe.write_when_read();
        let spam = spam.join().expect("sent");
        assert!(spam.contains("550 ") && spam.contains("LOCAL"), "{spam}");
        let ham = ham.join().expect("sent");
        assert!(ham.contains("250 2.0.0") || ham.contains("250 "), "{ham}");
        assert!(!ham.contains("LOCAL"), "{ham}");
    });
    assert!(!readyz(&gateway).contains("loading"));
    assert_eq!(rules_state(&gateway), "loaded");
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn a_server_for_mqtt_and_the_web_reads_no_rules_until_something_needs_them() {
    let (folder, pipe, gateway) = start(WEB_ONLY);
    assert!(post(&gateway, "a/b", "served").starts_with("HTTP/1.1 20"));
    assert!(!readyz(&gateway).contains("loading"));
    assert_eq!(rules_state(&gateway), "unneeded");
    gateway.signal("HUP");
    await_some("it has reloaded", || {
        gateway.log().contains("reloaded").then_some(())
    });
    assert_eq!(rules_state(&gateway), "unneeded");
    assert!(pipe.open().is_none(), "no one reads the rules");

    // A reload with a scope that runs them loads them, for a listener that judges mail.
    let text = fs::read_to_string(folder.path().join("gatepost.toml")).expect("the config");
    let text = text.replace(
        "listeners.spamd.bind = []",
        "listeners.spamd.bind = [\"127.0.0.1:0\"]",
    );
    fs::write(folder.path().join("gatepost.toml"), text).expect("a config");
    gateway.signal("HUP");
    pipe.write_when_read();
    await_some("the rules are loaded", || {
        (rules_state(&gateway) == "loaded").then_some(())
    });
    assert_eq!(gateway.terminate(), Some(0));
}

/// Before free memory was given back, this was 36 MB and more; 9 MB while the allocator took its
/// first memory in pages of 2 MB; now it is 4 to 6.
#[test]
fn a_server_for_mqtt_and_the_web_holds_little_memory() {
    const HELD_KB_MAX: u64 = 12_000;
    let threads = "workers.count = 2\nprocedures.judges = 2\naccess.hashing_threads = 1\n";
    let (_folder, _pipe, gateway) = start(&format!("{WEB_ONLY}{threads}"));
    assert!(post(&gateway, "a/b", "served").starts_with("HTTP/1.1 20"));
    let held = gateway.process_status("RssAnon:");
    let held: u64 = held
        .trim_end_matches("kB")
        .trim()
        .parse()
        .expect("a number");
    assert!(held < HELD_KB_MAX, "{held} kB");
}

#[test]
fn the_first_call_loads_the_rules() {
    let (_folder, pipe, gateway) = start(WEB_ONLY);
    let url = gateway.url("/call/spamcheck");
    thread::scope(|scope| {
        let called = scope.spawn(|| {
            let kind = "Content-Type: message/rfc822";
            let mail = b"Subject: local\r\n\r\ntext\r\n";
            text_of(&run(
                "curl",
                &["-si", "-H", kind, "--data-binary", "@-", &url],
                mail,
            ))
        });
        pipe.write_when_read();
        let answer = called.join().expect("called");
        assert!(answer.contains("LOCAL"), "{answer}");
    });
    assert_eq!(rules_state(&gateway), "loaded");
}
