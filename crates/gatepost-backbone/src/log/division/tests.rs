//! The division as nodes compute it, with crashes, restarts and lost members at any moment.

use std::collections::{BTreeMap, BTreeSet};

use gatepost_store::Store;
use proptest::prelude::*;

use super::*;

const NODES: u8 = 4;
const EPOCHS: std::ops::Range<u64> = 1..4;

fn group(number: u8) -> TopicFilter {
    TopicFilter::new(&format!("$share/g{number}/a/#")).expect("a filter")
}

fn members() -> impl Strategy<Value = GroupMembers> {
    (0_u32..4, 0_u32..4).prop_map(|(connected, more)| GroupMembers {
        connected,
        all: connected + more,
    })
}

fn entries() -> impl Strategy<Value = (u8, GroupEntry)> {
    let some = prop::collection::vec((0_u8..3, members()), 1..4);
    let some = (EPOCHS, some).prop_map(|(epoch, some)| {
        let some = some.into_iter();
        let members = some.map(|(number, members)| (group(number), members));
        let members = members.collect();
        GroupEntry::Members { epoch, members }
    });
    let adopted = (1..=NODES, EPOCHS).prop_map(|(node, epoch)| NodeStreamId { node, epoch });
    let entry = prop_oneof![
        8 => some,
        2 => prop::collection::vec(1..=NODES, 1..3).prop_map(GroupEntry::Gone),
        1 => adopted.prop_map(GroupEntry::Adopted),
        1 => Just(GroupEntry::Restart),
    ];
    (1..=NODES, entry)
}

fn ids() -> impl Iterator<Item = MessageId> {
    (0..50_u64).map(|number| MessageId::from_number(number << 20))
}

/// The division by its definition: the last word about each node and group, in the last epoch of
/// the node that has one.
fn expected(log: &[(u8, GroupEntry)]) -> BTreeMap<(TopicFilter, u8), NodeShare> {
    let mut shares: BTreeMap<(TopicFilter, u8), NodeShare> = BTreeMap::new();
    let mut adopted = BTreeSet::new();
    for (node, entry) in log {
        match entry {
            GroupEntry::Members { epoch, members } => {
                let is_adopted = |(of, until): &(u8, u64)| of == node && until >= epoch;
                if adopted.iter().any(is_adopted) {
                    continue;
                }
                for (group, members) in members {
                    let key = (group.clone(), *node);
                    if shares.get(&key).is_some_and(|share| share.epoch > *epoch) {
                        continue;
                    }
                    shares.remove(&key);
                    shares.extend(NodeShare::of(*members, *epoch).map(|share| (key, share)));
                }
            }
            GroupEntry::Adopted(NodeStreamId { node, epoch }) => {
                adopted.insert((*node, *epoch));
                shares.retain(|(_, of), share| of != node || share.epoch > *epoch);
            }
            GroupEntry::Gone(nodes) => {
                let of_gone = shares
                    .iter_mut()
                    .filter(|((_, node), _)| nodes.contains(node));
                for (_, share) in of_gone {
                    share.is_gone = true;
                }
            }
            GroupEntry::Restart => {
                shares.clear();
                adopted.clear();
            }
        }
    }
    shares
}

proptest! {
    #[test]
    fn someone_serves_each_publication_while_a_member_exists(
        log in prop::collection::vec(entries(), 0..20),
    ) {
        let mut division = GroupDivision::default();
        for (node, entry) in &log {
            division.apply(*node, entry);
        }
        let expected = expected(&log);
        for group in (0..3).map(group) {
            let of_group = expected.iter().filter(|((one, _), _)| *one == group);
            let shares: Vec<(u8, NodeShare)> =
                of_group.map(|((_, node), share)| (*node, *share)).collect();
            let best = |share: &NodeShare| {
                (!share.is_gone && share.members.connected > 0, !share.is_gone)
            };
            let preferred = shares.iter().map(|(_, share)| best(share)).max();
            for id in ids() {
                let chosen = division.choose(&group, id, None);
                let share = shares.iter().find(|(node, _)| Some(*node) == chosen);
                prop_assert_eq!(share.map(|(_, share)| best(share)), preferred);
            }
        }
    }

    #[test]
    fn a_node_that_had_no_member_passes_on_to_another_one(
        log in prop::collection::vec(entries(), 0..20), by in 1..=NODES,
    ) {
        let mut division = GroupDivision::default();
        for (node, entry) in &log {
            division.apply(*node, entry);
        }
        for group in (0..3).map(group) {
            for id in ids() {
                let chosen = division.choose(&group, id, Some(by));
                prop_assert_eq!(chosen.is_some(), division.choose(&group, id, None).is_some());
                prop_assert_eq!(
                    chosen.is_some_and(|node| node != by),
                    division.has_other(&group, by)
                );
            }
        }
    }
}

fn members_of_group_0(members: GroupMembers) -> GroupEntry {
    GroupEntry::Members {
        epoch: 1,
        members: vec![(group(0), members)],
    }
}

/// A node that reads the log in steps, stores the division with each position, and crashes.
struct ReadingNode {
    store: Store,
    division: GroupDivision,
    position: usize,
    stored: usize,
}

