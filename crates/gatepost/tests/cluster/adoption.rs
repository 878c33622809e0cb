//! The sessions of a node that fails are adopted by another node.

use super::log::{kept_session, messages};
use super::moves::{continuing, next, resumed};
use super::nats::{self, Nats};
use super::refusals::run_with_settings;
use super::support::{Gateway, await_some, run, text_of};
use super::wire::{Connection, Packet, Publish, Version};
use super::{PLAIN, await_joined, metric, publish};

/// The settings of a node whose sessions are adopted soon.
fn settings(nats: &Nats, number: u8) -> String {
    settings_with(nats, number, "500ms")
}

fn settings_with(nats: &Nats, number: u8, adopt_after: &str) -> String {
    format!(
        "{}backbone.adopt_after = \"{adopt_after}\"\n{PLAIN}",
        nats.settings(number)
    )
}

/// Two nodes; the folder of the first one outlives it.
fn nodes(nats: &Nats, folder: &tempfile::TempDir) -> (Gateway, Gateway) {
    let one = Gateway::start_in(folder.path(), &settings(nats, 1));
    let two = Gateway::start(&settings(nats, 2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    (one, two)
}

pub(crate) fn await_adopted(gateway: &Gateway, count: u64) {
    await_some("the sessions are adopted", || {
        let adopted = metric(gateway, "gatepost_backbone_sessions_adopted_total");
        (adopted >= count).then_some(())
    });
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_session_outlives_its_node() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    drop(kept_session(&one, "patient", "p/#", &[]));
    drop(kept_session(&one, "other", "o/#", &[]));
    let expected = |from: u32, to: u32| -> Vec<String> {
        let qos = |number: u32| 1 + number % 2;
        (from..to)
            .map(|number| format!("p/x n{number} {}", qos(number)))
            .collect()
    };
    let publish_all = |gateway: &Gateway, from: u32, to: u32| {
        for number in from..to {
            let qos = (1 + number % 2).to_string();
            publish(gateway, "p/x", &format!("n{number}"), &["-q", &qos]);
        }
    };
    publish_all(&one, 0, 10);
    publish_all(&two, 10, 20);
    one.kill();
    publish_all(&two, 20, 30);
    await_adopted(&two, 2);
    publish_all(&two, 30, 40);
    let mut client = resumed(&two, "patient");
    client.await_line("p/x n39 2");
    let mut arrived = messages(&mut client, "p/x");
    arrived.sort_by_key(|line| {
        line.split(' ')
            .nth(1)
            .map(|text| text[1..].parse::<u32>().ok())
    });
    assert_eq!(arrived, expected(0, 40));
    // The failed node returns with its old database, and has no sessions any more.
    let one = Gateway::start_in(folder.path(), &settings(&nats, 1));
    await_joined(&one, 1);
    assert!(
        one.log()
            .contains("another node has adopted the sessions of this one"),
        "{}",
        one.log()
    );
    let sessions = text_of(&run("curl", &["-s", &one.url("/admin/sessions")], b""));
    assert!(!sessions.contains("\"patient\""), "{sessions}");
    // The session moves back with its client, as from any node.
    drop(client);
    publish_all(&two, 40, 50);
    let mut client = resumed(&one, "patient");
    client.await_line("p/x n49 2");
    assert_eq!(messages(&mut client, "p/x").len(), 10);
    drop(resumed(&one, "other"));
}

#[test]
fn exchanges_continue_on_the_adopting_node() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    let mut all = kept_session(&two, "all", "q/#", &[]);
    let open = |gateway: &Gateway| {
        Connection::open(gateway.address("mqtt"), Version::Mqtt311, "careful").expect("accepted")
    };
    let (mut connection, _) = open(&one);
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
    connection.put_ack(0x50, ids[0]);
    assert_eq!(next(&mut connection), Packet::Pubrel(ids[0]));
    let publication = Publish {
        topic: "q/a".to_owned(),
        payload: "once".to_owned(),
        qos: 2,
        dup: false,
        packet_id: 77,
    };
    connection.put_publish(&publication);
    assert_eq!(next(&mut connection), Packet::Pubrec(77));
    one.kill();
    drop(connection);
    await_adopted(&two, 1);
    let (mut connection, is_present) = open(&two);
    assert!(is_present);
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
    // The client did not see the PUBREC, and repeats the publication.
    connection.put_publish(&Publish {
        dup: true,
        ..publication
    });
    assert_eq!(next(&mut connection), Packet::Pubrec(77));
    connection.put_ack(0x62, 77);
    assert_eq!(next(&mut connection), Packet::Pubcomp(77));
    publish(&two, "q/b", "end", &["-q", "2"]);
    all.await_line("q/b end 2");
    assert_eq!(messages(&mut all, "q/a"), ["q/a once 2"]);
}

#[test]
fn a_completed_packet_identifier_may_be_used_again_on_the_adopting_node() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    let mut all = kept_session(&two, "all", "q/#", &[]);
    let publish_at = |gateway: &Gateway, payload: &str| {
        let address = gateway.address("mqtt");
        let opened = Connection::open(address, Version::Mqtt311, "careful");
        let (mut connection, is_present) = opened.expect("accepted");
        connection.put_publish(&Publish {
            topic: "q/a".to_owned(),
            payload: payload.to_owned(),
            qos: 2,
            dup: false,
            packet_id: 77,
        });
        assert_eq!(next(&mut connection), Packet::Pubrec(77));
        connection.put_ack(0x62, 77);
        assert_eq!(next(&mut connection), Packet::Pubcomp(77));
        is_present
    };
    assert!(!publish_at(&one, "first"));
    one.kill();
    await_adopted(&two, 1);
    assert!(publish_at(&two, "second"));
    all.await_line("q/a second 2");
    assert_eq!(messages(&mut all, "q/a"), ["q/a first 2", "q/a second 2"]);
}

