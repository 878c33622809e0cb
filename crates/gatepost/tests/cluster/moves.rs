//! Persistent sessions follow their clients from node to node.

use super::log::{kept_session, messages};
use super::nats::{self, Nats};
use super::refusals::run_with_settings;
use super::support::{Client, Gateway, await_some, root, run, text_of};
use super::wire::{Connection, Packet, Publish, Version};
use super::{PLAIN, await_joined, metric, node, publish, two_nodes};

/// Connects with mosquitto_sub, until the client has these messages of the topic.
fn await_messages(client: &mut Client, topic: &str, expected: &[String]) {
    if let Some(last) = expected.last() {
        client.await_line(last);
    }
    assert_eq!(messages(client, topic), expected);
}

#[test]
fn a_session_follows_its_client_with_what_it_has_missed() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let first = kept_session(&one, "wanderer", "w/#", &[]);
    drop(first);
    let lines = |from: u32, to: u32| -> Vec<String> {
        (from..to)
            .map(|number| format!("w/x n{number} 2"))
            .collect()
    };
    for (round, (publisher, here)) in [(&one, &two), (&two, &one), (&one, &one), (&two, &two)]
        .into_iter()
        .enumerate()
    {
        let from = round as u32 * 10;
        for number in from..from + 10 {
            publish(publisher, "w/x", &format!("n{number}"), &["-q", "2"]);
        }
        let mut client = resumed(here, "wanderer");
        await_messages(&mut client, "w/x", &lines(from, from + 10));
        // Live messages too, from both nodes.
        publish(&one, "w/live", "from one", &["-q", "1"]);
        publish(&two, "w/live", "from two", &["-q", "1"]);
        client.await_line("w/live from one 1");
        client.await_line("w/live from two 1");
        drop(client);
    }
    let moved = |name: &str| {
        let name = format!("gatepost_backbone_sessions_{name}_total");
        metric(&one, &name) + metric(&two, &name)
    };
    assert_eq!((moved("adopted"), moved("released")), (3, 3));
}

/// A client that continues its session without a SUBSCRIBE.
pub(crate) fn resumed(gateway: &Gateway, id: &str) -> Client {
    let mut client = continuing(gateway, id);
    client.await_line("present Success");
    client
}

/// The same, whether the session is there or not.
pub(crate) fn continuing(gateway: &Gateway, id: &str) -> Client {
    let script = format!(
        "import paho.mqtt.client as mqtt\n\
         from paho.mqtt.properties import Properties\n\
         from paho.mqtt.packettypes import PacketTypes\n\
         client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, '{id}', protocol=mqtt.MQTTv5)\n\
         kept = Properties(PacketTypes.CONNECT)\n\
         kept.SessionExpiryInterval = 3600\n\
         def connected(client, userdata, flags, reason, properties):\n    \
             print('present' if flags.session_present else 'new', reason, flush=True)\n\
         def message(client, userdata, one):\n    \
             print(one.topic, one.payload.decode(), one.qos, flush=True)\n\
         def ended(client, userdata, flags, reason, properties):\n    \
             print('ended', reason, flush=True)\n    client.loop_stop()\n\
         client.on_connect, client.on_message, client.on_disconnect = connected, message, ended\n\
         client.connect('127.0.0.1', {port}, clean_start=False, properties=kept)\n\
         client.loop_forever(retry_first_connection=False)\n",
        port = gateway.port("mqtt"),
    );
    let packages = format!("PYTHONPATH={}", root().join(".peers/paho-2").display());
    Client::start("env", &[&packages, "python3", "-c", &script])
}

#[test]
fn a_live_connection_ends_when_its_client_connects_to_another_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    drop(kept_session(&one, "taken", "t/#", &[]));
    let mut before = resumed(&one, "taken");
    let mut after = resumed(&two, "taken");
    before.await_line("ended Session taken over");
    publish(&one, "t/a", "x", &["-q", "1"]);
    after.await_line("t/a x 1");
    // A session that ends with its connection.
    let brief = |gateway: &Gateway| {
        let port = gateway.port("mqtt");
        let arguments = [
            "-p",
            &port,
            "-V",
            "5",
            "-i",
            "brief",
            "-t",
            "b/#",
            "-F",
            "%t %p",
            "-d",
            "--will-topic",
            "b/will",
            "--will-payload",
            "gone",
        ];
        let mut client = Client::start("mosquitto_sub", &arguments);
        client.await_line("SUBACK");
        client
    };
    let mut observer = Client::subscribe(&two, "b/#", "%t %p");
    let mut before = brief(&one);
    let _after = brief(&two);
    before.await_line("DISCONNECT (142)"); // session taken over
    observer.await_line("b/will gone");
}

#[test]
fn a_client_that_starts_clean_discards_its_session_on_another_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let sessions = |gateway: &Gateway| {
        let listed = run(
            "curl",
            &["-s", &gateway.url("/admin/sessions?search=fresh")],
            b"",
        );
        text_of(&listed)
    };
    for (index, expiry) in ["0", "3600"].into_iter().enumerate() {
        drop(kept_session(&one, "fresh", "f/old", &[]));
        assert!(sessions(&one).contains("\"fresh\""), "{}", sessions(&one));
        let port = two.port("mqtt");
        let arguments = [
            "-p", &port, "-V", "5", "-i", "fresh", "-x", expiry, "-t", "f/new", "-q", "1", "-F",
            "%t %p", "-d",
        ];
        let mut client = Client::start("mosquitto_sub", &arguments);
        client.await_line("SUBACK");
        await_some("the earlier session has ended", || {
            (!sessions(&one).contains("\"fresh\"")).then_some(())
        });
        publish(&one, "f/old", "old", &["-q", "1"]);
        publish(&one, "f/new", &format!("n{index}"), &["-q", "1"]);
        client.await_line(&format!("f/new n{index}"));
        assert_eq!(messages(&mut client, "f/old"), [""; 0]);
    }
}

