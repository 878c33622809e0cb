//! The how-to guide for Home Assistant: users, settings, procedure and discovery messages as they
//! are printed there, with a device's library and the clients that Home Assistant is built of.

use std::path::Path;

use crate::support::{Gateway, await_some, command, root, run, text_of};
use crate::{block_of, judging_gateway};

const PAGE: &str = "docs/how-to/home-assistant.md";

/// Enters the commands for users against the running gateway.
fn add_users(gateway: &Gateway) {
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    for line in block_of(PAGE, "Users", "sh").lines() {
        let line = line.replace('\'', "");
        let arguments = line
            .strip_prefix("gatepost ")
            .and_then(|line| line.strip_suffix(" --config gatepost.toml"))
            .unwrap_or_else(|| panic!("a command with a configuration: {line}"));
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.extend(["--set", &data]);
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(output.status.success(), "{line}: {}", text_of(&output));
    }
    // The last rule is in force: what it permits is granted, anything else is refused.
    await_some("the rules are in force", || {
        let port = gateway.port("mqtt");
        let subscribe = |topic| {
            let user = ["-p", &port, "-V", "5", "-u", "boiler", "-P", "secret"];
            let more = ["-t", topic, "-E", "-d"];
            text_of(&run("mosquitto_sub", &[&user[..], &more].concat(), b""))
        };
        let granted = subscribe("homeassistant/status").contains("Subscribed (mid: 1): 0");
        let refused = subscribe("alarms/freezer").contains("Subscribed (mid: 1): 135");
        (granted && refused).then_some(())
    });
}

/// Publishes a discovery message by the command of the page.
fn announce(gateway: &Gateway, folder: &Path, heading: &str, topic: &str) {
    let file = folder.join("discovery.json");
    std::fs::write(&file, block_of(PAGE, heading, "json")).expect("written");
    let port = gateway.port("mqtt");
    let file = file.display().to_string();
    let user = ["-p", &port, "-u", "root", "-P", "secret", "-q", "1", "-r"];
    let message = ["-t", topic, "-f", &file];
    let output = run("mosquitto_pub", &[&user[..], &message].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn devices_alarms_and_mail_are_entities() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let mail = "The latest mail as a sensor";
    let procedure = block_of(PAGE, mail, "lua");
    std::fs::write(procedures.join("mail-to-home.luau"), procedure).expect("written");
    let settings = [
        "rules.paths = []\n",
        &block_of(PAGE, "An alarm as a binary sensor", "toml"),
        &block_of(PAGE, mail, "toml"),
    ];
    let gateway = judging_gateway(folder.path(), &settings.concat());
    add_users(&gateway);
    let alarm = "homeassistant/binary_sensor/gatepost_freezer/config";
    announce(
        &gateway,
        folder.path(),
        "An alarm as a binary sensor",
        alarm,
    );
    let sensor = "homeassistant/sensor/gatepost_mail/config";
    announce(&gateway, folder.path(), mail, sensor);

    let packages = root().join(".peers/home-assistant");
    assert!(
        packages.exists(),
        "{}: run tests/install-peers",
        packages.display()
    );
    let output = command("python3")
        .arg(root().join("tests/home-assistant/client.py"))
        .args([
            "--port",
            &gateway.port("mqtt"),
            "--smtp",
            &gateway.port("smtp"),
        ])
        .env("PYTHONPATH", packages)
        .output()
        .expect("the peer python3 starts");
    let text = text_of(&output);
    assert!(output.status.success(), "{text}\n{}", gateway.log());
}
