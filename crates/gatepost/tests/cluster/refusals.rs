//! Clusters that a server cannot be part of: it reports the reason and the remedy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use super::nats::{self, Nats};
use super::support::authority::Authority;
use super::support::{Gateway, free_port, text_of};
use super::{PLAIN, await_joined, node, readyz};

/// The log of a server that does not start.
pub(crate) fn refused(settings: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let started = Gateway::try_start_in(folder.path(), &format!("{settings}{PLAIN}"), &[]);
    match started {
        Ok(_) => panic!("it has started"),
        Err(log) => log,
    }
}

/// `gatepost backbone check` or `gatepost nodes` with these settings: its exit code and words.
pub(crate) fn run_with_settings(arguments: &[&str], settings: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gatepost.toml");
    std::fs::write(&config, settings).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(arguments)
        .arg("--config")
        .arg(&config)
        .output()
        .expect("it runs");
    (output.status.code(), text_of(&output))
}

#[test]
fn two_servers_of_one_number_are_refused() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let one = node(&nats, 1);
    let log = refused(&nats.settings(1));
    assert!(
        log.contains("node = 1 is taken by another running server"),
        "{log}"
    );
    assert!(
        log.contains("give each server a number of its own"),
        "{log}"
    );
    await_joined(&one, 0);
    // Ended in order, it leaves the number immediately.
    assert_eq!(one.terminate(), Some(0));
    let again = node(&nats, 1);
    // Killed, it leaves the number a little later: the next start does not wait for that.
    again.kill();
    let again = node(&nats, 1);
    await_joined(&again, 0);
}

#[test]
fn wrong_credentials_are_named() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("authorization { user: gatepost, password: right }");
    let password = |text: &str| {
        let path = nats.folder().join(text);
        std::fs::write(&path, format!("{text}\n")).expect("written");
        format!(
            "{}backbone.user = \"gatepost\"\nbackbone.password_file = \"{}\"\n",
            nats.settings(1),
            path.display()
        )
    };
    let log = refused(&password("wrong"));
    assert!(log.contains("refuse the login"), "{log}");
    assert!(log.contains("backbone.password_file"), "{log}");
    let settings = format!("{}{PLAIN}", password("right"));
    let one = Gateway::start(&settings);
    await_joined(&one, 0);
    let (code, text) = run_with_settings(&["nodes"], &password("right"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("1 "), "{text}");
    let missing = "backbone.user = \"a\"\nbackbone.password_file = \"/no/such\"\n";
    let log = refused(&format!("{}{missing}", nats.settings(1)));
    assert!(log.contains("/no/such cannot be used"), "{log}");
}

/// A server that reports this version to each connection, and whether it has JetStream.
fn stand_in(version: &'static str, has_jetstream: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let info = format!(
                    "INFO {{\"server_id\":\"x\",\"server_name\":\"other\",\
                     \"version\":\"{version}\",\"proto\":1,\"host\":\"127.0.0.1\",\
                     \"port\":{port},\"headers\":true,\"max_payload\":1048576,\
                     \"jetstream\":{has_jetstream},\"client_id\":1,\"go\":\"x\"}}\r\n"
                );
                let _ = stream.write_all(info.as_bytes());
                let mut input = [0; 4096];
                while stream.read(&mut input).is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(b"PONG\r\n");
                }
            });
        }
    });
    port
}

#[test]
fn an_engine_that_is_too_old_is_refused() {
    let port = stand_in("2.10.29", true);
    let settings = format!("backbone.nats = [\"nats://127.0.0.1:{port}\"]\n");
    let log = refused(&settings);
    assert!(
        log.contains("nats-server 2.10.29 is too old: update it to 2.15"),
        "{log}"
    );
    let (code, text) = run_with_settings(&["backbone", "check"], &settings);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("update it to 2.15"), "{text}");
}

#[test]
fn a_nats_server_without_jetstream_is_left_for_another_one() {
    if nats::program().is_none() {
        return;
    }
    // As after a full disk of that server.
    let port = stand_in("2.15.2", false);
    let without = format!("\"nats://127.0.0.1:{port}\"");
    let log = refused(&format!("backbone.nats = [{without}]\n"));
    assert!(log.contains("have no JetStream for this account"), "{log}");
    let nats = Nats::start("");
    let settings = nats.settings(1);
    let settings = settings.replacen("nats = [", &format!("nats = [{without}, "), 1);
    assert!(settings.contains(&without), "{settings}");
    let one = Gateway::start(&format!("{settings}{PLAIN}"));
    await_joined(&one, 0);
}

