//! Bridges to a real mosquitto, which is killed under load, as the server is.

use std::collections::{BTreeMap, BTreeSet};

use super::mosquitto::Mosquitto;
use super::support::authority::Authority;
use super::support::{Client, Gateway, await_some, free_port, run, text_of};
use super::{PLAIN, lines, publish, sinks};

fn bridge(mosquitto: &Mosquitto, version: &str, topics: &str) -> String {
    format!(
        "{PLAIN}[[sink]]\nname = \"plant\"\nretry.first = \"50ms\"\nretry.longest = \"500ms\"\n\
         bridge.address = \"mqtt://127.0.0.1:{}\"\nbridge.version = \"{version}\"\n\
         bridge.topics = [{topics}]\n",
        mosquitto.port()
    )
}

/// A subscriber with a kept session, which connects again by itself. In MQTT 5 mosquitto_sub ends
/// with an error after a restart of its broker amid deliveries at QoS 2.
fn keep_subscribed(port: &str, id: &str, filter: &str) -> Client {
    let session = ["-p", port, "-V", "311", "-i", id, "-c", "-q", "2"];
    let arguments = [
        &session[..],
        &["-t", filter, "-F", "got %t %p\nid %m %t %p", "-d"],
    ]
    .concat();
    let mut client = Client::start("mosquitto_sub", &arguments);
    client.await_line("SUBACK");
    client
}

/// The number of times that each message arrived.
fn counts(client: &mut Client) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let got = client.seen().iter().filter(|line| line.starts_with("got "));
    for line in got {
        *counts.entry(line[4..].to_owned()).or_default() += 1;
    }
    counts
}

/// The number of packet ids under which a message arrived. One that mosquitto's own client shows
/// twice under the same id was repeated between the two, over a restart of mosquitto.
fn packet_ids_of(client: &mut Client, message: &str) -> usize {
    let lines = client.seen().iter().filter(|line| line.starts_with("id "));
    let of_message = lines.filter(|line| line.ends_with(&format!(" {message}")));
    of_message.collect::<BTreeSet<_>>().len()
}

fn await_all(client: &mut Client, topic: &str, count: usize) -> BTreeMap<String, usize> {
    let expected: Vec<String> = lines(count)
        .iter()
        .map(|line| format!("{topic} {line}"))
        .collect();
    await_some(&format!("{count} messages under {topic}"), || {
        let counts = counts(client);
        expected
            .iter()
            .all(|line| counts.contains_key(line))
            .then_some(counts)
    })
}

fn publish_to(port: &str, topic: &str, qos: &str, lines: &[String]) {
    let arguments = ["-p", port, "-V", "5", "-q", qos, "-t", topic, "-l"];
    let output = run(
        "mosquitto_pub",
        &arguments,
        (lines.join("\n") + "\n").as_bytes(),
    );
    assert!(output.status.success(), "{}", text_of(&output));
}

fn await_connected(gateway: &Gateway) {
    await_some("the bridge is connected", || {
        sinks(gateway).contains("running").then_some(())
    });
}

#[test]
fn a_mosquitto_that_restarts_under_load_gets_every_message_at_qos_2_once() {
    for version in ["5", "3.1.1"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mosquitto = Mosquitto::start(folder.path());
        let gateway = Gateway::start(&bridge(&mosquitto, version, "\"# out 2 here/ there/\""));
        let mut subscriber = keep_subscribed(&mosquitto.port(), "reader", "there/#");
        std::thread::scope(|scope| {
            let port = gateway.port("mqtt");
            scope.spawn(move || publish_to(&port, "here/a", "2", &lines(600)));
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(150));
                mosquitto.restart();
            }
        });
        let counts = await_all(&mut subscriber, "there/a", 600);
        for (message, _) in counts.iter().filter(|(_, count)| **count > 1) {
            let ids = packet_ids_of(&mut subscriber, message);
            assert_eq!(ids, 1, "{version}: {message} in {:#?}", subscriber.seen());
        }
    }
}

