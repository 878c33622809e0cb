//! Identifiers, steps and order, without a connection.

use std::sync::Arc;

use gatepost_message::{Publication, Qos};
use smallvec::SmallVec;

use super::*;

fn send(state: &mut AcknowledgedDeliveries, qos: Qos) -> NonZeroU16 {
    let topic = Topic::new("a").expect("a topic");
    let delivery = Delivery {
        publication: Arc::new(Publication::new(topic, "x")),
        stored: None,
        commit: None,
        sequence: state.next_sequence(),
        qos,
        retain: false,
        dup: false,
        identifiers: SmallVec::new(),
    };
    state.push(delivery);
    assert!(!state.must_wait_for_identifier());
    state.send().expect("it waits").packet_id()
}

#[test]
fn mqtt_2_2_1_4_identifiers_in_use_are_not_given_again() {
    let mut state = AcknowledgedDeliveries::default();
    let kept = send(&mut state, Qos::AtLeastOnce);
    for _ in 0..140_000 {
        let packet_id = send(&mut state, Qos::AtLeastOnce);
        assert_ne!(packet_id, kept);
        state.acknowledge(packet_id).expect("in flight");
    }
    assert_eq!(state.acknowledge(kept), Ok(()));
    assert_eq!(state.acknowledge(kept), Err(StrayAcknowledgement::Unknown));
}

#[test]
fn exactly_once_takes_its_four_steps() {
    let mut state = AcknowledgedDeliveries::default();
    let packet_id = send(&mut state, Qos::ExactlyOnce);
    assert_eq!(
        state.acknowledge(packet_id),
        Err(StrayAcknowledgement::OutOfStep),
        "no PUBACK at QoS 2"
    );
    assert_eq!(
        state.finish(packet_id),
        Err(StrayAcknowledgement::OutOfStep),
        "not released yet"
    );
    assert_eq!(state.release(packet_id), Ok(()));
    assert_eq!(state.release(packet_id), Ok(()), "a repeated PUBREC");
    assert_eq!(state.finish(packet_id), Ok(()));
    assert!(state.in_flight.is_empty());
}

#[test]
fn unacknowledged_deliveries_wait_again_in_their_order() {
    let mut state = AcknowledgedDeliveries::default();
    let ids: Vec<_> = [Qos::AtLeastOnce, Qos::ExactlyOnce, Qos::AtLeastOnce]
        .map(|qos| send(&mut state, qos))
        .into();
    state.release(ids[1]).expect("in flight");
    state.send_again();
    assert_eq!(
        state.in_flight.len(),
        1,
        "what is released is not sent again"
    );
    let again: Vec<_> = std::iter::from_fn(|| state.send()).collect();
    let sent: Vec<_> = again
        .iter()
        .map(|delivery| (delivery.packet_id(), delivery.dup))
        .collect();
    assert_eq!(sent, [(ids[0], true), (ids[2], true)]);
    let order: Vec<_> = state
        .in_flight
        .iter()
        .map(|flight| flight.packet_id)
        .collect();
    assert_eq!(order, ids, "sorted by sequence");
}
