//! Shared subscriptions with members on several nodes: each message once in the whole cluster.

use std::collections::BTreeMap;

use super::log::{await_read, kept_session, messages};
use super::moves::resumed;
use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, command, feed, root};
use super::{PLAIN, await_joined, metric, node, publish, two_nodes};

/// A member with a session that outlives its connection.
fn member(gateway: &Gateway, id: &str) -> Client {
    kept_session(gateway, id, "$share/g/s/#", &[])
}

/// A member without such a session.
fn brief_member(gateway: &Gateway, id: &str) -> Client {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p",
        &port,
        "-V",
        "5",
        "-i",
        id,
        "-q",
        "2",
        "-F",
        "%t %p %q",
        "-d",
        "-t",
        "$share/g/s/#",
    ];
    let mut client = Client::start("mosquitto_sub", &arguments);
    client.await_line("SUBACK");
    client
}

/// Publishes numbered messages at one QoS over one connection.
fn publish_numbers(gateway: &Gateway, topic: &str, qos: u8, numbers: std::ops::Range<u32>) {
    publish_to(&gateway.port("mqtt"), topic, qos, numbers);
}

fn publish_to(port: &str, topic: &str, qos: u8, numbers: std::ops::Range<u32>) {
    let qos = qos.to_string();
    let lines: Vec<String> = numbers.map(|number| format!("n{number}\n")).collect();
    let lines = lines.concat();
    let mut publisher = command("mosquitto_pub");
    publisher.args(["-p", port, "-V", "5", "-t", topic, "-q", &qos, "-l"]);
    let output = feed(&mut publisher, lines.as_bytes());
    assert!(output.status.success(), "{output:?}");
}

/// The payloads that members have received of a topic, and how often each.
fn received(members: &mut [&mut Client], topic: &str) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for member in members {
        for line in messages(member, topic) {
            let payload = line.split(' ').nth(1).expect("a payload");
            let number = payload[1..].parse().expect("a number");
            *counts.entry(number).or_insert(0) += 1;
        }
    }
    counts
}

/// Waits until all numbers up to this have come; each has come once.
fn await_each_once(members: &mut [&mut Client], topic: &str, count: u32) {
    let found = await_some("all messages arrive", || {
        let found = received(members, topic);
        (found.len() == count as usize).then_some(found)
    });
    let expected: BTreeMap<u32, usize> = (0..count).map(|number| (number, 1)).collect();
    assert_eq!(found, expected);
}

#[test]
fn each_message_reaches_one_member_of_the_cluster() {
    if nats::program().is_none() {
        return;
    }
    let servers = Nats::cluster();
    let settings = |number| format!("{}{PLAIN}", Nats::settings_of_all(&servers, number));
    let nodes = [1, 2, 3].map(|number| Gateway::start(&settings(number)));
    for node in &nodes {
        await_joined(node, 2);
    }
    let [one, two, three] = &nodes;
    let mut all = [
        member(one, "m1"),
        member(one, "m2"),
        member(two, "m3"),
        brief_member(three, "m4"),
    ];
    for (qos, count) in [(0, 400), (1, 400), (2, 400)] {
        let topic = format!("s/{qos}");
        publish_numbers(one, &topic, qos, 0..count / 2);
        publish_numbers(three, &topic, qos, count / 2..count);
        let mut members: Vec<&mut Client> = all.iter_mut().collect();
        await_each_once(&mut members, &format!("{topic} "), count);
        // Each has about as much as the others, also on a node with two.
        for member in &mut all {
            let share = messages(member, &format!("{topic} ")).len();
            assert!((50..=150).contains(&share), "{share} of {count}");
        }
    }
    for node in &nodes {
        await_read(node);
    }
    let mut members: Vec<&mut Client> = all.iter_mut().collect();
    for qos in 0..3 {
        await_each_once(&mut members, &format!("s/{qos} "), 400);
    }
}

#[test]
fn members_of_a_killed_node_get_what_was_theirs_when_it_returns() {
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
    let mut here = member(&one, "here");
    let there = member(&two, "there");
    publish_numbers(&one, "s/x", 1, 0..50);
    await_some("the node has read the log", || {
        (metric(&one, "gatepost_backbone_log_waiting ") == 0).then_some(())
    });
    two.kill();
    publish_numbers(&one, "s/x", 1, 50..100);
    // When the key of the node has expired, the other node gets everything.
    await_some("the node is missed", || {
        (metric(&one, "gatepost_backbone_nodes ") == 0).then_some(())
    });
    let mut alone = 0;
    await_some("the other node gets everything", || {
        let topic = format!("s/alone/{alone}");
        publish_numbers(&one, &topic, 1, 0..20);
        await_read(&one);
        alone += 1;
        (messages(&mut here, &format!("{topic} ")).len() == 20).then_some(())
    });
    let mut there = there;
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&two, 1);
    let mut again = resumed(&two, "there");
    await_each_once(&mut [&mut here, &mut there, &mut again], "s/x ", 100);
    for attempt in 0..alone {
        let topic = format!("s/alone/{attempt} ");
        await_each_once(&mut [&mut here, &mut again], &topic, 20);
    }
    publish_numbers(&one, "s/y", 2, 0..100);
    await_each_once(&mut [&mut here, &mut again], "s/y ", 100);
    assert!(!messages(&mut again, "s/y ").is_empty());
}

