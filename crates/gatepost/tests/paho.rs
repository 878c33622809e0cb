//! Eclipse paho for Python, in both of its APIs and every version of MQTT, against the gateway.

mod support;

use support::{Gateway, await_some, paho, run, text_of};

fn everywhere(scenario: &str, settings: &str, prepare: impl Fn(&Gateway)) {
    for version in ["3", "4", "5"] {
        let gateway = Gateway::start(&format!("rules.paths = []\n{settings}"));
        prepare(&gateway);
        let port = gateway.port("mqtt");
        // One server for both: the second starts with the state that the first leaves.
        for api in ["paho-1", "paho-2"] {
            paho(api, &[scenario, "--version", version, "--port", &port]);
        }
    }
}

#[test]
fn publications_of_every_level_arrive_in_order() {
    everywhere("round-trip", "", |_| {});
}

#[test]
fn sessions_keep_what_their_clients_miss() {
    everywhere("sessions", "", |_| {});
}

#[test]
fn wills_are_published_for_those_who_are_lost() {
    everywhere("wills", "", |_| {});
}

#[test]
fn a_full_retained_store_stops_no_publisher() {
    let settings = "broker.retained_messages_max = 1\n";
    everywhere("retained-limit", settings, |_| {});
}

#[test]
fn groups_share_their_publications() {
    everywhere("shared", "", |_| {});
}

#[test]
fn users_must_log_in_and_keep_to_their_rules() {
    everywhere("users", "", |gateway| {
        let data = format!("data={}", gateway.folder.join("gatepost-data").display());
        for arguments in [
            &["add", "anna"][..],
            &["grant", "anna", "publish,subscribe", "home/%u/#"],
        ] {
            let arguments = [&["user"], arguments, &["--set", &data]].concat();
            let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
            assert!(output.status.success(), "{}", text_of(&output));
        }
        let port = gateway.port("mqtt");
        await_some("the rule is in force", || {
            let user = ["-u", "anna", "-P", "secret", "-V", "5", "-q", "1", "-d"];
            let message = ["-p", &port, "-t", "elsewhere", "-m", "x"];
            let output = text_of(&run("mosquitto_pub", &[&user[..], &message].concat(), b""));
            output.contains("RC:135").then_some(())
        });
    });
}
