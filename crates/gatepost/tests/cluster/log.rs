//! Publications at QoS 1 and 2, which go through the log of the cluster.

use super::nats::{self, Nats};
use super::refusals::refused;
use super::support::{Client, Gateway, await_some, post, root, run, text_of};
use super::{PLAIN, await_joined, metric, node, publish, readyz, two_nodes};

/// mosquitto_sub with a session that outlives its connection.
pub(crate) fn kept_session(gateway: &Gateway, id: &str, filter: &str, more: &[&str]) -> Client {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p", &port, "-V", "5", "-c", "-x", "3600", "-i", id, "-q", "2", "-F", "%t %p %q", "-d",
        "-t", filter,
    ];
    let mut client = Client::start("mosquitto_sub", &[&arguments[..], more].concat());
    client.await_line("SUBACK");
    client
}

/// The messages among a client's lines.
pub(crate) fn messages(client: &mut Client, topic: &str) -> Vec<String> {
    let seen = client.seen().iter();
    seen.filter(|line| line.starts_with(topic))
        .cloned()
        .collect()
}

/// Waits until a node has read the log.
pub(crate) fn await_read(gateway: &Gateway) {
    await_some("the log is read", || {
        let is_read = metric(gateway, "gatepost_backbone_log_unread ") == 0
            && metric(gateway, "gatepost_backbone_log_waiting ") == 0;
        is_read.then_some(())
    });
}

#[test]
fn a_session_gets_what_was_published_while_its_node_was_down() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let one = node(&nats, 1);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{PLAIN}", nats.settings(2));
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&one, 1);
    await_joined(&two, 1);
    let mut here = kept_session(&one, "here", "d/#", &[]);
    let mut there = kept_session(&two, "there", "d/#", &[]);
    publish(&one, "d/1", "before", &["-q", "1"]);
    there.await_line("d/1 before 1");
    here.await_line("d/1 before 1");
    drop(there);
    two.kill();
    for number in 0..20 {
        let qos = (1 + number % 2).to_string();
        publish(&one, "d/2", &format!("n{number}"), &["-q", &qos]);
    }
    publish(&one, "d/3", "not kept", &[]);
    here.await_line("n19");
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&two, 1);
    let mut there = kept_session(&two, "there", "d/#", &[]);
    there.await_line("n19");
    // mosquitto_sub prints a message at QoS 2 when it is released.
    for (client, name) in [(&mut there, "there"), (&mut here, "here")] {
        for qos in [1, 2] {
            let expected = (0..20).filter(|number| 1 + number % 2 == qos);
            let expected: Vec<String> = expected
                .map(|number| format!("d/2 n{number} {qos}"))
                .collect();
            let mut arrived = messages(client, "d/2");
            arrived.retain(|line| line.ends_with(&format!(" {qos}")));
            assert_eq!(arrived, expected, "{name}");
        }
    }
    assert_eq!(
        messages(&mut there, "d/3"),
        [""; 0],
        "QoS 0 is not kept for other nodes"
    );
}

#[test]
fn without_the_nats_servers_nothing_durable_is_acknowledged() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let settings = |number| {
        let more = "backbone.append_wait_max = \"1s\"\n";
        format!("{}{more}{PLAIN}", nats.settings(number))
    };
    let (one, two) = (Gateway::start(&settings(1)), Gateway::start(&settings(2)));
    await_joined(&one, 1);
    await_joined(&two, 1);
    let mut near = Client::subscribe(&one, "t/#", "%t %p");
    let mut far = kept_session(&two, "far", "t/#", &[]);
    nats.kill();
    await_some("the loss is noticed", || {
        readyz(&one).contains("degraded: backbone").then_some(())
    });
    let port = one.port("mqtt");
    for qos in ["1", "2"] {
        let arguments = [
            "-p", &port, "-V", "5", "-q", qos, "-t", "t/a", "-m", "x", "-d",
        ];
        let said = text_of(&run("mosquitto_pub", &arguments, b""));
        assert!(said.contains("Quota exceeded"), "{said}");
    }
    let said = post(&one, "t/b", "x");
    assert!(said.contains(" 503 "), "{said}");
    assert_eq!(metric(&one, "gatepost_backbone_log_waiting "), 0);
    publish(&one, "t/c", "at most once", &[]);
    near.await_line("t/c at most once");
    nats.start_again();
    await_joined(&one, 1);
    await_joined(&two, 1);
    publish(&one, "t/d", "again", &["-q", "2"]);
    far.await_line("t/d again 2");
    let lost = messages(&mut far, "t/c");
    assert_eq!(lost, [""; 0], "QoS 0 is not kept for other nodes");
}

#[test]
fn a_publisher_with_no_local_does_not_get_its_own_messages_back() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut all = kept_session(&one, "all", "l/#", &[]);
    let port = one.port("mqtt");
    let script = format!(
        "import paho.mqtt.client as mqtt\n\
         from paho.mqtt.subscribeoptions import SubscribeOptions\n\
         from paho.mqtt.properties import Properties\n\
         from paho.mqtt.packettypes import PacketTypes\n\
         client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, 'own', protocol=mqtt.MQTTv5)\n\
         kept = Properties(PacketTypes.CONNECT)\n\
         kept.SessionExpiryInterval = 3600\n\
         options = SubscribeOptions(qos=2, noLocal=True)\n\
         def begin(client, *_):\n    client.subscribe('l/#', options=options)\n\
         def subscribed(client, *_):\n    client.publish('l/own', 'mine', qos=1)\n\
         def message(client, userdata, message):\n    print(message.topic, flush=True)\n\
         client.on_connect, client.on_subscribe, client.on_message = begin, subscribed, message\n\
         client.connect('127.0.0.1', {port}, clean_start=False, properties=kept)\n\
         client.loop_forever()\n"
    );
    let packages = format!("PYTHONPATH={}", root().join(".peers/paho-2").display());
    let mut own = Client::start("env", &[&packages, "python3", "-c", &script]);
    all.await_line("l/own mine 1");
    publish(&two, "l/other", "x", &["-q", "1"]);
    assert_eq!(own.await_line("l/"), "l/other");
}

#[test]
fn a_cluster_with_other_partitions_is_refused() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let tested = format!("backbone.partitions = {}\n", nats::PARTITIONS);
    let settings = |number, more: &str| nats.settings(number).replace(&tested, more);
    let one = Gateway::start(&format!("{}{PLAIN}", settings(1, "")));
    await_joined(&one, 0);
    publish(&one, "d/1", "stored", &["-q", "1"]);
    let log = refused(&settings(2, "backbone.partitions = 8\n"));
    assert!(
        log.contains("backbone.partitions = 8, and the cluster was made with 1"),
        "{log}"
    );
    let log = refused(&settings(2, "backbone.partition_levels = 2\n"));
    assert!(log.contains("backbone.partition_levels = 2"), "{log}");
}
