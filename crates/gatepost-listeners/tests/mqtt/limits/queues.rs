//! The limits on messages that wait for a client or for the disk.

use std::time::{Duration, Instant};

use gatepost_broker::{BrokerSettings, Limit, SlowSubscriber};
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::{Qos, Topic, TopicFilter};
use gatepost_mqtt::{Ack, Packet, Reason, Version};
use gatepost_settings::ByteSize;
use gatepost_store::{StoreChange, StoreSettings};

use super::{PATIENCE, enter, enter_again, is_counted, publish, with};
use crate::disk::{self, Disk};
use crate::server::Server;
use crate::wire::Wire;

/// A session whose client is not connected, and that subscribes to `a` at QoS 1.
pub(super) fn leave_session(server: &Server) {
    let mut absent = enter_again(server, "absent");
    absent.subscribe("a", Qos::AtLeastOnce);
    absent.send_bytes(&[0xE0, 0]);
    assert!(absent.is_closed());
}

#[test]
fn bytes_of_the_queue_of_a_session() {
    let server = with(|settings| settings.queue_bytes_max = ByteSize(12));
    leave_session(&server);
    let mut wire = enter(&server, "publisher");
    let reasons = [6, 4, 1].map(|bytes| {
        wire.publish("a", &vec![b'x'; bytes], Qos::AtLeastOnce, false);
        wire.expect(|packet| match packet {
            Packet::Puback(ack) => ack.reason,
            other => panic!("not a PUBACK: {other:?}"),
        })
    });
    let expected = [Reason::SUCCESS, Reason::SUCCESS, Reason::QUOTA_EXCEEDED];
    assert_eq!(
        reasons, expected,
        "12 bytes wait, topics included, and no more"
    );
    assert!(is_counted(&server, Limit::Queue));
}

#[test]
fn the_queue_of_a_session() {
    let server = with(|settings| settings.queue_messages_max = 2);
    leave_session(&server);
    let mut wire = enter(&server, "publisher");
    let reasons = [(); 3].map(|()| publish(&mut wire, "a", false));
    let expected = [Reason::SUCCESS, Reason::SUCCESS, Reason::QUOTA_EXCEEDED];
    assert_eq!(reasons, expected, "no answer promises what is dropped");
    assert!(is_counted(&server, Limit::Queue));
}

/// The messages that one member of a group has no room for are for the others.
#[test]
fn the_queue_of_a_member_of_a_group() {
    let settings = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        queue_messages_max: 1,
        inflight_max: 1,
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut members = ["slow", "quick"].map(|name| enter(&server, name));
    for member in &mut members {
        member.subscribe("$share/group/a", Qos::AtLeastOnce);
    }
    let [_slow, mut quick] = members;
    let mut publisher = enter(&server, "publisher");
    for number in 0..10 {
        assert_eq!(publish(&mut publisher, "a", false), Reason::SUCCESS);
        // One is in flight to the slow member, and another waits.
        if number == 1 || number > 2 {
            let packet_id = quick.expect(|packet| match packet {
                Packet::Publish(publish) => publish.packet_id.expect("QoS 1"),
                other => panic!("not a PUBLISH: {other:?}"),
            });
            quick.send(&Packet::Puback(Ack::success(packet_id)));
            assert!(quick.is_alive(), "the server knows the PUBACK");
        }
    }
    assert_eq!(server.broker.stats(0, 0).dropped_total(), 0);
}

/// A publication that would wait for the disk above `store.waiting_max` is refused.
#[test]
fn bytes_that_wait_for_the_disk() {
    let (disk, store) = Disk::with(StoreSettings {
        waiting_max: ByteSize(0),
        ..disk::settings()
    });
    let (broker, mqtt) = (BrokerSettings::default(), MqttSettings::default());
    let server = Server::with_store(broker, mqtt, None, store);
    disk.hold();
    // One commit is under way, and one group may always wait. The broker's own changes may be
    // either of them: more is submitted until a group waits longer than a writer needs to take it.
    let topic = Topic::new("waiting").expect("a topic");
    let deadline = Instant::now() + PATIENCE;
    let mut taken = Instant::now();
    while taken.elapsed() < Duration::from_millis(500) {
        assert!(Instant::now() < deadline, "a group waits");
        // Refused as soon as one waits.
        let _ = server.store.submit([StoreChange::Unretain(topic.clone())]);
        std::thread::sleep(Duration::from_millis(10));
        if server.store.waiting_bytes() == 0 {
            taken = Instant::now();
        }
    }
    let mut wire = enter(&server, "publisher");
    assert_eq!(publish(&mut wire, "a", true), Reason::QUOTA_EXCEEDED);
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut wire = Wire::connected(server.address, Version::Mqtt311, "older");
        wire.publish("a", b"x", qos, true);
        assert!(wire.is_closed(), "{qos:?} is not acknowledged");
    }
    let kept = server
        .broker
        .retained(&TopicFilter::new("#").expect("a filter"));
    assert!(kept.is_empty(), "what was refused is not there");
    disk.release();
}
