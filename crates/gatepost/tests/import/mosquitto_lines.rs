//! The lines of mosquitto.conf: each is carried over, or named with the reason.

use std::fs;
use std::net::TcpStream;

use super::support::{await_some, free_port, run, text_of};
use super::{Mosquitto, import};

/// Lines of mosquitto.conf, and the settings that they become.
const CARRIED: [(&str, &str); 20] = [
    ("max_inflight_messages 15", "broker.inflight_max = 15"),
    ("max_queued_messages 500", "broker.queue_messages_max = 500"),
    (
        "max_queued_bytes 1000000",
        "broker.queue_bytes_max = \"1000000B\"",
    ),
    (
        "message_size_limit 100000",
        "listeners.mqtt.packet_max = \"100000B\"",
    ),
    (
        "max_keepalive 600",
        "listeners.mqtt.keep_alive_max_seconds = 600",
    ),
    (
        "persistent_client_expiration 2w",
        "broker.session_expiry_max = \"14d\"",
    ),
    ("sys_interval 5", "broker.sys_interval = \"5s\""),
    (
        "max_connections 400",
        "listeners.mqtt.connections_max = 400",
    ),
    (
        "websockets_headers_size 2048",
        "listeners.http.head_max = \"2048B\"",
    ),
    ("allow_anonymous true", "listeners.mqtt.anonymous = \"yes\""),
    (
        "memory_limit 200000000",
        "broker.memory_max = \"200000000B\"",
    ),
    ("connection else.where", "name = \"else-where\""),
    (
        "address 127.0.0.1:1",
        "bridge.address = \"mqtt://127.0.0.1:1\"",
    ),
    ("topic # out 0", "bridge.topics = [\"# out 0\"]"),
    ("bridge_protocol_version mqttv50", "bridge.version = \"5\""),
    ("remote_username anna", "bridge.user = \"anna\""),
    (
        "remote_password hidden",
        "bridge.password_file = \"bridge-else-where.password\"",
    ),
    ("keepalive_interval 30", "bridge.keep_alive = \"30s\""),
    ("restart_timeout 2 40", "retry.longest = \"40s\""),
    (
        "notification_topic bridges/one",
        "bridge.notification_topic = \"bridges/one\"",
    ),
];

/// Lines without a setting of their own.
const LEFT_OUT: [&str; 10] = [
    "persistence false",
    "log_type error",
    "retain_available true",
    "queue_qos0_messages false",
    "upgrade_outgoing_qos false",
    "use_username_as_clientid true",
    "check_retain_source true",
    "allow_duplicate_messages true",
    "start_type lazy",
    "round_robin true",
];

#[test]
fn each_line_of_mosquitto_conf_is_carried_over_or_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let mut text = format!("listener {port} 127.0.0.1\n");
    for line in CARRIED.iter().map(|(line, _)| *line).chain(LEFT_OUT) {
        text.push_str(line);
        text.push('\n');
    }
    let config = folder.path().join("mosquitto.conf");
    fs::write(&config, &text).expect("written");
    // mosquitto takes the file as it stands.
    drop(Mosquitto::start(&config, port));
    let (done, said) = import(&[&config.display().to_string()]);
    assert!(done, "{said}");
    for (line, setting) in CARRIED {
        assert!(
            said.contains(&format!("\n{setting}\n")),
            "{line}: no {setting} in\n{said}"
        );
    }
    for line in LEFT_OUT {
        assert!(
            said.contains(&format!(": {line}\n#     ")),
            "{line} is not named in\n{said}"
        );
    }
    assert!(said.contains("10 lines are not imported"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
    // The file that the command writes is a config.
    let target = folder.path().join("new");
    let (done, said) = import(&[
        &config.display().to_string(),
        "--write",
        &target.display().to_string(),
    ]);
    assert!(done, "{said}");
    let secret = target.join("bridge-else-where.password");
    assert_eq!(fs::read_to_string(secret).expect("written"), "hidden\n");
    let target = target.join("gatepost.toml");
    let show = ["config", "--config", &target.display().to_string()];
    let shown = run(env!("CARGO_BIN_EXE_gatepost"), &show, b"");
    assert!(shown.status.success(), "{}", text_of(&shown));
}

/// `port` after `listener` opens a further listener, wherever it is.
#[test]
fn the_default_listener_of_mosquitto_is_imported_beside_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (named, default, secret) = (free_port(), free_port(), free_port());
    let keys = folder.path().join("keys");
    fs::write(&keys, "anna:00112233\n").expect("written");
    let config = folder.path().join("mosquitto.conf");
    let text = format!(
        "max_connections 50\nlistener {named} 127.0.0.1\nallow_anonymous true\n\
         port {default}\nbind_address 127.0.0.1\n\
         listener {secret} 127.0.0.1\npsk_hint keys\npsk_file {}\n",
        keys.display()
    );
    fs::write(&config, text).expect("written");
    let broker = Mosquitto::start(&config, named);
    for port in [default, secret] {
        await_some("mosquitto listens", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }
    drop(broker);
    let (done, said) = import(&[&config.display().to_string()]);
    assert!(done, "{said}");
    let bind = format!("bind = [\"127.0.0.1:{default}\", \"127.0.0.1:{named}\"]\n");
    assert!(said.contains(&bind), "no {bind} in\n{said}");
    let left_out = format!(": listener {secret} 127.0.0.1\n#     ");
    assert!(said.contains(&left_out), "{said}");
}