#[test]
fn a_server_that_is_killed_under_load_sends_every_message_at_qos_2_once_both_ways() {
    let (here, there) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let mosquitto = Mosquitto::start(there.path());
    let settings = bridge(&mosquitto, "5", "\"out/# out 2\", \"in/# in 2\"");
    let settings = format!(
        "listeners.mqtt.bind = [\"127.0.0.1:{}\"]\n{settings}",
        free_port()
    );
    let mut gateway = Gateway::start_in(here.path(), &settings);
    await_connected(&gateway);
    let mut remote = keep_subscribed(&mosquitto.port(), "reader", "out/#");
    let mut local = keep_subscribed(&gateway.port("mqtt"), "reader", "in/#");
    for round in 0..3 {
        let topic = format!("out/{round}");
        publish(&gateway, &topic, "2", &lines(100));
        publish_to(&mosquitto.port(), &format!("in/{round}"), "2", &lines(100));
        gateway.kill();
        gateway = Gateway::start_in(here.path(), &settings);
        await_connected(&gateway);
    }
    for round in 0..3 {
        for (client, topic) in [(&mut remote, "out"), (&mut local, "in")] {
            let counts = await_all(client, &format!("{topic}/{round}"), 100);
            let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
            assert!(repeated.is_empty(), "{topic}/{round}: {repeated:?}");
        }
    }
}

#[test]
fn both_sides_of_a_connection_by_tls_prove_who_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let authority = Authority::new(path, "ours");
    authority.sign("broker", "localhost", &["localhost", "127.0.0.1"]);
    authority.sign("client", "plant", &["plant"]);
    Authority::new(path, "others");
    let (port, place) = (free_port(), path.display());
    let mosquitto = Mosquitto::start_with(
        path,
        &format!(
            "listener {port} 127.0.0.1\ncafile {place}/ours.pem\ncertfile {place}/broker.pem\n\
             keyfile {place}/broker.key\nrequire_certificate true\n"
        ),
    );
    let plain = format!("mqtt://127.0.0.1:{}", mosquitto.port());
    let settings = |authority: &str| {
        let settings = bridge(&mosquitto, "5", "\"# out 1 here/ there/\"");
        let settings = settings.replace(&plain, &format!("mqtts://localhost:{port}"));
        format!(
            "{settings}bridge.tls_ca = \"{place}/{authority}.pem\"\n\
             bridge.tls_cert = \"{place}/client.pem\"\nbridge.tls_key = \"{place}/client.key\"\n"
        )
    };
    let mut reader = keep_subscribed(&mosquitto.port(), "reader", "there/#");
    let gateway = Gateway::start(&settings("ours"));
    publish(&gateway, "here/a", "1", &lines(5));
    await_all(&mut reader, "there/a", 5);
    let other = Gateway::start(&settings("others"));
    await_some("the stranger is refused", || {
        sinks(&other).contains("certificate").then_some(())
    });
}

