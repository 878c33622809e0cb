//! A simulation of sessions under a seed: clients, clock, commits and crashes.
//!
//! Each schedule drives some MQTT clients against a broker whose store commits when the schedule
//! says so. The clients keep to the protocol: they connect and take over, publish and subscribe,
//! answer or do not, lose their connections and resume. The server is killed at any boundary
//! between two submissions. A model knows what was acknowledged. It holds that
//!
//! - what was acknowledged reaches every session that was subscribed, exactly once at QoS 2;
//! - of one publisher and topic, publications arrive in their order;
//! - a session, its subscriptions and what topics retain are after a restart what they were;
//! - a will is published once its connection is lost, and never otherwise.
//!
//! A failed schedule is printed with its seed, shortened to the steps that matter.
//! `GATEPOST_TEST_SIMULATION_SEED` repeats it, `GATEPOST_TEST_SIMULATION_SEEDS` runs more of them.
//! The last test proves that the checks notice what they are for.

mod client;
mod connection;
mod ending;
mod model;
mod mutation;
mod reading;
mod schedule;
mod server;
mod sessions;
mod topics;
mod wire;
mod world;

use std::time::Instant;

use mutation::Mutation;
use schedule::Step;
use world::{Checked, World};

/// Seeds of an ordinary test run: a number and no time, so that every run covers the same.
const SEEDS: u64 = 3_000;

fn run(steps: &[Step], mutation: Mutation) -> Checked {
    let mut world = World::new(mutation);
    world.begin()?;
    for step in steps {
        world.take(*step)?;
    }
    world.finish()
}

/// Leaves out every step without which the schedule still fails.
fn shortened(mut steps: Vec<Step>, mutation: Mutation) -> Vec<Step> {
    let mut length = steps.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + length).min(steps.len()));
            if run(&fewer, mutation).is_err() {
                steps = fewer;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    steps
}

fn report(seed: u64, mutation: Mutation) -> String {
    let steps = shortened(schedule::schedule(seed), mutation);
    let difference = run(&steps, mutation).expect_err("a failing schedule");
    let lines: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
    format!(
        "{difference}\nGATEPOST_TEST_SIMULATION_SEED={seed} repeats this; its steps, shortened:\n{}",
        lines.join("\n")
    )
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn sessions_keep_their_promises_over_crashes() {
    if let Some(seed) = variable("GATEPOST_TEST_SIMULATION_SEED") {
        let failed = run(&schedule::schedule(seed), Mutation::None).is_err();
        assert!(!failed, "{}", report(seed, Mutation::None));
        return;
    }
    let asked = variable("GATEPOST_TEST_SIMULATION_SEEDS");
    // An ordinary run has always the same seeds: it fails for what was changed.
    let first = asked.map_or(0, |_| u64::from(std::process::id()) << 32);
    let count = asked.unwrap_or(SEEDS);
    let began = Instant::now();
    for seed in first..first + count {
        let failed = run(&schedule::schedule(seed), Mutation::None).is_err();
        assert!(!failed, "{}", report(seed, Mutation::None));
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!("{count} schedules, {rate:.0} a second");
}

#[test]
fn each_mutation_is_noticed() {
    const SEEDS_MAX: u64 = 5_000;
    for mutation in mutation::ALL {
        let is_noticed = |seed: &u64| run(&schedule::schedule(*seed), mutation).is_err();
        let noticed = (0..SEEDS_MAX).find(is_noticed);
        let seed = noticed.unwrap_or_else(|| panic!("{mutation:?} is not noticed"));
        println!("{mutation:?}: noticed by seed {seed}");
    }
}
