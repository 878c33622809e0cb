//! A simulation of sessions under a seed: clients, clock, memory, commits and crashes.
//!
//! Each schedule drives some MQTT clients against a broker whose store commits when the schedule
//! says so. The clients follow the protocol: they connect and take over, publish and subscribe,
//! answer or do not, lose their connections and resume. The server is killed at any boundary
//! between two submissions. A model records every acknowledgement. The checks are:
//!
//! - each acknowledged message reaches every subscribed session, exactly once at QoS 2;
//! - of one publisher and topic, publications arrive in their order;
//! - sessions, their subscriptions and retained messages survive a restart unchanged;
//! - a will is published once its connection is lost, and never otherwise.
//!
//! A failed schedule is printed with its seed, shortened to the steps that matter.
//! `GATEPOST_TEST_SIMULATION_SEED` repeats it, `GATEPOST_TEST_SIMULATION_SEEDS` runs more of them,
//! on all processors. The last test proves that the checks notice each kind of error.

mod campaign;
mod client;
mod connection;
mod ending;
mod fixture;
mod model;
mod mutation;
mod reading;
mod schedule;
mod server;
mod sessions;
mod topics;
mod wire;

use std::time::Instant;

use fixture::{Checked, Fixture};
use mutation::Mutation;
use schedule::Step;
use server::Medium;

/// Seeds of an ordinary test run: a number and no time, so that every run covers the same.
const SEEDS: u64 = 3_000;
/// The same on a failing disk.
const SEEDS_ON_DISK: u64 = 1_500;

/// The parameters with which a schedule is run.
#[derive(Clone, Copy)]
struct Run {
    mutation: Mutation,
    medium: Medium,
}

impl Run {
    fn of(self, steps: &[Step]) -> Checked {
        let mut fixture = Fixture::new(self.mutation, self.medium);
        fixture.begin()?;
        for step in steps {
            fixture.take(*step)?;
        }
        fixture.finish()
    }

    /// Leaves out every step without which the schedule still fails.
    fn shortened(self, mut steps: Vec<Step>) -> Vec<Step> {
        let mut length = steps.len() / 2;
        while length > 0 {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + length).min(steps.len()));
                if self.of(&fewer).is_err() {
                    steps = fewer;
                } else {
                    at += length;
                }
            }
            length /= 2;
        }
        steps
    }

    fn report(self, seed: u64) -> String {
        let steps = self.shortened(schedule::schedule(seed));
        let difference = self.of(&steps).expect_err("a failing schedule");
        let lines: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
        format!(
            "{difference}\nGATEPOST_TEST_SIMULATION_SEED={seed} repeats this; its steps, \
             shortened:\n{}",
            lines.join("\n")
        )
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the seeds of an ordinary test run, one seed, or a campaign, of which a test runs one seed
/// in `share`. An ordinary run always has the same seeds: if it fails, a change of the code is the
/// cause.
fn run_schedules(test: &str, ordinary: u64, share: u64, medium: impl Fn(u64) -> Medium) {
    let check = |seed: u64| {
        let run = Run {
            mutation: Mutation::None,
            medium: medium(seed),
        };
        let failed = run.of(&schedule::schedule(seed)).is_err();
        assert!(!failed, "{}", run.report(seed));
    };
    let began = Instant::now();
    let count = if let Some(seed) = variable("GATEPOST_TEST_SIMULATION_SEED") {
        check(seed);
        1
    } else if let Some(seeds) = campaign::seeds_of_this_process() {
        seeds.clone().for_each(check);
        seeds.end - seeds.start
    } else if let Some(seeds) = variable("GATEPOST_TEST_SIMULATION_SEEDS") {
        campaign::run(test, seeds.div_ceil(share))
    } else {
        (0..ordinary).for_each(check);
        ordinary
    };
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!("{count} schedules, {rate:.0} a second");
}

#[test]
fn sessions_keep_their_promises_over_crashes() {
    let test = "sessions_keep_their_promises_over_crashes";
    run_schedules(test, SEEDS, 1, |_| Medium::Memory);
}

#[test]
fn sessions_keep_their_promises_on_a_failing_disk() {
    let test = "sessions_keep_their_promises_on_a_failing_disk";
    let share = SEEDS / SEEDS_ON_DISK;
    run_schedules(test, SEEDS_ON_DISK, share, Medium::FailingDisk);
}

#[test]
fn each_mutation_is_noticed() {
    const SEEDS_MAX: u64 = 5_000;
    for mutation in mutation::ALL {
        let medium = Medium::Memory;
        let run = Run { mutation, medium };
        let is_noticed = |seed: &u64| run.of(&schedule::schedule(*seed)).is_err();
        let noticed = (0..SEEDS_MAX).find(is_noticed);
        let seed = noticed.unwrap_or_else(|| panic!("{mutation:?} is not noticed"));
        println!("{mutation:?}: noticed by seed {seed}");
    }
}
