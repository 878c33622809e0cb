use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn ids_rise_and_are_unique() {
    let ids: Vec<_> = (0..10_000).map(|_| MessageId::next()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn ids_never_go_back_with_the_clock() {
    let last = AtomicU64::new(0);
    let at = |seconds| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        next_after(
            &last,
            node_bits(NodeNumber::FIRST),
            MessageId::floor_at(time),
        )
    };
    // 2026, then a start in 1970, then a minute later than the first.
    let ids = [1_780_000_000, 0, 1, 1_780_000_000, 1_780_000_060].map(at);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    assert_eq!(
        MessageId(ids[4]).time(),
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_060)
    );
}

/// A node that gives ids and places by a clock of its own.
struct Node {
    bits: u64,
    last: AtomicU64,
    place: u64,
    clock_ms: u64,
}

impl Node {
    fn new(number: u16) -> Self {
        let number = NodeNumber::new(number).expect("a node");
        Self {
            bits: node_bits(number),
            last: AtomicU64::new(0),
            place: 0,
            clock_ms: EPOCH_UNIX_MS + 1,
        }
    }

    fn next(&self) -> u64 {
        let time = UNIX_EPOCH + Duration::from_millis(self.clock_ms);
        next_after(&self.last, self.bits, MessageId::floor_at(time))
    }
}

proptest! {
    /// In whatever direction the clocks move.
    #[test]
    fn nodes_never_assign_the_same_id_or_position(
        steps in proptest::collection::vec((0..3usize, -3..3i64, 1..200usize), 1..20),
    ) {
        let mut nodes = [1, 2, 255].map(Node::new);
        let mut seen = HashSet::new();
        for (index, ms, count) in steps {
            let node = &mut nodes[index];
            node.clock_ms = node.clock_ms.saturating_add_signed(ms).max(EPOCH_UNIX_MS);
            for _ in 0..count {
                let before = node.last.load(Ordering::Relaxed);
                let id = node.next();
                prop_assert!(id > before && id & PLACE == 0);
                prop_assert!(seen.insert(id), "{id}");
            }
            // A message that was overtaken is placed after all others.
            let last = node.place.max(node.last.load(Ordering::Relaxed));
            node.place = MessageId(last).place_after().0;
            prop_assert!(node.place > last);
            prop_assert!(seen.insert(node.place), "{}", node.place);
        }
    }

    /// Any id of a database of an earlier release, and any number that was given to it later.
    #[test]
    fn ids_follow_any_earlier_one(earlier in 0..HIGHEST_SANE, number in 1..=255u16) {
        let node = Node::new(number);
        node.last.store(earlier, Ordering::Relaxed);
        let id = node.next();
        prop_assert!(id > earlier);
        prop_assert_eq!(id & (STEP - 1), node.bits);
    }
}

#[test]
fn a_millisecond_has_2048_ids_of_a_node_and_further_ones_use_the_next() {
    let node = Node::new(7);
    let ids: Vec<_> = (0..2_049).map(|_| MessageId(node.next())).collect();
    assert_eq!(ids[0].time(), ids[2_047].time());
    assert_eq!(ids[2_048].time(), ids[0].time() + Duration::from_millis(1));
    assert!(ids[0] >= MessageId::floor_at(ids[0].time()));
}

#[test]
fn ids_continue_after_those_of_an_earlier_process() {
    let ahead = MessageId(MessageId::next().0 + (10 << TIME_SHIFT));
    assert!(MessageId::continue_after(ahead));
    assert!(MessageId::next() > ahead);
    assert!(
        !MessageId::continue_after(MessageId(u64::MAX)),
        "made by no clock"
    );
    assert!(MessageId::highest() < MessageId(u64::MAX));
}

#[test]
fn text_returns_the_same_id_and_sorts_like_it() {
    let first = MessageId::next();
    let second = MessageId::next();
    assert_eq!(first.to_string().parse(), Ok(first));
    assert!(first.to_string() < second.to_string());
}

#[test]
fn time_is_the_time_of_arrival() {
    let before = SystemTime::now() - Duration::from_millis(2);
    let time = MessageId::next().time();
    assert!(time >= before);
    assert!(MessageId::floor_at(before) < MessageId::next());
}

#[test]
fn malformed_texts_are_refused() {
    for text in [
        "",
        "short",
        "0000000000u00",
        "zzzzzzzzzzzzz",
        "é00000000000",
    ] {
        assert!(text.parse::<MessageId>().is_err(), "{text}");
    }
}