#[test]
fn without_a_nats_server_a_node_starts() {
    let settings = format!(
        "backbone.nats = [\"nats://127.0.0.1:{}\"]\n{PLAIN}",
        free_port()
    );
    let one = Gateway::start(&settings);
    assert!(
        readyz(&one).contains("degraded: backbone"),
        "{}",
        readyz(&one)
    );
    let log = one.log();
    assert!(
        log.contains("no NATS server of backbone.nats can be reached"),
        "{log}"
    );
    assert_eq!(one.terminate(), Some(0));
    let (code, text) = run_with_settings(&["nodes"], "");
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("backbone.nats"), "{text}");
}

#[test]
fn check_reports_each_problem_with_its_remedy() {
    if nats::program().is_none() {
        return;
    }
    let monitoring = free_port();
    let nats = Nats::start(&format!("http: \"127.0.0.1:{monitoring}\""));
    let watched = |more: &str| {
        let address = format!("backbone.monitoring = [\"http://127.0.0.1:{monitoring}\"]\n");
        format!("{}{address}{more}", nats.settings(1))
    };
    let (code, text) = run_with_settings(
        &["backbone", "check"],
        &watched("listeners.mqtt.packet_max = \"1MB\"\n"),
    );
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("writes to the disk before it acknowledges"),
        "{text}"
    );
    let (code, text) = run_with_settings(
        &["backbone", "check"],
        &watched("listeners.mqtt.packet_max = \"9MB\"\n"),
    );
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("raise max_payload"), "{text}");
    let (_, text) = run_with_settings(&["backbone", "check"], &nats.settings(1));
    assert!(text.contains("backbone.monitoring"), "{text}");

    let limited = Nats::start(
        "authorization { users: [ { user: gatepost, password: right, permissions: \
         { publish: [\"$JS.API.>\"], subscribe: [\"_INBOX.>\"] } } ] }",
    );
    let path = limited.folder().join("password");
    std::fs::write(&path, "right\n").expect("written");
    let settings = format!(
        "{}backbone.user = \"gatepost\"\nbackbone.password_file = \"{}\"\n",
        limited.settings(1),
        path.display()
    );
    let (code, text) = run_with_settings(&["backbone", "check"], &settings);
    assert_eq!(code, Some(69), "{text}");
    assert!(
        text.contains("permit it to publish and to subscribe gp.>"),
        "{text}"
    );
}

#[test]
fn the_connection_is_encrypted_with_certificates_of_both_sides() {
    if nats::program().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("nats", "127.0.0.1", &["127.0.0.1"]);
    authority.sign("node", "node", &["node"]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let nats = Nats::start(&format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        path("nats.pem"),
        path("nats.key"),
        path("authority.pem")
    ));
    let settings = format!(
        "{}backbone.tls_ca = \"{}\"\nbackbone.tls_cert = \"{}\"\nbackbone.tls_key = \"{}\"\n",
        nats.settings(1),
        path("authority.pem"),
        path("node.pem"),
        path("node.key")
    );
    let one = Gateway::start(&format!("{settings}{PLAIN}"));
    await_joined(&one, 0);
    // Without the authority the server is not believed.
    let (code, text) = run_with_settings(&["nodes"], &nats.settings(1));
    assert_eq!(code, Some(69), "{text}");
}

#[test]
fn a_nats_server_that_writes_later_than_it_acknowledges_is_refused() {
    if nats::program().is_none() {
        return;
    }
    let monitoring = free_port();
    let nats = Nats::start(&format!("http: \"127.0.0.1:{monitoring}\""));
    let with = |nats: &Nats, port: u16| {
        format!(
            "{}backbone.monitoring = [\"http://127.0.0.1:{port}\"]\n",
            nats.settings(1)
        )
    };
    let settings = with(&nats, monitoring);
    await_joined(&Gateway::start(&format!("{settings}{PLAIN}")), 0);
    let monitoring = free_port();
    let later = Nats::start_without_sync(&format!("http: \"127.0.0.1:{monitoring}\""));
    let settings = with(&later, monitoring);
    let log = refused(&settings);
    assert!(log.contains("sync_interval: always"), "{log}");
    let accepted = format!("{settings}backbone.require_sync = false\n{PLAIN}");
    await_joined(&Gateway::start(&accepted), 0);
}
