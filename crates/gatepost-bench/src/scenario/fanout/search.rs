//! `--max`: finds the highest rate without loss at which deliveries keep up, and latency and memory
//! stay within limits, by doubling and halving.
//!
//! Without the limits the search would favour the longest queue: a server that collects messages
//! for a second before each write has the highest rate of all.

use super::Fanout;
use super::settings::FanoutArguments;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::{BUSY_PERCENT, RunOutcome};
use crate::progress::RunProgress;
use crate::target::RunningTarget;

/// The search ends when the rate is known to this precision.
const PRECISION: f64 = 0.05;
/// The share of the offered messages that must be delivered in time.
const KEEPS_UP: f64 = 0.99;
/// Doubling the first rate this often exceeds the capacity of any server.
const DOUBLINGS_MAX: usize = 20;
/// The number of failed attempts after which a rate is abandoned: one may be caused by the machine.
const TRIES: usize = 2;

/// Searches, and returns the outcome of the highest rate that was sustained.
pub(super) fn highest_rate(
    fanout: &Fanout,
    target: &RunningTarget,
    progress: &RunProgress,
) -> Result<RunOutcome, BenchError> {
    let mut best: Option<(f64, RunOutcome)> = None;
    let mut too_high = None;
    let mut generator_failed = false;
    let mut rate = fanout.arguments.rate();
    let mut tried = Vec::new();
    for _ in 0..DOUBLINGS_MAX * 2 {
        let is_first = best.is_none();
        match try_rate(fanout, rate, target, progress, &mut tried) {
            Ok(Attempt::Held(outcome)) => best = Some((rate, *outcome)),
            Ok(Attempt::Failed { by_generator }) => {
                too_high = Some(rate);
                generator_failed = by_generator;
            }
            // A server that disconnects a publisher or does not answer did not sustain the rate.
            Err(BenchError::Server { reason, .. }) if !is_first => {
                let line = format!("{rate:.1} messages/s of each publisher: {reason}");
                progress.line(&line);
                tried.push(line);
                too_high = Some(rate);
                generator_failed = false;
            }
            Err(error) => return Err(error),
        }
        let low = best.as_ref().map_or(0.0, |(rate, _)| *rate);
        rate = match too_high {
            None => rate * 2.0,
            Some(high) if high - low <= PRECISION * high => break,
            Some(high) => f64::midpoint(low, high),
        };
        if interrupted() {
            break;
        }
    }
    let (rate, mut outcome) = best.ok_or_else(|| {
        BenchError::server(
            target,
            format!("not even {rate:.2} messages/s of each publisher held"),
        )
    })?;
    outcome.neutral("highest loss-free rate of a publisher", rate, "/s");
    outcome.original.push(condition(&fanout.arguments));
    outcome.original.extend(tried);
    if generator_failed {
        outcome.warn(
            "the generator, not the server, failed at the next higher rate: more --workers or \
             agents may find a higher one",
        );
    }
    outcome.interrupted = interrupted();
    Ok(outcome)
}

/// The result of the attempts at one rate.
enum Attempt {
    Held(Box<RunOutcome>),
    /// The last one failed, perhaps because of the generator.
    Failed {
        by_generator: bool,
    },
}

/// The outcome of the first successful attempt, and a line for each attempt.
fn try_rate(
    fanout: &Fanout,
    rate: f64,
    target: &RunningTarget,
    progress: &RunProgress,
    tried: &mut Vec<String>,
) -> Result<Attempt, BenchError> {
    let mut by_generator = false;
    for _ in 0..TRIES {
        let outcome = fanout.run_at(rate, target, progress)?;
        require_measured(&outcome, &fanout.arguments)?;
        let objection = rejection_reason(&outcome, &fanout.arguments);
        let line = format!(
            "{rate:.1} messages/s of each publisher: {:.0} deliveries/s, {}",
            outcome.value("deliveries per second").unwrap_or(0.0),
            objection.as_deref().unwrap_or("held")
        );
        progress.line(&line);
        tried.push(line);
        if objection.is_none() {
            return Ok(Attempt::Held(Box::new(outcome)));
        }
        by_generator = is_generators_limit(&outcome, &fanout.arguments);
        if interrupted() {
            break;
        }
    }
    Ok(Attempt::Failed { by_generator })
}

/// Fails if a bound cannot be checked: a rate would be said to have kept it.
fn require_measured(outcome: &RunOutcome, arguments: &FanoutArguments) -> Result<(), BenchError> {
    if arguments.max_memory.is_some() && outcome.server.is_none() {
        return Err(BenchError::Settings(
            "--max-memory needs the server's memory, which is not known here: give --pid or \
             --cgroup, or --share NAME=server"
                .into(),
        ));
    }
    if outcome.latency_of("delivery").is_none() {
        let reasons = outcome.warnings.join("; ");
        return Err(BenchError::Settings(format!(
            "--max needs the latencies of deliveries: {reasons}"
        )));
    }
    Ok(())
}

/// Whether the generator was too slow for the rate, so that the server may not be the cause of a
/// failure.
fn is_generators_limit(outcome: &RunOutcome, arguments: &FanoutArguments) -> bool {
    let limit_us = arguments.max_latency().duration().as_secs_f64() * 1e6;
    let slip = outcome.latency_of("schedule");
    outcome.generator.busiest_thread_percent > BUSY_PERCENT
        || slip.is_some_and(|slip| slip.p99_us >= limit_us)
}

