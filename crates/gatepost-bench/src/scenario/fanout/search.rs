//! `--max`: the highest rate at which nothing is lost and deliveries keep up, by doubling and
//! halving.

use super::Fanout;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::target::Target;

/// The search ends when the rate is known to this share.
const PRECISION: f64 = 0.05;
/// Deliveries must keep up with what is offered, to this share.
const KEEPS_UP: f64 = 0.99;
/// At a rate that is kept up with, messages do not pile up longer than this.
const LATENCY_MAX_US: f64 = 1_000_000.0;
/// Twice the first rate, twenty times over, is more than any server's.
const DOUBLINGS_MAX: usize = 20;

/// Searches, and gives the outcome of the highest rate that held.
pub(super) fn highest_rate(
    fanout: &Fanout,
    target: &Target,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let mut best: Option<(f64, Outcome)> = None;
    let mut too_high = None;
    let mut rate = fanout.arguments.rate();
    let mut tried = Vec::new();
    for _ in 0..DOUBLINGS_MAX * 2 {
        let outcome = fanout.run_at(rate, target, progress)?;
        let held = holds(&outcome);
        tried.push(format!(
            "{rate:.1} messages/s of each publisher: {:.0} deliveries/s, {}",
            outcome.value("deliveries per second").unwrap_or(0.0),
            if held { "held" } else { "not held" }
        ));
        progress.line(tried.last().map_or("", String::as_str));
        if held {
            best = Some((rate, outcome));
        } else {
            too_high = Some(rate);
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
    outcome.original.extend(tried);
    outcome.interrupted = interrupted();
    Ok(outcome)
}

fn holds(outcome: &Outcome) -> bool {
    let value = |name| outcome.value(name).unwrap_or(0.0);
    let latency = outcome
        .latency_of("delivery")
        .map_or(f64::INFINITY, |summary| summary.p99_us);
    value("lost") == 0.0
        && value("deliveries per second") >= KEEPS_UP * value("offered")
        && latency <= LATENCY_MAX_US
}