#[test]
fn no_message_loops_and_retained_messages_and_properties_arrive() {
    for version in ["5", "3.1.1"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mosquitto = Mosquitto::start(folder.path());
        let gateway = Gateway::start(&bridge(&mosquitto, version, "\"both/# both 1\""));
        await_connected(&gateway);
        let mut remote = keep_subscribed(&mosquitto.port(), "reader", "both/#");
        let mut local = keep_subscribed(&gateway.port("mqtt"), "reader", "both/#");
        publish(&gateway, "both/here", "1", &lines(20));
        publish_to(&mosquitto.port(), "both/there", "1", &lines(20));
        for client in [&mut remote, &mut local] {
            await_all(client, "both/here", 20);
            await_all(client, "both/there", 20);
        }
        // A message in a loop would arrive again after this.
        publish(&gateway, "both/last", "1", &lines(1));
        await_all(&mut remote, "both/last", 1);
        for client in [&mut remote, &mut local] {
            assert!(
                counts(client).values().all(|&count| count == 1),
                "{version}"
            );
        }
        let port = gateway.port("mqtt");
        let kept = [
            "-p",
            &port,
            "-V",
            "5",
            "-r",
            "-q",
            "1",
            "-t",
            "both/kept",
            "-m",
            "on",
        ];
        let kept = [&kept[..], &["-D", "publish", "user-property", "unit", "C"]].concat();
        assert!(run("mosquitto_pub", &kept, b"").status.success());
        await_some("the retained message is there", || {
            let arguments = [
                "-p",
                &mosquitto.port(),
                "-V",
                "5",
                "-t",
                "both/kept",
                "-C",
                "1",
                "-W",
                "2",
                "-F",
                "%r %p %P",
            ];
            let text = text_of(&run("mosquitto_sub", &arguments, b""));
            let has_property = version != "5" || text.contains("unit:C");
            (text.starts_with("1 on") && has_property).then_some(())
        });
        let arguments = [
            "-p",
            &port,
            "-t",
            "$SYS/broker/connection/plant/state",
            "-C",
            "1",
            "-W",
            "5",
        ];
        assert_eq!(text_of(&run("mosquitto_sub", &arguments, b"")).trim(), "1");
        let listed = sinks(&gateway);
        assert!(
            listed.contains("bridge") && listed.contains("queued 0"),
            "{listed}"
        );
    }
}

#[test]
fn incoming_messages_obey_the_rules_of_their_topics() {
    let folder = tempfile::tempdir().expect("a folder");
    let mosquitto = Mosquitto::start(folder.path());
    let rules = "[[topics]]\nfilter = \"ruled/#\"\npayload_max = \"8B\"\n";
    let settings = bridge(&mosquitto, "5", "\"# in 1\"") + rules;
    let gateway = Gateway::start(&settings);
    await_connected(&gateway);
    let mut local = keep_subscribed(&gateway.port("mqtt"), "reader", "#");
    let large = ["far too large for it".to_owned()];
    publish_to(&mosquitto.port(), "ruled/a", "1", &large);
    publish_to(&mosquitto.port(), "free/a", "1", &large);
    publish_to(&mosquitto.port(), "ruled/a", "1", &lines(1));
    await_all(&mut local, "ruled/a", 1);
    let got = counts(&mut local);
    let expected = ["free/a far too large for it", "ruled/a line 0"];
    assert_eq!(got.keys().collect::<Vec<_>>(), expected);
    // The bridge continues after a message that was refused.
    publish_to(&mosquitto.port(), "ruled/b", "1", &lines(1));
    await_all(&mut local, "ruled/b", 1);
}

/// The output of a command of mosquitto's clients, as the administrator.
fn as_root(port: &str, program: &str, more: &[&str]) -> String {
    let login = ["-p", port, "-V", "5", "-u", "root", "-P", "secret", "-d"];
    text_of(&run(program, &[&login[..], more].concat(), b""))
}

