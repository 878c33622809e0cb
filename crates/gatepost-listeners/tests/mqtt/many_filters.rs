//! A SUBSCRIBE with very many filters.

use gatepost_broker::Limit;
use gatepost_message::Qos;
use gatepost_mqtt::{Packet, PacketId, PacketProperties, Reason, SubscriptionOptions};

use crate::limits::{enter, is_counted, publish, with};

/// A packet has room for millions of filters, and each may match all that is retained.
#[test]
fn retained_messages_for_the_filters_of_a_packet() {
    const RETAINED: usize = 20;
    const FILTERS: usize = 20_000;
    let server = with(|settings| settings.retained_messages_max = RETAINED);
    let mut wire = enter(&server, "greedy");
    for number in 0..RETAINED {
        let kept = publish(&mut wire, &format!("kept/{number}"), true);
        assert_eq!(kept, Reason::NO_MATCHING_SUBSCRIBERS);
    }
    let text = "kept/#";
    let options = SubscriptionOptions::at(Qos::AtMostOnce);
    wire.send(&Packet::Subscribe(gatepost_mqtt::Subscribe {
        packet_id: PacketId::new(5).expect("not zero"),
        properties: PacketProperties::EMPTY,
        filters: std::iter::repeat_n(gatepost_mqtt::Filter { text, options }, FILTERS).collect(),
    }));
    let reasons = wire.expect(|packet| match packet {
        Packet::Suback(suback) => suback.reasons.to_vec(),
        other => panic!("not a SUBACK: {other:?}"),
    });
    assert_eq!(reasons.len(), FILTERS);
    let taken = reasons.iter().filter(|&&reason| reason == Reason::SUCCESS);
    // 100,000 messages, and those of one filter.
    assert_eq!(taken.count(), 100_000 / RETAINED + 1);
    assert_eq!(reasons.last(), Some(&Reason::QUOTA_EXCEEDED));
    assert!(is_counted(&server, Limit::Subscriptions));
}

#[test]
fn more_filters_in_a_packet_than_a_session_may_have() {
    let server = with(|settings| settings.subscriptions_per_session_max = 2);
    let mut wire = enter(&server, "greedy");
    let options = SubscriptionOptions::at(Qos::AtMostOnce);
    let filter = gatepost_mqtt::Filter { text: "a", options };
    wire.send(&Packet::Subscribe(gatepost_mqtt::Subscribe {
        packet_id: PacketId::new(5).expect("not zero"),
        properties: PacketProperties::EMPTY,
        filters: [filter; 3].into_iter().collect(),
    }));
    let reasons = wire.expect(|packet| match packet {
        Packet::Suback(suback) => suback.reasons.to_vec(),
        other => panic!("not a SUBACK: {other:?}"),
    });
    let (taken, refused) = (Reason::SUCCESS, Reason::QUOTA_EXCEEDED);
    assert_eq!(reasons, [taken, taken, refused]);
}

fn subscribe(packet_id: u16, text: &str, count: usize) -> Packet<'_> {
    let options = SubscriptionOptions::at(Qos::AtMostOnce);
    Packet::Subscribe(gatepost_mqtt::Subscribe {
        packet_id: PacketId::new(packet_id).expect("not zero"),
        properties: PacketProperties::EMPTY,
        filters: std::iter::repeat_n(gatepost_mqtt::Filter { text, options }, count).collect(),
    })
}

/// A filter that begins with a wildcard is compared with a topic of each first level, even if it
/// matches none.
#[test]
fn searches_for_the_filters_of_a_packet() {
    const RETAINED: usize = 20;
    const FILTERS: usize = 30_000;
    let server = with(|settings| settings.retained_messages_max = RETAINED);
    let mut wire = enter(&server, "curious");
    for number in 0..RETAINED {
        publish(&mut wire, &format!("{number}/kept"), true);
    }
    wire.send(&subscribe(5, "+/none", FILTERS));
    let reasons = wire.expect(|packet| match packet {
        Packet::Suback(suback) => suback.reasons.to_vec(),
        other => panic!("not a SUBACK: {other:?}"),
    });
    assert_eq!(reasons.len(), FILTERS);
    let taken = reasons.iter().filter(|&&reason| reason == Reason::SUCCESS);
    // Four times 100,000 topics, of which the server's own are some.
    assert!((1..=400_000 / RETAINED + 1).contains(&taken.count()));
    assert_eq!(reasons.last(), Some(&Reason::QUOTA_EXCEEDED));
    assert!(is_counted(&server, Limit::Subscriptions));
}

/// Packets of which each takes a turn of its own.
#[test]
fn packets_that_wait_for_the_next_turn_are_answered_in_their_order() {
    const RETAINED: usize = 20;
    let server = with(|settings| settings.retained_messages_max = RETAINED);
    let mut wire = enter(&server, "curious");
    for number in 0..RETAINED {
        publish(&mut wire, &format!("kept/{number}"), true);
    }
    for packet_id in 1..=20 {
        wire.send(&subscribe(packet_id, "+/none", 2_000));
    }
    wire.send(&Packet::Pingreq);
    for packet_id in 1..=20 {
        wire.expect(|packet| match packet {
            Packet::Suback(suback) => assert_eq!(suback.packet_id.get(), packet_id),
            other => panic!("not a SUBACK: {other:?}"),
        });
    }
    wire.expect(|packet| assert_eq!(packet, Packet::Pingresp));
}
