//! CALL: a client program is started repeatedly, and its exit code is the result.
//!
//! The original started a client through perl's `system` in a loop, as a mail server would start a
//! filter, and printed wall clock and CPU times. Here the same loop starts the command without a
//! shell (`posix_spawn`), waits for it, and continues with the next: one call at a time.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{FloorOf, Scenario, mail};
use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::outcome::{Headline, RunOutcome};
use crate::process::{CpuTimes, Sampler, cpu_times_of_self};
use crate::progress::RunProgress;
use crate::sweep::{Listed, Parameter, Sweepable};
use crate::target::{Endpoint, RunningTarget};

/// The mean length of the messages in the original scan corpus.
const MESSAGE_BYTES: usize = 11_719;

/// More calls than processes can be started in years.
const CALLS_MAX: u64 = 1_000_000_000_000;

/// Settings of CALL.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct CallArguments {
    /// Numbers of calls, one loop each in every run; a range is swept
    #[arg(long, value_name = "N,…", default_value = "100,1000,10000")]
    calls: Listed<u64>,
    /// The message file that {message} stands for [default: one of 11,719 bytes, made here]
    #[arg(long, value_name = "FILE")]
    message: Option<PathBuf>,
}

impl Sweepable for CallArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![("calls", &mut self.calls)]
    }
}

/// CALL with its message.
pub struct Call {
    arguments: CallArguments,
    message: PathBuf,
    /// Removes the message that was generated.
    _folder: Option<mail::MessageFolder>,
}

impl Call {
    /// Generates the message, unless one is given.
    pub fn new(arguments: CallArguments) -> Result<Self, BenchError> {
        let mut calls = arguments.calls.values().iter();
        if calls.any(|calls| !(1..=CALLS_MAX).contains(calls)) {
            return Err(BenchError::Settings(format!(
                "--calls must be from 1 to {CALLS_MAX}"
            )));
        }
        let (message, folder) = if let Some(path) = &arguments.message {
            (path.clone(), None)
        } else {
            let folder = mail::MessageFolder::with_sizes(&[MESSAGE_BYTES])?;
            (folder.files()[0].clone(), Some(folder))
        };
        Ok(Self {
            arguments,
            message,
            _folder: folder,
        })
    }
}

impl Scenario for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        let original = |value, set_up: &str| {
            let source = format!("Scope Engine 0.97, 2002: 10,000 calls, {set_up}");
            Headline::new("calls per second", value, source)
        };
        vec![
            original(29.18, "loopback, Linux, K6-2 450 MHz"),
            original(59.74, "loopback, Windows 2000, Duron 1 GHz"),
            original(53.18, "10 Mbit LAN, the best of four pairings"),
        ]
    }

    fn floors(&self) -> Vec<FloorOf> {
        let operations = [
            "process start, wait",
            "connect, accept, close on loopback",
            "round trip between threads on loopback",
        ];
        vec![FloorOf::new("average per call", &operations)]
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        vec![("message", self.message.to_string_lossy().into_owned())]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let Endpoint::Command(words) = &target.endpoint else {
            return Err(BenchError::Target {
                scenario: "call",
                target: target.endpoint.to_string(),
                takes: "a command, such as 'gatepost-call /sizecheck {message}'",
            });
        };
        let message = self.message.to_string_lossy();
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("{message}", &message))
            .collect();
        let mut outcome = RunOutcome::default();
        let mut made = 0;
        progress.together()?;
        let sampler = Sampler::start(target.watched.clone());
        for &calls in self.arguments.calls.values() {
            let measured = run_loop(target, &words, calls, progress)?;
            made += measured.calls;
            measured.report(&mut outcome);
            if measured.calls < calls {
                outcome.interrupted = true;
                break;
            }
        }
        let costs = sampler.finish();
        progress.together()?;
        outcome.set_costs(costs, "call", made);
        Ok(outcome)
    }
}

/// The measurements of one loop.
struct MeasuredLoop {
    calls: u64,
    wall_seconds: f64,
    times: CpuTimes,
    latencies: Latencies,
    /// The number of calls by exit code (−1 for a signal).
    codes: BTreeMap<i32, u64>,
}

