//! Persistent sessions follow their clients from node to node.

use super::log::{kept_session, messages};
use super::nats::{self, Nats};
use super::support::{Client, Gateway, root};
use super::{metric, publish, two_nodes};

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
        (from..to).map(|number| format!("w/x n{number} 2")).collect()
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
fn resumed(gateway: &Gateway, id: &str) -> Client {
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
    let mut client = Client::start("env", &[&packages, "python3", "-c", &script]);
    client.await_line("present Success");
    client
}
