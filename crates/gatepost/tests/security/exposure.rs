//! Warnings of the check and the start about exposed configs and files, variables of other programs
//! in the environment, and the record of changes by administrators.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::authority::Authority;
use crate::support::{Gateway, await_some, post, run, swaks, text_of};

fn set_mode(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("set");
}

/// Limits that are switched off, and files that others can read.
#[test]
fn the_check_and_the_start_report_what_is_exposed() {
    let folder = tempfile::tempdir().expect("a folder");
    Authority::new(folder.path(), "authority").sign("mx", "mx.example", &["mx.example"]);
    let path = |file: &str| folder.path().join(file);
    let data = path("gatepost-data");
    std::fs::create_dir(&data).expect("a folder");
    set_mode(&data, 0o755);
    // A database of an earlier start.
    assert_eq!(
        Gateway::start_in(folder.path(), "rules.paths = []\n").terminate(),
        Some(0)
    );
    // In a folder that others could read, it was created for the server's account alone.
    let created = std::fs::metadata(data.join("gatepost.db")).expect("a database");
    assert_eq!(created.permissions().mode() & 0o077, 0);
    for (file, mode) in [
        (path("mx.key"), 0o644),
        (data.clone(), 0o755),
        (data.join("gatepost.db"), 0o644),
    ] {
        set_mode(&file, mode);
    }
    let settings = format!(
        "rules.paths = []\nlisteners.http.connections_max = 0\n\
         listeners.mqtt.connections_max = 0\nlisteners.mqtt.connections_per_address_max = 0\n\
         listeners.smtp.data_rate_min = \"0B\"\nlisteners.mqtt.packet_rate_min = \"0B\"\n\
         listeners.smtp.tls.cert = '{}'\nlisteners.smtp.tls.key = '{}'\n",
        path("mx.pem").display(),
        path("mx.key").display()
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let config = path("gatepost.toml").display().to_string();
    let data = format!("data={}", data.display());
    let arguments = ["check", "--security", "--config", &config, "--set", &data];
    let check = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert_eq!(check.status.code(), Some(1), "{}", text_of(&check));
    let (check, log) = (text_of(&check), gateway.log());
    for warning in [
        "listeners.http.connections_max = 0: no limit",
        "listeners.mqtt.connections_max = 0: no limit",
        "listeners.mqtt.connections_per_address_max = 0: no limit",
        "listeners.smtp.data_rate_min = 0: no limit",
        "listeners.mqtt.packet_rate_min = 0: no limit",
        "mx.key has mode 0644, so others can reach it: chmod 0640",
        "gatepost-data has mode 0755, so others can reach it: chmod 0700",
        "gatepost.db has mode 0644, so others can reach it: chmod 0600",
    ] {
        assert!(check.contains(warning), "{warning}: {check}");
        assert!(log.contains(warning), "{warning}: {log}");
    }
    // Off by default: a fact, which a start does not repeat.
    let note = "note: broker.publishes_per_second_max = 0: no limit";
    assert!(check.contains(note), "{check}");
    assert!(!log.contains("publishes_per_second_max"), "{log}");
}

/// The umask is that of the packaged unit: the socket is for other users' programs nevertheless,
/// such as `spamc` and mail servers, and the data is not.
#[test]
fn the_folder_of_a_unix_socket_decides_who_connects() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("spamd.sock");
    let settings = format!(
        "rules.paths = []\nlisteners.spamd.bind = [\"unix:{}\"]\n",
        socket.display()
    );
    let _gateway = Gateway::start_after("umask 0077", folder.path(), &settings);
    let mode = |path: &Path| std::fs::metadata(path).expect("made").permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o777);
    let data = folder.path().join("gatepost-data");
    assert_eq!(
        (mode(&data), mode(&data.join("gatepost.db"))),
        (0o700, 0o600)
    );
}