impl ReadingNode {
    fn new() -> Self {
        Self {
            store: Store::in_memory().expect("a store"),
            division: GroupDivision::default(),
            position: 0,
            stored: 0,
        }
    }

    /// Reads entries up to a position, in one commit.
    async fn read(&mut self, log: &[(u8, GroupEntry)], until: usize) {
        let mut changes = vec![rows::put_known(1, Some(7))];
        for (node, entry) in &log[self.position..until] {
            let applied = self.division.apply(*node, entry);
            changes.extend(applied.iter().map(|change| rows::put(1, change)));
            if *entry == GroupEntry::Restart {
                changes.push(rows::put_known(1, Some(7)));
            }
        }
        let stored = self.store.submit(changes).expect("accepted");
        stored.committed().await.expect("stored");
        (self.position, self.stored) = (until, until);
    }

    /// Begins again from the database, after entries that were applied in memory only.
    fn crash(&mut self, log: &[(u8, GroupEntry)]) {
        for (node, entry) in &log[self.position..] {
            self.division.apply(*node, entry);
        }
        let stored = rows::read(&self.store, 1).expect("read");
        self.division = stored.division;
        self.position = self.stored;
    }

    /// The shares as another node gets them.
    fn answer(&self) -> GroupDivision {
        let mut bytes = bytes::BytesMut::new();
        for adopted in self.division.adoptions() {
            rows::push_adopted(&mut bytes, adopted);
        }
        for (group, node, share) in self.division.shares() {
            rows::push(&mut bytes, group, node, &share);
        }
        let mut input = crate::encoding::Input::new(bytes.freeze());
        let mut division = GroupDivision::default();
        while !input.is_empty() {
            division.change(&rows::read_change(&mut input).expect("as written"));
        }
        division
    }
}

#[test]
fn nodes_agree_at_each_position_after_any_crashes() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let config = ProptestConfig::with_cases(24);
    let steps = prop::collection::vec((1_usize..6, any::<bool>()), 1..12);
    proptest!(config, |(log in prop::collection::vec(entries(), 1..30), steps in steps)| {
        runtime.block_on(async {
            let mut node = ReadingNode::new();
            for (count, crashes) in steps {
                let until = log.len().min(node.position + count);
                node.read(&log, until).await;
                if crashes {
                    node.crash(&log);
                }
                let mut other = GroupDivision::default();
                for (of, entry) in &log[..node.position] {
                    other.apply(*of, entry);
                }
                assert_eq!(node.division, other);
                // One that begins with the answer of another node.
                assert_eq!(node.answer(), other);
                for id in ids() {
                    let chosen = node.division.choose(&group(0), id, None);
                    assert_eq!(chosen, other.choose(&group(0), id, None));
                }
            }
        });
    });
}

#[test]
fn nodes_get_publications_in_proportion_to_their_members() {
    let mut division = GroupDivision::default();
    for (node, connected) in [(1, 1), (2, 3), (3, 0)] {
        let members = GroupMembers { connected, all: 4 };
        division.apply(node, &members_of_group_0(members));
    }
    let mut counts = BTreeMap::new();
    for number in 0..4_000 {
        let chosen = division.choose(&group(0), MessageId::from_number(number), None);
        *counts.entry(chosen.expect("members")).or_insert(0_u32) += 1;
    }
    assert_eq!(
        counts.keys().copied().collect::<BTreeSet<u8>>(),
        BTreeSet::from([1, 2])
    );
    assert!((900..1_100).contains(&counts[&1]), "{counts:?}");
}

#[test]
fn the_choice_is_the_same_in_every_version() {
    let mut division = GroupDivision::default();
    for node in 1..=3 {
        let members = GroupMembers {
            connected: 1,
            all: 1,
        };
        division.apply(node, &members_of_group_0(members));
    }
    let chosen = |number| division.choose(&group(0), MessageId::from_number(number), None);
    let found: Vec<u8> = (0..8).filter_map(|number| chosen(number << 20)).collect();
    assert_eq!(found, [1, 1, 1, 3, 1, 3, 2, 1]);
}

#[test]
fn a_node_serves_what_it_was_chosen_for_in_its_present_epoch() {
    let mut division = GroupDivision::default();
    let members = GroupMembers {
        connected: 1,
        all: 1,
    };
    let (id, earlier) = (
        MessageId::from_number(0),
        NodeStreamId { node: 1, epoch: 1 },
    );
    let later = NodeStreamId { node: 1, epoch: 2 };
    let served = |division: &GroupDivision| {
        [earlier, later].map(|by| division.is_served_by(by, &group(0), id, None))
    };
    division.apply(1, &members_of_group_0(members));
    assert_eq!(
        served(&division),
        [true, false],
        "another node adopts the earlier epoch"
    );
    let again = GroupEntry::Members {
        epoch: 2,
        members: vec![(group(0), members)],
    };
    division.apply(1, &again);
    assert!(served(&division)[1]);
    division.apply(2, &GroupEntry::Adopted(earlier));
    assert!(served(&division)[1], "the later epoch remains");
    division.apply(1, &members_of_group_0(members));
    assert!(served(&division)[1], "an entry that was under way");
    division.apply(2, &GroupEntry::Adopted(later));
    division.apply(1, &again);
    assert_eq!(division.choose(&group(0), id, None), None);
}