#[test]
fn the_will_of_a_client_of_a_failed_node_is_published_once() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    let mut observer = kept_session(&two, "observer", "w/#", &[]);
    let will = |delay: &'static str| {
        [
            "--will-topic",
            "w/x",
            "--will-payload",
            delay,
            "--will-qos",
            "1",
            "-D",
            "will",
        ]
        .into_iter()
        .chain(["will-delay-interval", delay])
        .collect::<Vec<&str>>()
    };
    let _soon = kept_session(&one, "soon", "x/#", &will("1"));
    let _late = kept_session(&one, "late", "x/#", &will("3600"));
    // The session of this one expires before the adoption.
    let expiring = [&will("1800")[..], &["-x", "3"]].concat();
    drop(kept_session(&one, "expiring", "x/#", &expiring));
    await_some("its connection has ended", || {
        (metric(&one, "gatepost_sessions_connected ") == 2).then_some(())
    });
    one.kill();
    observer.await_line("w/x 1 1");
    observer.await_line("w/x 1800 1");
    // A client that returns keeps its delayed will from being published.
    drop(resumed(&two, "late"));
    let one = Gateway::start_in(folder.path(), &settings(&nats, 1));
    await_joined(&one, 1);
    publish(&one, "w/end", "end", &["-q", "1"]);
    observer.await_line("w/end end 1");
    let mut wills = messages(&mut observer, "w/x");
    wills.sort();
    assert_eq!(wills, ["w/x 1 1", "w/x 1800 1"]);
}

#[test]
fn a_node_that_stood_still_finds_its_sessions_adopted() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    let mut before = kept_session(&one, "sleeper", "s/#", &[]);
    publish(&two, "s/a", "n0", &["-q", "2"]);
    before.await_line("s/a n0 2");
    one.signal("STOP");
    await_adopted(&two, 1);
    let mut after = resumed(&two, "sleeper");
    publish(&two, "s/a", "n1", &["-q", "2"]);
    after.await_line("s/a n1 2");
    one.signal("CONT");
    // Its connection there ends, and the one to the other node stays.
    before.await_line("DISCONNECT");
    await_joined(&one, 1);
    publish(&one, "s/a", "n2", &["-q", "2"]);
    after.await_line("s/a n2 2");
    assert_eq!(messages(&mut before, "s/a"), ["s/a n0 2"]);
    let mut all: Vec<String> = messages(&mut after, "s/a");
    all.sort();
    assert_eq!(all, ["s/a n1 2", "s/a n2 2"]);
}

#[test]
fn messages_that_the_log_removed_before_an_adoption_are_counted() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let (one, two) = nodes(&nats, &folder);
    drop(kept_session(&one, "late", "l/#", &[]));
    one.kill();
    for number in 0..5 {
        publish(&two, "l/x", &format!("n{number}"), &["-q", "1"]);
    }
    for partition in 1..=4 {
        nats.purge(&format!("GP_P{partition}"));
    }
    await_adopted(&two, 1);
    publish(&two, "l/x", "last", &["-q", "1"]);
    let mut client = resumed(&two, "late");
    client.await_line("l/x last 1");
    assert_eq!(messages(&mut client, "l/x"), ["l/x last 1"]);
    assert_eq!(metric(&two, "gatepost_backbone_log_missed_total"), 5);
}

/// Ends the stream of a node that is not running, as another node does that then fails itself.
fn fence(nats: &Nats, node: u8) {
    let names = nats.request("$JS.API.STREAM.NAMES", "");
    let prefix = format!("GP_NODE_{node}_");
    let (_, rest) = names.split_once(&prefix).expect("the stream of the node");
    let epoch = rest[..16].trim_start_matches('0');
    // The version, the kind, the run and the number, and the node that adopts.
    let fence = format!("\x01\x05{}\x09", "\0".repeat(16));
    let answer = nats.request(&format!("gp.n.{node}.{epoch}"), &fence);
    assert!(answer.contains("\"seq\""), "{answer}");
}