#[test]
fn a_server_that_stays_root_warns() {
    if !super::is_root("the warning of a server that stays root") {
        return;
    }
    for (user, warning) in [
        ("user = \"\"\n", "the server remains root: `user` is empty"),
        ("", "the server remains root: there is no user 'gatepost'"),
    ] {
        let users = std::fs::read_to_string("/etc/passwd").expect("the users");
        if user.is_empty() && users.lines().any(|line| line.starts_with("gatepost:")) {
            continue; // It becomes this user.
        }
        let gateway = Gateway::start(&format!("rules.paths = []\n{user}"));
        assert!(gateway.log().contains(warning), "{}", gateway.log());
    }
}

/// Rules and quarantine are changed by the API, by an administrator whose name is recorded.
#[test]
fn changes_of_rules_and_quarantine_are_in_the_audit_log() {
    const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
    let gateway = Gateway::start(
        "rules.paths = []\naccess.default = \"allow\"\n\
         procedure.\"/spamcheck\".action = \"quarantine\"\n",
    );
    let curl = |path: &str, more: &[&str]| {
        let url = gateway.url(path);
        let login = [
            "-s",
            "-u",
            "root:secret of root",
            "-H",
            "Content-Type: application/json",
        ];
        let output = run("curl", &[&login[..], more, &[url.as_str()]].concat(), b"");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let root = r#"{"name":"root","password":"secret of root","admin":true}"#;
    curl("/admin/users", &["-d", root]);
    let rule = r#"{"effect":"deny","access":["publish"],"filter":"home/#"}"#;
    curl("/admin/users/everyone/rules", &["-d", rule]);
    let gone = "/admin/users/everyone/rules?access=publish&filter=home/%23";
    curl(gone, &["-X", "DELETE"]);
    let server = gateway.address("smtp").to_string();
    let kept = await_some("mail is in the quarantine", || {
        swaks(
            &server,
            "a@example.org",
            "alarms@localhost",
            &["--body", GTUBE],
        );
        let answer: serde_json::Value =
            serde_json::from_str(&curl("/admin/quarantine", &[])).ok()?;
        Some(answer["messages"].get(0)?["id"].as_str()?.to_owned())
    });
    let path = format!("/admin/quarantine/{kept}");
    curl(&format!("{path}/release"), &["-X", "POST"]);
    let log = gateway.folder.join("gatepost-data/audit.log");
    let log = std::fs::read_to_string(log).expect("the audit log");
    for action in [
        "POST /admin/users/everyone/rules",
        "DELETE /admin/users/everyone/rules",
        &format!("POST {path}/release"),
    ] {
        let line = log.lines().find(|line| line.contains(action));
        let line = line.unwrap_or_else(|| panic!("{action}: {log}"));
        assert!(line.contains("\"actor\":\"root\""), "{line}");
        assert!(line.contains("\"origin\":\"http 127.0.0.1:"), "{line}");
    }
    assert!(!log.contains("secret"), "{log}");
}

/// Kubernetes describes a service called gatepost to every container beside it.
#[test]
fn a_service_of_our_name_does_not_stop_the_server() {
    let environment = [
        ("GATEPOST_PORT", "tcp://10.0.0.1:1883"),
        ("GATEPOST_SERVICE_HOST", "10.0.0.1"),
        ("GATEPOST_SERVICE_PORT_MQTT", "1883"),
        ("GATEPOST_PORT_1883_TCP", "tcp://10.0.0.1:1883"),
        ("GATEPOST_PORT_1883_TCP_PROTO", "tcp"),
        ("GATEPOST_NAME", "/app/gatepost"),
        ("GATEPOST_ENV_LANG", "C"),
    ];
    let check = Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(["check", "--set", "rules.paths=[]"])
        .envs(environment)
        .output()
        .expect("gatepost runs");
    assert!(check.status.success(), "{}", text_of(&check));
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "rules.paths = []\n";
    let gateway = Gateway::try_start_in(folder.path(), settings, &environment).expect("a server");
    assert!(post(&gateway, "a", "x").contains(" 200 "), "it serves");
}