#[test]
fn a_session_whose_node_is_down_waits_for_that_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{PLAIN}", nats.settings(1));
    let one = Gateway::start_in(folder.path(), &settings);
    let two = node(&nats, 2);
    await_joined(&one, 1);
    await_joined(&two, 1);
    drop(kept_session(&one, "patient", "p/#", &[]));
    publish(&two, "p/a", "kept", &["-q", "2"]);
    one.kill();
    await_some("the node is missed", || {
        (metric(&two, "gatepost_backbone_nodes ") == 0).then_some(())
    });
    let port = two.port("mqtt");
    let arguments = [
        "-p", &port, "-V", "5", "-c", "-x", "3600", "-i", "patient", "-t", "p/#", "-d",
    ];
    let refused = run("mosquitto_sub", &arguments, b"");
    assert!(
        text_of(&refused).contains("Server unavailable"),
        "{}",
        text_of(&refused)
    );
    assert!(
        two.log()
            .contains("the session is on node 1, which is not running"),
        "{}",
        two.log()
    );
    let one = Gateway::start_in(folder.path(), &settings);
    await_joined(&one, 1);
    await_joined(&two, 1);
    let forget = |number: &str| run_with_settings(&["nodes", "forget", number], &nats.settings(1));
    let (code, said) = forget("1");
    assert!(
        code != Some(0) && said.contains("node 1 is running"),
        "{said}"
    );
    let mut client = resumed(&two, "patient");
    client.await_line("p/a kept 2");
    drop(client);
    two.terminate();
    // The node is lost for good.
    await_some("the node is missed", || {
        (metric(&one, "gatepost_backbone_nodes ") == 0).then_some(())
    });
    let (code, said) = forget("2");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.trim(), "sessions of node 2 that were given up: 1");
    let port = one.port("mqtt");
    let arguments = [
        "-p", &port, "-V", "5", "-c", "-x", "3600", "-i", "patient", "-t", "p/#", "-F", "%p",
    ];
    let mut client = Client::start("mosquitto_sub", &arguments);
    await_some("the client has a new session", || {
        publish(&one, "p/b", "new", &["-q", "1"]);
        client.seen().iter().any(|line| line == "new").then_some(())
    });
}

#[test]
fn an_exactly_once_publication_that_moves_is_published_once() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut all = kept_session(&two, "all", "q/#", &[]);
    let publication = Publish {
        topic: "q/a".to_owned(),
        payload: "once".to_owned(),
        qos: 2,
        dup: false,
        packet_id: 7,
    };
    let open = |gateway: &Gateway| {
        Connection::open(gateway.address("mqtt"), Version::Mqtt5, "careful").expect("accepted")
    };
    let (mut connection, _) = open(&one);
    connection.put_publish(&publication);
    assert_eq!(next(&mut connection), Packet::Pubrec(7));
    // The client did not see the PUBREC, and repeats the publication on another node.
    let (mut connection, is_present) = open(&two);
    assert!(is_present);
    let repeated = Publish {
        dup: true,
        ..publication
    };
    connection.put_publish(&repeated);
    assert_eq!(next(&mut connection), Packet::Pubrec(7));
    connection.put_ack(0x62, 7);
    assert_eq!(next(&mut connection), Packet::Pubcomp(7));
    publish(&one, "q/b", "end", &["-q", "2"]);
    all.await_line("q/b end 2");
    assert_eq!(messages(&mut all, "q/a"), ["q/a once 2"]);
}

/// The next packet.
pub(crate) fn next(connection: &mut Connection) -> Packet {
    connection.flush().expect("sent");
    await_some("a packet arrives", || {
        connection.receive().expect("connected")
    })
}

#[test]
fn a_delivery_in_flight_keeps_its_packet_identifier_on_the_other_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let open = |gateway: &Gateway| {
        Connection::open(gateway.address("mqtt"), Version::Mqtt311, "reader")
            .expect("accepted")
            .0
    };
    let mut connection = open(&one);
    connection.put_subscribe("r/#");
    assert_eq!(next(&mut connection), Packet::Suback);
    publish(&two, "r/a", "first", &["-q", "2"]);
    publish(&two, "r/b", "second", &["-q", "2"]);
    let mut ids = Vec::new();
    while ids.len() < 2 {
        match next(&mut connection) {
            Packet::Publish(publish) => ids.push(publish.packet_id),
            other => panic!("{other:?}"),
        }
    }
    // The first is acknowledged with PUBREC, the second is not.
    connection.put_ack(0x50, ids[0]);
    assert_eq!(next(&mut connection), Packet::Pubrel(ids[0]));
    let mut connection = open(&two);
    assert_eq!(next(&mut connection), Packet::Pubrel(ids[0]));
    match next(&mut connection) {
        Packet::Publish(again) => {
            assert_eq!(
                (again.packet_id, again.dup, &*again.payload),
                (ids[1], true, "second")
            );
        }
        other => panic!("{other:?}"),
    }
}