#[test]
fn what_a_node_gets_in_its_next_epoch_outlives_the_adoption_of_the_last_one() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    let settings = |number| settings_with(&nats, number, "4s");
    let one = Gateway::start(&settings(1));
    let two = Gateway::start_in(folder.path(), &settings(2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    drop(kept_session(&one, "mover", "m/#", &[]));
    drop(kept_session(&two, "left", "l/#", &[]));
    two.kill();
    fence(&nats, 2);
    let two = Gateway::start_in(folder.path(), &settings(2));
    await_joined(&two, 1);
    // The session gets to the second node while the node's earlier epoch waits to be adopted.
    drop(resumed(&two, "mover"));
    publish(&one, "m/x", "n0", &["-q", "2"]);
    await_some("the earlier epoch is adopted", || {
        let adopted = "the sessions of a failed node are here now";
        [&one, &two]
            .iter()
            .any(|node| node.log().contains(adopted))
            .then_some(())
    });
    let mut client = resumed(&one, "mover");
    client.await_line("m/x n0 2");
    drop(resumed(&one, "left"));
}

/// The name and the number of replicas of a node's present stream.
fn node_stream(nats: &Nats, node: u8) -> (String, u64) {
    let answer = nats.request(
        "$JS.API.STREAM.LIST",
        &format!("{{\"subject\":\"gp.n.{node}.*\"}}"),
    );
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let streams = answer["streams"].as_array().expect("streams").iter();
    let configs = streams.map(|stream| &stream["config"]);
    let of_node = configs.map(|config| {
        let name = config["name"].as_str().expect("a name").to_owned();
        (name, config["num_replicas"].as_u64().expect("a number"))
    });
    of_node.max().expect("a stream")
}

#[test]
fn a_new_epoch_does_not_wait_for_a_nats_server_that_has_ended() {
    if nats::program().is_none() {
        return;
    }
    let (mut servers, folder) = (Nats::cluster(), folder());
    let settings = |number| {
        let of_all = Nats::settings_of_all(&servers, number);
        format!("{of_all}backbone.adopt_after = \"1h\"\n{PLAIN}")
    };
    let (of_one, of_two) = (settings(1), settings(2));
    let one = Gateway::start(&of_one);
    let two = Gateway::start_in(folder.path(), &of_two);
    await_joined(&one, 1);
    await_joined(&two, 1);
    two.kill();
    fence(&servers[0], 2);
    let before = node_stream(&servers[0], 2);
    assert_eq!(before.1, 3);
    servers[2].terminate();
    // Servers that have not seen the third one since their start place no replica there.
    for server in &mut servers[..2] {
        server.kill();
        server.start_again();
    }
    await_joined(&one, 0);
    let two = Gateway::start_in(folder.path(), &of_two);
    await_joined(&two, 1);
    let during = node_stream(&servers[0], 2);
    assert!(
        during.0 > before.0 && during.1 == 2,
        "{before:?} {during:?}"
    );
    let (code, text) = run_with_settings(&["backbone", "check"], &of_one);
    let incomplete = format!("the stream {} has 2 replicas instead of 3", during.0);
    assert!(code == Some(1) && text.contains(&incomplete), "{text}");
    drop(kept_session(&two, "patient", "p/#", &[]));
    publish(&one, "p/x", "n0", &["-q", "2"]);
    servers[2].start_again();
    await_some("the stream gets its third replica", || {
        let after = node_stream(&servers[0], 2);
        (after == (during.0.clone(), 3)).then_some(())
    });
    servers[0].await_replicas(3);
    let (_, text) = run_with_settings(&["backbone", "check"], &of_one);
    let complete = format!("the stream {} has 3 replicas, all current", during.0);
    assert!(text.contains(&complete), "{text}");
    resumed(&two, "patient").await_line("p/x n0 2");
}

#[test]
fn a_session_is_found_when_it_is_adopted_while_another_node_asks_for_it() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), folder());
    // The first node adopts, the second one asks the third one.
    let settings = |number, adopt_after| settings_with(&nats, number, adopt_after);
    let one = Gateway::start(&settings(1, "2s"));
    let two = Gateway::start(&settings(2, "1h"));
    let three = Gateway::start_in(folder.path(), &settings(3, "1h"));
    for node in [&one, &two, &three] {
        await_joined(node, 2);
    }
    drop(kept_session(&three, "patient", "p/#", &[]));
    publish(&three, "p/x", "n0", &["-q", "2"]);
    three.kill();
    fence(&nats, 3);
    let three = Gateway::start_in(folder.path(), &settings(3, "1h"));
    await_joined(&three, 2);
    // A slow adoption takes longer than a client is kept waiting.
    let mut client = await_some("the session is there", || {
        let mut client = continuing(&two, "patient");
        let said = client.await_line("S");
        assert!(said != "new Success", "the session is lost");
        (said == "present Success").then_some(client)
    });
    client.await_line("p/x n0 2");
    assert!(
        one.log()
            .contains("the sessions of a failed node are here now")
    );
}