fn run_loop(
    target: &RunningTarget,
    words: &[String],
    calls: u64,
    progress: &RunProgress,
) -> Result<MeasuredLoop, BenchError> {
    let (program, arguments) = words.split_first().ok_or(BenchError::NoTarget)?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    let mut measured = MeasuredLoop {
        calls: 0,
        wall_seconds: 0.0,
        times: CpuTimes::default(),
        latencies: Latencies::default(),
        codes: BTreeMap::new(),
    };
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::from(nowhere));
    let times = cpu_times_of_self();
    let begin = clock::now();
    let mut last = begin;
    while measured.calls < calls && !interrupted() {
        let status = command
            .status()
            .map_err(|error| BenchError::server(target, format!("{program}: {error}")))?;
        let now = clock::now();
        measured.latencies.record(now - last);
        last = now;
        measured.calls += 1;
        *measured
            .codes
            .entry(status.code().unwrap_or(-1))
            .or_default() += 1;
        progress.update(measured.calls as f64 / calls as f64, || {
            let rate = measured.calls as f64 / clock::seconds(now - begin);
            format!("{calls} calls, {rate:.0}/s")
        });
    }
    measured.wall_seconds = clock::seconds(last - begin);
    measured.times = cpu_times_of_self().since(&times);
    Ok(measured)
}

impl MeasuredLoop {
    /// The original's line.
    fn line(&self) -> String {
        let CpuTimes {
            user,
            system,
            child_user,
            child_system,
        } = self.times;
        format!(
            "{} calls -> {:.2} wallclock secs ({user:.2} + {system:.2} + {child_user:.2} + \
             {child_system:.2} = {:.2} CPU)",
            self.calls,
            self.wall_seconds,
            self.times.total()
        )
    }

    /// Writes the figures of the last loop, as the original published those of 10,000 calls.
    fn report(&self, outcome: &mut RunOutcome) {
        if self.calls == 0 {
            return;
        }
        let rate = self.calls as f64 / self.wall_seconds;
        let average = self.wall_seconds / self.calls as f64;
        outcome.original.push(self.line());
        outcome
            .original
            .push(format!("Calls per second : {rate:.2}"));
        outcome
            .original
            .push(format!("Average per call : {average:.6} secs"));
        outcome.figures.clear();
        outcome.latencies.clear();
        outcome.higher("calls per second", rate, "/s");
        outcome.lower("average per call", average * 1e6, "µs");
        outcome.lower(
            "CPU per call",
            self.times.total() / self.calls as f64 * 1e6,
            "µs",
        );
        let usual = self.codes.keys().next().copied().unwrap_or(0);
        outcome.neutral("exit code", f64::from(usual), "");
        if self.codes.len() > 1 {
            outcome.warn(format!("the exit codes differ: {:?}", self.codes));
        } else if !(0..64).contains(&usual) {
            outcome.warn(format!("every call exited {usual}: is that a verdict?"));
        }
        outcome.latency("call", &self.latencies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, calls: u64) -> RunOutcome {
        let arguments = CallArguments {
            calls: Listed::Together(vec![calls]),
            message: None,
        };
        let call = Call::new(arguments).expect("a message");
        let target = RunningTarget::from_endpoint(command.parse().expect("a command"));
        call.run(&target, &RunProgress::hidden())
            .expect("an outcome")
    }

    #[test]
    fn every_call_is_made_and_its_code_is_seen() {
        let outcome = run("sh -c 'test -s {message} && exit 3'", 20);
        assert_eq!(outcome.value("exit code"), Some(3.0));
        assert_eq!(outcome.latencies[0].summary.count, 20);
        assert!(outcome.value("calls per second").expect("a rate") > 0.0);
        assert!(
            outcome.original[0].starts_with("20 calls -> "),
            "{:?}",
            outcome.original
        );
        // The load of the test machine is not part of this test.
        let doubts = outcome.warnings.iter().filter(|line| line.contains("exit"));
        assert_eq!(doubts.count(), 0, "{:?}", outcome.warnings);
    }

    #[test]
    fn differing_codes_are_reported() {
        let outcome = run("sh -c 'exit $(($$ % 2))'", 40);
        assert!(
            outcome.warnings.iter().any(|line| line.contains("differ")),
            "{outcome:?}"
        );
    }

    #[test]
    fn the_line_is_the_original_s() {
        let measured = MeasuredLoop {
            calls: 10_000,
            wall_seconds: 342.66,
            times: CpuTimes {
                user: 0.95,
                system: 7.27,
                child_user: 54.26,
                child_system: 55.34,
            },
            latencies: Latencies::default(),
            codes: BTreeMap::new(),
        };
        assert_eq!(
            measured.line(),
            "10000 calls -> 342.66 wallclock secs (0.95 + 7.27 + 54.26 + 55.34 = 117.82 CPU)"
        );
    }
}
