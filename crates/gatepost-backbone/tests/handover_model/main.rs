//! A model of how a session moves between nodes, and of how a node's log is adopted when the node
//! fails: every order of events within small bounds is examined.
//!
//! The design is in `docs/notes/cluster-design.md`. The model precedes its implementation: what is
//! wrong in the protocol is found here, and not by a test that has to hit the right moment. The
//! engine's streams and keys are linearizable in it, as the engine promises for writes; nodes are
//! killed, suspended and cut off at any moment; appends and messages between nodes arrive after
//! any delay. One session, subscribed at QoS 2, moves between three processes.

mod deliveries;
mod state;
mod steps;
mod transitions;

use stateright::{Checker, HasDiscoveries, Model, Property};

use state::Cluster;
use steps::Step;

/// The rules of the protocol. Each can be left out, to prove that the model would find it.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// An append states how many entries the log has.
    appends_are_fenced: bool,
    /// A position and the deliveries up to it are one append.
    position_commits_with_queue: bool,
    /// CONNACK is sent when the imported rows are acknowledged.
    connack_follows_import: bool,
    /// A process sends only while its key exists, by its own clock.
    sends_need_a_lease: bool,
    /// A claim keeps the sources that the previous owner had not imported yet.
    claims_keep_sources: bool,
    /// A process that transfers rows, or denies having them, no longer writes them.
    holders_stop: bool,
    /// An adopter that fails before it has copied the rows is replaced.
    adopters_are_replaced: bool,
}

impl Rules {
    const ALL: Self = Self {
        appends_are_fenced: true,
        position_commits_with_queue: true,
        connack_follows_import: true,
        sends_need_a_lease: true,
        claims_keep_sources: true,
        holders_stop: true,
        adopters_are_replaced: true,
    };
}

#[derive(Debug, Clone)]
struct Handover {
    rules: Rules,
    messages: u8,
    failures: u8,
    moves: u8,
}

const DELIVERED: &str = "G1: every acknowledged message is delivered";
const FOUND: &str = "G1, G5: the owner finds the session's rows";
const ONCE: &str = "G2: no message is delivered twice";
const ONE_CONNECTION: &str = "G4: after CONNACK no other connection is used";
const NO_WRITES: &str = "G9: a process that was fenced writes nothing";

impl Model for Handover {
    type State = Cluster;
    type Action = Step;

    fn init_states(&self) -> Vec<Cluster> {
        vec![Cluster::new(3, self.messages, self.failures, self.moves)]
    }

    fn actions(&self, cluster: &Cluster, steps: &mut Vec<Step>) {
        steps::possible(cluster, &self.rules, steps);
    }

    fn next_state(&self, cluster: &Cluster, step: Step) -> Option<Cluster> {
        let mut next = cluster.clone();
        transitions::take(&mut next, &self.rules, step);
        (next != *cluster).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            // Publications and failures end, so every run ends in a state without a next step.
            Property::eventually(DELIVERED, |_, cluster: &Cluster| {
                cluster.client.deliveries.iter().all(|&times| times > 0)
            }),
            Property::always(FOUND, |_, cluster: &Cluster| {
                !cluster.violations.lost_session
            }),
            Property::always(ONCE, |_, cluster: &Cluster| {
                cluster.client.deliveries.iter().all(|&times| times <= 1)
            }),
            Property::always(ONE_CONNECTION, |_, cluster: &Cluster| {
                !cluster.violations.used_old_connection
            }),
            Property::always(NO_WRITES, |_, cluster: &Cluster| {
                !cluster.violations.wrote_after_fence
            }),
            Property::sometimes("the session moves twice", |_, cluster: &Cluster| {
                cluster.directory.claim >= 3 && cluster.directory.sources.is_empty()
            }),
        ];
        if self.failures > 1 {
            let again = |_: &Self, cluster: &Cluster| {
                let adopted = |process: &state::Process| process.log.adopted.len() > 1;
                cluster.processes.iter().any(adopted)
            };
            properties.push(Property::sometimes(
                "an adopted log is adopted again",
                again,
            ));
        }
        properties
    }
}

fn handover(messages: u8, failures: u8, moves: u8) -> Handover {
    Handover {
        rules: Rules::ALL,
        messages,
        failures,
        moves,
    }
}

fn assert_properties(handover: Handover) {
    let checker = handover.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_failures_lose_nothing_and_repeat_nothing() {
    assert_properties(handover(1, 2, 1));
}

/// A second message reuses the packet identifier of the first one.
#[test]
fn two_messages_are_delivered_once_after_a_failure() {
    assert_properties(handover(2, 1, 1));
}

/// Searches the protocol without one of its rules for a run that breaks a property.
fn assert_breaks(remove: impl FnOnce(&mut Rules), property: &'static str) {
    let mut handover = handover(1, 2, 1);
    remove(&mut handover.rules);
    let expected = HasDiscoveries::AllOf(std::iter::once(property).collect());
    let checker = handover.checker().threads(2).finish_when(expected);
    let checker = checker.spawn_bfs().join();
    let path = checker.discovery(property).expect(property);
    println!("{property}: {:#?}", path.into_actions());
}

#[test]
fn without_fences_a_process_writes_to_an_adopted_log() {
    assert_breaks(|rules| rules.appends_are_fenced = false, NO_WRITES);
}

#[test]
fn a_position_that_commits_after_its_delivery_repeats_it() {
    assert_breaks(|rules| rules.position_commits_with_queue = false, ONCE);
}

#[test]
fn a_connack_before_the_import_leaves_another_connection_in_use() {
    assert_breaks(|rules| rules.connack_follows_import = false, ONE_CONNECTION);
}

#[test]
fn a_process_that_sends_without_its_lease_uses_an_old_connection() {
    assert_breaks(|rules| rules.sends_need_a_lease = false, ONE_CONNECTION);
}

#[test]
fn a_claim_that_forgets_earlier_sources_loses_the_session() {
    assert_breaks(|rules| rules.claims_keep_sources = false, FOUND);
}

#[test]
fn a_holder_that_goes_on_uses_an_old_connection() {
    assert_breaks(|rules| rules.holders_stop = false, ONE_CONNECTION);
}

#[test]
fn an_adopter_that_is_not_replaced_leaves_messages_undelivered() {
    assert_breaks(|rules| rules.adopters_are_replaced = false, DELIVERED);
}
