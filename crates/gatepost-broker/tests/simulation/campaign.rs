//! A campaign: many seeds, divided among as many processes as there are processors. Threads of one
//! process would share its counter of message ids, and a schedule can be repeated only with ids of
//! its own.

use std::ops::Range;
use std::process::{Child, Command};
use std::thread;

use crate::variable;

/// The first seed of a process of a campaign.
const FIRST: &str = "GATEPOST_TEST_SIMULATION_FIRST";
/// The number of its seeds.
const COUNT: &str = "GATEPOST_TEST_SIMULATION_COUNT";

/// The seeds of this process, if it belongs to a campaign.
pub(crate) fn seeds_of_this_process() -> Option<Range<u64>> {
    let first = variable(FIRST)?;
    Some(first..first + variable(COUNT)?)
}

/// Runs `count` seeds or a few more, which no earlier campaign ran, with `test` of this program;
/// returns their number.
pub(crate) fn run(test: &str, count: u64) -> u64 {
    let processes = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = count.div_ceil(processes);
    let first = u64::from(std::process::id()) << 32;
    let program = std::env::current_exe().expect("the path of this program");
    let start = |number: u64| {
        let child = Command::new(&program)
            .args(["--exact", test, "--nocapture"])
            .env(FIRST, (first + number * share).to_string())
            .env(COUNT, share.to_string())
            .spawn();
        child.expect("a process")
    };
    let children: Vec<Child> = (0..processes).map(start).collect();
    let ended: Vec<bool> = children
        .into_iter()
        .map(|mut child| child.wait().expect("its end").success())
        .collect();
    assert!(ended.iter().all(|success| *success), "a schedule failed");
    processes * share
}
