//! Attacks on the real server, most of which succeeded against an earlier version.

#[allow(dead_code)] // The MQTT tests of the listeners use more of it.
#[path = "../../../gatepost-listeners/tests/mqtt/scram.rs"]
mod scram;
#[path = "../support/mod.rs"]
mod support;

mod apache;
mod browser_login;
mod certified_pages;
mod exposure;
mod guesses;
mod held;
mod internal_topics;
mod kept_pages;
mod large_mail;
mod letter_case;
mod links;
mod mail_rights;
mod proxies;
mod revocation;
mod sandbox;
mod secure_cookie;
mod strangers;

use std::io::Write;
use std::path::PathBuf;

// The crates with which `scram` computes.
use hmac as _;
use pbkdf2 as _;
use sha2 as _;

use support::authority::Authority;
use support::{Gateway, add_user, await_some, post, run, send_raw, text_of};

/// Whether this test can run; if not, a line reports it even if the test passes.
fn is_root(tested: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        // Not by `eprintln`, which the test program keeps to itself where a test passes.
        let line = format!("*** not run as root: {tested} is not tested ***\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    is_root
}

fn status_line(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.lines().next().unwrap_or_default().to_owned()
}

/// A listener that is open to the world admits strangers to no other listener.
#[test]
fn a_public_mail_listener_makes_no_client_an_administrator() {
    let gateway = Gateway::start(
        "rules.paths = []\nlisteners.smtp.bind = [\"0.0.0.0:0\"]\n\
         listeners.smtp.open_to_world = true\n\
         listeners.http.trusted_proxies = [\"127.0.0.1\"]\n",
    );
    let body = r#"{"name":"mallory","password":"mallory's own","admin":true}"#;
    let request = format!(
        "POST /admin/users HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = status_line(&send_raw(gateway.address("http"), request.as_bytes()));
    assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    let list = "GET /admin/users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let list = send_raw(gateway.address("http"), list.as_bytes());
    let list = String::from_utf8_lossy(&list);
    assert!(
        list.starts_with("HTTP/1.1 200") && !list.contains("mallory"),
        "{list}"
    );
}

/// However often others guess, a client with the password is admitted from this machine.
#[test]
fn guesses_from_elsewhere_do_not_shut_this_machine_out() {
    let gateway = Gateway::start(
        "rules.paths = []\nlisteners.http.trusted_proxies = [\"127.0.0.1\"]\n\
         access.failures_per_user = 3\n\
         access.failure_recovery = \"1h\"\n\
         access.failure_wait_max = \"1s\"\nbans.points_max = 1000\n",
    );
    let added = add_user(&gateway, "anna", "secret of anna", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    let url = gateway.url("/admin/state");
    let status = |login: &str, more: &[&str]| {
        let asked = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", login];
        text_of(&run("curl", &[&asked[..], more, &[&url]].concat(), b""))
    };
    let elsewhere = ["-H", "X-Forwarded-For: 203.0.113.9"];
    await_some("anna is known", || {
        (status("anna:secret of anna", &[]) == "200").then_some(())
    });
    let guesses: Vec<String> = (0..12)
        .map(|number| status(&format!("anna:guess {number}"), &elsewhere))
        .collect();
    assert_eq!(guesses[0], "401", "{guesses:?}");
    assert_eq!(
        guesses.last().map(String::as_str),
        Some("429"),
        "{guesses:?}"
    );
    assert_eq!(status("anna:secret of anna", &[]), "200");
    // Nor for long from elsewhere: the wait has a ceiling.
    await_some("the wait is over", || {
        (status("anna:secret of anna", &elsewhere) == "200").then_some(())
    });
}

/// Procedures that nest, publish and change beyond all bounds.
#[test]
fn a_procedure_can_neither_abort_the_process_nor_take_its_memory() {
    const ATTACK: &str = r#"
return function(message)
    local deep = {}
    for _ = 1, 500000 do deep = {deep} end
    pcall(json.encode, deep)
    local text = string.rep("x", 12000000)
    for _ = 1, 80 do pcall(publish, "copies", text) end
    for _ = 1, 80 do pcall(function() message.body = text end) end
    return "accept"
end"#;
    /// `procedures.luau.memory_max` below, in kB.
    const MEMORY_MAX_KB: u64 = 65_536;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    std::fs::write(folder.path().join("procedures/attack.luau"), ATTACK).expect("written");
    let mut gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = []\nprocedures.luau.time_max = \"60s\"\n\
         procedures.luau.memory_max = \"64MiB\"\n\
         [[scope]]\npath = \"/all\"\nlisteners = [\"http\"]\nrun = [\"/attack\"]\n",
    );
    let idle_kb = gateway.peak_kb();
    for _ in 0..3 {
        let answer = post(&gateway, "a", "x");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(gateway.is_running());
    let used_kb = gateway.peak_kb() - idle_kb;
    // The machine, the call's publications and changes, and the publications of an earlier call
    // that are still being stored have at most this size each; and there are the allocator's pages.
    assert!(used_kb < 4 * MEMORY_MAX_KB, "{used_kb} kB more at the most");
}

/// The build's folder, or the home folder if the checkout is in a temporary folder: the sandbox
/// permits temporary folders, which SQLite needs.
fn folder_that_the_sandbox_refuses() -> PathBuf {
    let home = std::env::var_os("HOME").expect("HOME");
    let folders = [env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from(home)];
    let permitted = ["/tmp".into(), "/var/tmp".into(), std::env::temp_dir()];
    let is_refused = |folder: &PathBuf| !permitted.iter().any(|one| folder.starts_with(one));
    let found = folders.into_iter().find(is_refused);
    found.expect("a build or home folder that is not temporary")
}

/// Landlock and seccomp, with everything that compiles or maps code in use.
#[test]
fn the_sandbox_confines_and_lets_procedures_and_patterns_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir_in(folder_that_the_sandbox_refuses()).expect("another");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    let procedure = "return function(message) return 'tag', message.subject end";
    std::fs::write(folder.path().join("procedures/subject.luau"), procedure).expect("written");
    let rules = folder.path().join("rules.cf");
    // A lookbehind is PCRE2's.
    let rule = "body LOOKS_BACK /(?<=lottery )winner/\nscore LOOKS_BACK 7\n";
    std::fs::write(&rules, rule).expect("written");
    std::fs::write(elsewhere.path().join("other.cf"), rule).expect("written");
    let settings = |more: &str| {
        format!(
            "sandbox = \"required\"\nrules.paths = [\"{}\"{more}]\n\
             [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
             run = [\"/spamcheck\", \"/subject\"]\n",
            rules.display()
        )
    };
    let gateway = Gateway::start_in(folder.path(), &settings(""));
    assert_eq!(gateway.process_status("Seccomp:"), "2");
    assert_eq!(gateway.process_status("NoNewPrivs:"), "1");
    let server = gateway.address("smtp").to_string();
    let send = || {
        let options = ["--header", "Subject: hello", "--body", "a lottery winner"];
        support::swaks(&server, "a@example.org", "alarms@localhost", &options)
    };
    let sent = send();
    assert!(text_of(&sent).contains("LOOKS_BACK"), "{}", text_of(&sent));
    // Patterns and procedures that are compiled under it run too.
    let rule = "body LOOKS_AGAIN /(?<=lottery )(w)inne\\1?r/\nscore LOOKS_AGAIN 7\n";
    std::fs::write(&rules, rule).expect("written");
    let procedure = "return function(message) return 'tag', 'again ' .. message.subject end";
    std::fs::write(folder.path().join("procedures/subject.luau"), procedure).expect("written");
    gateway.signal("HUP");
    await_some("both are compiled again", || {
        let sent = send();
        let is_new = text_of(&sent).contains("LOOKS_AGAIN");
        is_new.then_some(())
    });
    // A folder that was not named at the start cannot be read any more.
    let config = folder.path().join("gatepost.toml");
    let text = std::fs::read_to_string(&config).expect("the config");
    let more = format!(", \"{}\"", elsewhere.path().display());
    std::fs::write(&config, text.replace(&settings(""), &settings(&more))).expect("written");
    gateway.signal("HUP");
    await_some("the folder is refused", || {
        gateway.log().contains("ermission denied").then_some(())
    });
    assert_eq!(gateway.terminate(), Some(0), "it ends cleanly");
}

/// Started as root, the server gives its privileges up once it listens on a port of root's.
#[test]
fn a_server_started_as_root_becomes_its_user() {
    if !is_root("giving up root") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The user must reach its folders.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("opened");
    let gateway = Gateway::start_in(folder.path(), "user = \"nobody\"\nrules.paths = []\n");
    let users = std::fs::read_to_string("/etc/passwd").expect("the users");
    let entry = users.lines().find(|line| line.starts_with("nobody:"));
    let ids: Vec<&str> = entry.expect("a user").split(':').collect();
    let (uid, gid) = (ids[2], ids[3]);
    for (name, id) in [("Uid:", uid), ("Gid:", gid)] {
        let ids = gateway.process_status(name);
        assert!(ids.split_whitespace().all(|one| one == id), "{name} {ids}");
    }
    assert_eq!(
        gateway.process_status("CapEff:").trim_start_matches('0'),
        ""
    );
    let groups = gateway.process_status("Groups:");
    assert!(
        groups.split_whitespace().all(|group| group == gid),
        "{groups}"
    );
    let answer = post(&gateway, "a", "x");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(gateway.terminate(), Some(0), "it ends cleanly");
}

#[test]
fn changes_are_in_the_audit_log_without_secrets() {
    let gateway = Gateway::start("rules.paths = []\n");
    let added = add_user(&gateway, "anna", "secret of anna", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let log = gateway.folder.join("gatepost-data/audit.log");
    let database = gateway.folder.join("gatepost-data/gatepost.db");
    let mode = std::fs::metadata(database).expect("the database");
    let mode = std::os::unix::fs::MetadataExt::mode(&mode);
    assert_eq!(mode & 0o077, 0, "the database is its owner's: {mode:o}");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(
        text.contains("\"action\":\"user add\"") && text.contains("\"name\":\"anna\""),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");

    let gateway = Gateway::start("rules.paths = []\n");
    let body = r#"{"name":"root","password":"secret of root","admin":true}"#;
    let arguments = [
        "-s",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
        &gateway.url("/admin/users"),
    ];
    assert!(run("curl", &arguments, b"").status.success());
    let login = ["-s", "-u", "root:secret of root"];
    let url = gateway.url("/admin/changes");
    let changes = [&login[..], &[url.as_str()]].concat();
    let changes = text_of(&run("curl", &changes, b""));
    assert!(
        changes.contains("POST /admin/users") && changes.contains("\"actor\":\"anonymous\""),
        "{changes}"
    );
    assert!(
        changes.contains("\"origin\":\"http 127.0.0.1:"),
        "{changes}"
    );
    assert!(!changes.contains("secret"), "{changes}");
}

#[test]
fn weak_passwords_are_refused_over_http_and_leave_no_user() {
    let gateway = Gateway::start("rules.paths = []\n");
    let url = gateway.url("/admin/users");
    let json = ["-s", "-H", "Content-Type: application/json"];
    for password in ["x", "12345", "mallory"] {
        let body = format!(r#"{{"name":"mallory","password":"{password}","admin":true}}"#);
        let code = ["-w", " %{http_code}", "-d", &body, &url];
        let refused = text_of(&run("curl", &[&json[..], &code].concat(), b""));
        assert!(refused.contains("too weak"), "{refused}");
        assert!(!refused.contains(" 20"), "{refused}");
    }
    let listed = text_of(&run("curl", &["-s", &url], b""));
    assert!(!listed.contains("mallory"), "{listed}");
}

#[test]
fn check_shows_what_is_exposed() {
    let check = |more: &[&str]| {
        let arguments = [&["check", "--security"], more].concat();
        run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"")
    };
    let safe = check(&["--set", "data=/nonexistent"]);
    assert_eq!(safe.status.code(), Some(0), "{}", text_of(&safe));
    assert!(
        text_of(&safe).contains("note: mqtt on 127.0.0.1:1883: this machine"),
        "{}",
        text_of(&safe)
    );
    let open = check(&[
        "--set",
        "listeners.smtp.bind=['0.0.0.0:25']",
        "--set",
        "listeners.smtp.open_to_world=true",
    ]);
    assert_eq!(open.status.code(), Some(1), "{}", text_of(&open));
    assert!(
        text_of(&open).contains("warning: listeners.smtp.open_to_world"),
        "{}",
        text_of(&open)
    );
}

/// A key that only root can read is read before the server gives up root, and never again.
#[test]
fn a_key_that_cannot_be_read_again_is_named_at_the_start() {
    if !is_root("giving up root") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &std::path::Path, mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).expect("set");
    };
    mode(folder.path(), 0o755);
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("mx", "mx.example", &["mx.example"]);
    let path = |file: &str| folder.path().join(file);
    let (cert, key) = (path("mx.pem"), path("mx.key"));
    let settings = format!(
        "user = \"nobody\"\nrules.paths = []\nlisteners.smtp.tls.cert = '{}'\n\
         listeners.smtp.tls.key = '{}'\n",
        cert.display(),
        key.display()
    );
    let warning = format!(
        "{} cannot be read by the user that the server runs as",
        key.display()
    );
    let config = path("gatepost.toml").display().to_string();
    for (key_mode, expected) in [(0o600, true), (0o604, false)] {
        mode(&key, key_mode);
        let _ = std::fs::remove_file(path("gatepost.log"));
        let gateway = Gateway::start_in(folder.path(), &settings);
        assert_eq!(
            gateway.log().contains(&warning),
            expected,
            "{}",
            gateway.log()
        );
        assert_eq!(gateway.terminate(), Some(0), "it ends cleanly");
        // The same by root, before the start.
        let arguments = ["check", "--security", "--config", &config];
        let said = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""));
        assert_eq!(said.contains(&warning), expected, "{said}");
    }
}