#[test]
fn mosquittos_own_bridge_tells_its_state_and_no_client_that_of_another() {
    let state = "$SYS/broker/connection/plant.to-gateway/state";
    for version in ["mqttv311", "mqttv50"] {
        let gateway = Gateway::start(PLAIN);
        let port = gateway.port("mqtt");
        let data = format!("data={}", gateway.folder.join("gatepost-data").display());
        for arguments in [
            &["user", "add", "root", "--admin"][..],
            &["user", "add", "bridge"],
            &["user", "grant", "bridge", "all", "m/#"],
        ] {
            let arguments = [arguments, &["--set", &data]].concat();
            let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
            assert!(output.status.success(), "{}", text_of(&output));
        }
        let elsewhere = ["-t", "elsewhere", "-m", "x", "-q", "1", "-d", "-V", "5"];
        let login = ["-p", &port, "-u", "bridge", "-P", "secret"];
        await_some("the rule is in force", || {
            let output = run("mosquitto_pub", &[&login[..], &elsewhere].concat(), b"");
            text_of(&output).contains("RC:135").then_some(())
        });

        let folder = tempfile::tempdir().expect("a folder");
        let mosquitto = Mosquitto::start_with(
            folder.path(),
            &format!(
                "connection to-gateway\naddress 127.0.0.1:{port}\ntopic m/# both 1\n\
                 remote_clientid plant.to-gateway\nremote_username bridge\nremote_password secret\n\
                 bridge_protocol_version {version}\nrestart_timeout 1\n"
            ),
        );
        let read_state = |expected: &str| {
            await_some("the state of the bridge", || {
                let text = as_root(&port, "mosquitto_sub", &["-t", state, "-C", "1", "-W", "2"]);
                text.lines().any(|line| line == expected).then_some(())
            });
        };
        read_state("1");
        let mut remote = keep_subscribed(&mosquitto.port(), "reader", "m/#");
        await_some("a message passes", || {
            as_root(&port, "mosquitto_pub", &["-t", "m/x", "-m", "0", "-q", "1"]);
            counts(&mut remote).contains_key("m/x 0").then_some(())
        });

        // Neither another client's state, nor more than a state, nor that of a sink's name.
        for (id, topic, payload) in [
            ("other", state, "0"),
            ("other.one", state, "0"),
            ("plant", "$SYS/broker/connection/plant/state", "0"),
            ("a.b", "$SYS/broker/connection/a.b/state", "10"),
        ] {
            let message = ["-i", id, "-t", topic, "-m", payload, "-q", "1", "-d"];
            let login = [&login[..], &["-V", "5"]].concat();
            let text = text_of(&run("mosquitto_pub", &[&login[..], &message].concat(), b""));
            assert!(text.contains("RC:135"), "{id} {topic} {payload}: {text}");
            let will = ["--will-topic", topic, "--will-payload", payload];
            let other = ["-i", id, "-t", "m/y", "-E", "-d"];
            let text = text_of(&run(
                "mosquitto_sub",
                &[&login[..], &other, &will].concat(),
                b"",
            ));
            assert!(
                text.contains("CONNACK (144)"),
                "{id} {topic} {payload}: {text}"
            );
        }
        read_state("1");
        drop(mosquitto); // SIGKILL: the will
        read_state("0");
    }
}

#[test]
fn messages_that_mosquitto_refuses_are_dead_letters_and_check_connects() {
    let folder = tempfile::tempdir().expect("a folder");
    let rights = folder.path().join("rights");
    std::fs::write(&rights, "topic readwrite there/free/#\n").expect("written");
    let mosquitto = Mosquitto::start_with(
        folder.path(),
        &format!("acl_file {}\nmax_packet_size 300\n", rights.display()),
    );
    let settings = bridge(&mosquitto, "5", "\"# out 1 here/ there/\"");
    let settings = format!("{settings}dead_letter = \"dead/plant\"\n");
    let gateway = Gateway::start(&settings);
    let mut letters = Client::subscribe(&gateway, "dead/#", "%t %p %P");
    let mut remote = keep_subscribed(&mosquitto.port(), "reader", "there/free/#");
    publish(&gateway, "here/held", "1", &["refused".to_owned()]);
    let letter = letters.await_line("dead/plant refused");
    for part in [
        "sink:plant",
        "refused it: not authorized",
        "topic:here/held",
    ] {
        assert!(letter.to_lowercase().contains(part), "{part}: {letter}");
    }
    publish(&gateway, "here/free/a", "1", &["large ".repeat(60)]);
    let letter = letters.await_line("dead/plant large");
    assert!(
        letter.contains("larger than the other broker accepts"),
        "{letter}"
    );
    publish(&gateway, "here/free/a", "1", &lines(1));
    await_all(&mut remote, "there/free/a", 1);

    let config = folder.path().join("gatepost.toml");
    let path = config.to_str().expect("UTF-8");
    let check = |settings: &str| {
        std::fs::write(&config, settings).expect("written");
        let arguments = ["check", "--config", path, "--connect"];
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
        (output.status.code(), text_of(&output))
    };
    let (code, text) = check(&settings);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 of 1 sinks can be reached"), "{text}");
    let (code, text) = check(&settings.replace(&mosquitto.port(), "1"));
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("refused"), "{text}");
}