/// The conditions of a sustained rate, for the report.
fn condition(arguments: &FanoutArguments) -> String {
    let latency = arguments.max_latency();
    let memory = match arguments.max_memory {
        Some(memory) => format!(", at most {memory} of the server's memory"),
        None => String::new(),
    };
    format!(
        "held: nothing lost, all acknowledged, 99 % of what was offered, p99 latency below \
         {latency}{memory}"
    )
}

/// The reason why a rate was not sustained.
fn rejection_reason(outcome: &RunOutcome, arguments: &FanoutArguments) -> Option<String> {
    let value = |name| outcome.value(name).unwrap_or(0.0);
    let lost = value("lost");
    if lost > 0.0 {
        return Some(format!("{lost:.0} lost"));
    }
    let unacknowledged = value("unacknowledged");
    if unacknowledged > 0.0 {
        return Some(format!("{unacknowledged:.0} never acknowledged"));
    }
    if value("deliveries per second") < KEEPS_UP * value("offered") {
        return Some(format!("of {:.0} offered", value("offered")));
    }
    let p99_us = |of| outcome.latency_of(of).map(|summary| summary.p99_us);
    let limit_us = arguments.max_latency().duration().as_secs_f64() * 1e6;
    let delivery_us = p99_us("delivery").unwrap_or(f64::INFINITY);
    if delivery_us >= limit_us {
        return Some(format!("p99 latency {:.0} ms", delivery_us / 1e3));
    }
    if let Some(us) = p99_us("acknowledgement").filter(|us| *us >= limit_us) {
        return Some(format!(
            "p99 latency of acknowledgements {:.0} ms",
            us / 1e3
        ));
    }
    let resident = outcome
        .server
        .as_ref()
        .map(|server| server.resident_bytes_max);
    match (resident, arguments.max_memory) {
        (Some(bytes), Some(max)) if bytes > max.bytes() => {
            Some(format!("{:.0} MB of memory", bytes as f64 / 1e6))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latencies;
    use crate::process::ProcessRecord;
    use clap::Parser;

    #[derive(Parser)]
    struct SearchCommandLine {
        #[command(flatten)]
        fanout: FanoutArguments,
    }

    fn outcome(deliveries: f64, lost: f64, latency_ms: u64, memory_mb: u64) -> RunOutcome {
        let mut outcome = RunOutcome::default();
        outcome.higher("deliveries per second", deliveries, "/s");
        outcome.neutral("offered", 1_000.0, "/s");
        outcome.lower("lost", lost, "");
        let mut latencies = Latencies::default();
        latencies.record(latency_ms * 1_000_000);
        outcome.latency("delivery", &latencies);
        outcome.server = Some(ProcessRecord {
            resident_bytes_max: memory_mb * 1_000_000,
            ..ProcessRecord::default()
        });
        outcome
    }

    #[test]
    fn a_rate_holds_within_all_its_bounds_only() {
        let words = ["fanout", "--max", "--max-memory", "150MB"];
        let arguments = SearchCommandLine::parse_from(words).fanout;
        let objection_to = |outcome| rejection_reason(&outcome, &arguments);
        assert_eq!(objection_to(outcome(995.0, 0.0, 99, 150)), None);
        let objections = [
            (outcome(995.0, 3.0, 99, 150), "3 lost"),
            (outcome(980.0, 0.0, 99, 150), "of 1000 offered"),
            (outcome(995.0, 0.0, 101, 150), "p99 latency 101 ms"),
            (outcome(995.0, 0.0, 99, 151), "151 MB of memory"),
        ];
        for (outcome, expected) in objections {
            assert_eq!(objection_to(outcome).as_deref(), Some(expected));
        }
        let acknowledged = |unacknowledged, latency_ms: u64| {
            let mut outcome = outcome(995.0, 0.0, 9, 150);
            outcome.lower("unacknowledged", unacknowledged, "");
            let mut latencies = Latencies::default();
            latencies.record(latency_ms * 1_000_000);
            outcome.latency("acknowledgement", &latencies);
            objection_to(outcome)
        };
        assert_eq!(acknowledged(0.0, 99), None);
        assert_eq!(
            acknowledged(2.0, 99).as_deref(),
            Some("2 never acknowledged")
        );
        let late = "p99 latency of acknowledgements 101 ms";
        assert_eq!(acknowledged(0.0, 101).as_deref(), Some(late));
        let mut unknown = outcome(995.0, 0.0, 9, 0);
        unknown.server = None;
        assert!(require_measured(&unknown, &arguments).is_err());
        assert!(require_measured(&outcome(995.0, 0.0, 9, 150), &arguments).is_ok());
        let anything = SearchCommandLine::parse_from(["fanout", "--max"]).fanout;
        assert_eq!(
            rejection_reason(&outcome(995.0, 0.0, 99, 9_999), &anything),
            None
        );
        assert!(require_measured(&unknown, &anything).is_ok());
        unknown.latencies.clear();
        assert!(require_measured(&unknown, &anything).is_err());
    }

    #[test]
    fn a_late_schedule_or_a_busy_thread_is_the_generators_limit() {
        let arguments = SearchCommandLine::parse_from(["fanout", "--max"]).fanout;
        let late = |milliseconds: u64| {
            let mut outcome = outcome(500.0, 0.0, 9, 150);
            let mut slip = Latencies::default();
            slip.record(milliseconds * 1_000_000);
            outcome.latency("schedule", &slip);
            outcome
        };
        assert!(is_generators_limit(&late(150), &arguments));
        assert!(!is_generators_limit(&late(1), &arguments));
        let mut busy = late(1);
        busy.generator.busiest_thread_percent = 99.0;
        assert!(is_generators_limit(&busy, &arguments));
    }
}