#[test]
fn what_a_failed_node_was_to_serve_goes_to_other_members() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let settings = |number| {
        format!(
            "{}backbone.adopt_after = \"500ms\"\n{PLAIN}",
            nats.settings(number)
        )
    };
    let one = Gateway::start(&settings(1));
    let folder = tempfile::tempdir().expect("a folder");
    let two = Gateway::start_in(folder.path(), &settings(2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    let mut here = member(&one, "here");
    let mut there = member(&two, "there");
    let mut brief = brief_member(&two, "brief");
    publish_numbers(&one, "s/x", 2, 0..60);
    await_each_once(&mut [&mut here, &mut there, &mut brief], "s/x ", 60);
    two.kill();
    // The node still has two of three members, as far as the log says.
    publish_numbers(&one, "s/y", 2, 0..200);
    publish_numbers(&one, "s/z", 1, 0..200);
    await_some("the shares of the node end", || {
        let adopted = "the sessions of a failed node are here now";
        one.log().contains(adopted).then_some(())
    });
    await_each_once(&mut [&mut here], "s/y ", 200);
    await_each_once(&mut [&mut here], "s/z ", 200);
    // The failed node returns, and serves nothing of this again.
    let two = Gateway::start_in(folder.path(), &settings(2));
    await_joined(&two, 1);
    let mut again = resumed(&two, "there");
    await_some("the log has its member", || {
        publish(&one, "s/v", "x", &["-q", "1"]);
        (!messages(&mut again, "s/v ").is_empty()).then_some(())
    });
    publish_numbers(&one, "s/w", 2, 0..100);
    await_each_once(&mut [&mut here, &mut again], "s/w ", 100);
    await_read(&one);
    await_read(&two);
    await_each_once(&mut [&mut here, &mut again], "s/y ", 200);
    await_each_once(&mut [&mut here, &mut again], "s/z ", 200);
    assert!(!messages(&mut again, "s/w ").is_empty());
}

/// A member that leaves after some messages, joins again, and so on.
fn inconstant_member(gateway: &Gateway) -> Client {
    let script = format!(
        "import paho.mqtt.client as mqtt\n\
         client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, 'inconstant', \
         protocol=mqtt.MQTTv5)\n\
         count = 0\n\
         def join(client, *_):\n    client.subscribe('$share/g/s/#', qos=2)\n\
         def message(client, userdata, one):\n    \
             global count\n    \
             print(one.topic, one.payload.decode(), one.qos, flush=True)\n    \
             count += 1\n    \
             if count % 20 == 0: client.unsubscribe('$share/g/s/#')\n\
         def left(client, *_):\n    print('left', count, flush=True)\n    join(client)\n\
         def joined(client, *_):\n    print('joined', flush=True)\n\
         client.on_connect, client.on_message = join, message\n\
         client.on_unsubscribe, client.on_subscribe = left, joined\n\
         client.connect('127.0.0.1', {port})\n\
         client.loop_forever()\n",
        port = gateway.port("mqtt"),
    );
    let packages = format!("PYTHONPATH={}", root().join(".peers/paho-2").display());
    let mut client = Client::start("env", &[&packages, "python3", "-c", &script]);
    client.await_line("joined");
    client
}

#[test]
fn no_message_is_lost_when_the_last_member_of_a_node_leaves() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut constant = member(&one, "constant");
    let mut inconstant = inconstant_member(&two);
    for (qos, count) in [(2, 1_000), (1, 2_000)] {
        let topic = format!("s/{qos}");
        publish_numbers(&one, &topic, qos, 0..count / 2);
        publish_numbers(&two, &topic, qos, count / 2..count);
        let mut members = [&mut constant, &mut inconstant];
        await_each_once(&mut members, &format!("{topic} "), count);
    }
    let left = inconstant
        .seen()
        .iter()
        .filter(|line| line.starts_with("left"));
    assert!(left.count() > 5, "{:#?}", inconstant.seen());
}

#[test]
fn a_member_that_moves_takes_its_part_with_it() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    drop(member(&one, "wanderer"));
    let mut clients = Vec::new();
    let port = one.port("mqtt");
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            for part in 0..10 {
                publish_to(&port, "s/x", 1, part * 100..part * 100 + 100);
            }
        });
        for round in 0..8 {
            let here = if round % 2 == 0 { &two } else { &one };
            clients.push(resumed(here, "wanderer"));
        }
        publishing.join().expect("published");
    });
    // A delivery that was not acknowledged on the earlier connection is repeated on the next one.
    // At QoS 2 a client would have to remember more than a process that is started again does.
    await_some("all messages arrive", || {
        let mut members: Vec<&mut Client> = clients.iter_mut().collect();
        let found = received(&mut members, "s/x ").len();
        (found == 1_000).then_some(())
    });
}

#[test]
fn a_node_that_joins_later_takes_its_part() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let one = node(&nats, 1);
    await_joined(&one, 0);
    let mut first = member(&one, "first");
    publish_numbers(&one, "s/before", 1, 0..50);
    await_each_once(&mut [&mut first], "s/before ", 50);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{PLAIN}", nats.settings(2));
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&two, 1);
    let mut second = member(&two, "second");
    publish_numbers(&one, "s/both", 2, 0..100);
    await_each_once(&mut [&mut first, &mut second], "s/both ", 100);
    assert!(!messages(&mut second, "s/both ").is_empty());
    // A node that starts again has no member without a session any more.
    let brief = brief_member(&two, "brief");
    drop(brief);
    two.kill();
    publish_numbers(&one, "s/down", 2, 0..100);
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&two, 1);
    let mut again = resumed(&two, "second");
    await_each_once(&mut [&mut first, &mut again], "s/down ", 100);
    // No node that is running knows the members.
    one.terminate();
    two.terminate();
    let three = node(&nats, 3);
    await_joined(&three, 0);
    let mut third = member(&three, "third");
    publish_numbers(&three, "s/alone", 1, 0..50);
    await_each_once(&mut [&mut third], "s/alone ", 50);
}
