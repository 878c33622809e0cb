//! With less disk space than `store.reserve`, or without its data folder, every listener refuses in
//! its protocol's own terms; requests that free space are accepted.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use support::{Gateway, PATIENCE, await_some, run, swaks, text_of};

const ENOUGH: &str = "rules.paths = []\nstore.reserve = \"0B\"\n";
/// No disk has so much.
const TOO_LITTLE: &str = "rules.paths = []\nstore.reserve = \"9000000GB\"\n";

/// The status of a publication by HTTP.
fn publish_by_http(gateway: &Gateway) -> String {
    let url = gateway.url("/topics/jobs/a");
    let arguments = [
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-d",
        "new",
        &url,
    ];
    text_of(&run("curl", &arguments, b""))
}

fn publish_by_mqtt(gateway: &Gateway, version: &str) -> std::process::Output {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p", &port, "-V", version, "-q", "1", "-t", "jobs/a", "-m", "x", "-d",
    ];
    run("mosquitto_pub", &arguments, b"")
}

#[test]
fn a_server_whose_log_cannot_be_written_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{ENOUGH}log.level = \"trace\"\n");
    let gateway = Gateway::start_after("exec 2>/dev/full", folder.path(), &settings);
    for _ in 0..3 {
        let output = publish_by_mqtt(&gateway, "5");
        assert!(output.status.success(), "{}", text_of(&output));
        assert_eq!(publish_by_http(&gateway), "200");
        let smtp = gateway.address("smtp").to_string();
        let smtp = swaks(&smtp, "a@example.org", "jobs+a@localhost", &[]);
        assert!(smtp.status.success(), "{}", text_of(&smtp));
    }
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn every_listener_reports_that_the_disk_is_full() {
    let gateway = Gateway::start(TOO_LITTLE);
    // RFC 5321, section 4.2.3: insufficient system storage.
    let smtp = text_of(&swaks(
        &gateway.address("smtp").to_string(),
        "a@example.org",
        "jobs+a@localhost",
        &[],
    ));
    assert!(smtp.contains("452 4.3.1"), "{smtp}");
    let lmtp = gateway.address("lmtp").to_string();
    let lmtp = text_of(&swaks(
        &lmtp,
        "a@example.org",
        "jobs+a@localhost",
        &["--protocol", "LMTP"],
    ));
    assert!(lmtp.contains("452 4.3.1"), "{lmtp}");
    // RFC 4918, section 11.5: insufficient storage.
    assert_eq!(publish_by_http(&gateway), "507");
    // MQTT 5 section 3.4.2.1: quota exceeded.
    let mqtt5 = text_of(&publish_by_mqtt(&gateway, "mqttv5"));
    assert!(mqtt5.contains("RC:151"), "{mqtt5}");
    let readyz = run("curl", &["-si", &gateway.url("/readyz")], b"");
    let readyz = text_of(&readyz);
    assert!(readyz.contains(" 503 "), "{readyz}");
    assert!(gateway.log().contains("store.reserve"), "the log says why");
}

/// MQTT 3.1.1 has no reason codes: the connection ends without the acknowledgement [MQTT-4.8.0-2].
#[test]
fn mqtt_3_1_1_ends_the_connection() {
    let gateway = Gateway::start(TOO_LITTLE);
    for qos in [1_u8, 2] {
        let mut stream = TcpStream::connect(gateway.address("mqtt")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
            .write_all(b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01p")
            .expect("the CONNECT");
        let mut connack = [0; 4];
        stream.read_exact(&mut connack).expect("the CONNACK");
        assert_eq!(connack, [0x20, 2, 0, 0]);
        stream
            .write_all(&[0x30 | qos << 1, 6, 0, 1, b'a', 0, 7, b'x'])
            .expect("the PUBLISH");
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "QoS {qos}: {rest:?}");
    }
}

#[test]
fn requests_that_free_space_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let take = |gateway: &Gateway, further: &[&str]| {
        let port = gateway.port("mqtt");
        let mut arguments = vec!["-p", &port, "-c", "-q", "1", "-i", "reader", "-t", "jobs/#"];
        arguments.extend(further);
        run("mosquitto_sub", &arguments, b"")
    };
    let gateway = Gateway::start_in(folder.path(), ENOUGH);
    take(&gateway, &["-E"]);
    for _ in 0..3 {
        let published = publish_by_mqtt(&gateway, "mqttv311");
        assert!(published.status.success(), "{}", text_of(&published));
    }
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), TOO_LITTLE);
    assert_eq!(text_of(&take(&gateway, &["-C", "3"])), "x\nx\nx\n");
    let nothing = |gateway: &Gateway| {
        let taken = text_of(&take(gateway, &["-C", "1", "-W", "1"]));
        (taken.trim() == "Timed out").then_some(())
    };
    await_some("all is acknowledged", || nothing(&gateway));
    assert_eq!(gateway.terminate(), Some(0));

    // The acknowledgements were stored: only new messages are delivered.
    let gateway = Gateway::start_in(folder.path(), ENOUGH);
    assert_eq!(publish_by_http(&gateway), "200");
    assert_eq!(text_of(&take(&gateway, &["-C", "1"])), "new\n");
    // At QoS 1 it may come again, since the client leaves as soon as it has it.
    await_some("the new one is acknowledged", || nothing(&gateway));
}

/// Nothing can be stored in a removed folder; the log reports this now and then, not for each
/// message.
#[test]
fn a_removed_data_folder_is_noticed() {
    const REQUESTS: u64 = 100;
    let gateway = Gateway::start(ENOUGH);
    assert_eq!(publish_by_http(&gateway), "200");
    let began = Instant::now();
    std::fs::remove_dir_all(gateway.folder.join("gatepost-data")).expect("removed");
    // The commit that notices it is refused as the later ones are.
    for _ in 0..REQUESTS {
        assert_eq!(publish_by_http(&gateway), "503");
    }
    let mqtt5 = text_of(&publish_by_mqtt(&gateway, "mqttv5"));
    assert!(mqtt5.contains("RC:1"), "a failure: {mqtt5}");
    // RFC 3463, section 3.4: the mail system, not its policy.
    let smtp = gateway.address("smtp").to_string();
    let smtp = text_of(&swaks(&smtp, "a@example.org", "jobs+a@localhost", &[]));
    assert!(smtp.contains("\n<** 451 4.3.0 "), "{smtp}");
    let lmtp = gateway.address("lmtp").to_string();
    let protocol = ["--protocol", "LMTP"];
    let lmtp = text_of(&swaks(
        &lmtp,
        "a@example.org",
        "jobs+a@localhost",
        &protocol,
    ));
    assert!(lmtp.contains("\n<** 451 4.3.0 "), "{lmtp}");
    let readyz = text_of(&run("curl", &["-si", &gateway.url("/readyz")], b""));
    assert!(readyz.contains(" 503 "), "{readyz}");
    let log = gateway.log();
    let lines = log.lines().filter(|line| line.contains(" store: "));
    let (lines, seconds) = (lines.count() as u64, began.elapsed().as_secs());
    assert!(lines >= 1, "{log}");
    // One of each kind in a second: the failed commit, and the missing file.
    assert!(lines <= 2 * (seconds + 1), "{lines} in {seconds} s: {log}");
}
