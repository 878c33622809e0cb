//! One size: clients fetch back to back for a fixed time, or at fixed times, and WebStone's figures
//! are computed.

use super::WebArguments;
use super::client::{WebClient, WebTotals};
use super::schedule::PageSchedule;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::load::{Dialer, Loop};
use crate::outcome::RunOutcome;

/// The time without a response after which the pages that wait for one are counted as unanswered.
const PATIENCE: Nanoseconds = 2 * clock::SECOND;

/// The measurements of one size.
pub(super) struct MeasuredSize {
    pub(super) seconds: f64,
    /// The time that the oldest request had waited for its response at the end.
    waited: Option<Nanoseconds>,
    pub(super) shared: WebTotals,
}

/// Fetches pages; `report` is called with the progress and the rate.
pub(super) fn measure(
    arguments: &WebArguments,
    mut dialer: Dialer,
    request: Vec<u8>,
    mut report: impl FnMut(f64, f64),
) -> Result<MeasuredSize, BenchError> {
    let mut clients: Loop<WebClient> = Loop::new()?;
    let start = clock::now();
    let begin = start + clock::from_seconds(arguments.warm_up);
    let end = begin + clock::from_seconds(arguments.seconds);
    let mut shared = WebTotals::new(
        request,
        arguments.keep_alive,
        arguments.clients.get(),
        begin,
    );
    shared.schedule = arguments
        .rate
        .as_ref()
        .map(|rate| PageSchedule::new(start, begin..end, rate.get()));
    loop {
        let now = clock::now();
        if now >= end || interrupted() {
            break;
        }
        let measured = now.saturating_sub(begin);
        report(
            measured as f64 / (end - begin) as f64,
            rate(shared.hits, measured),
        );
        if let Some(schedule) = &mut shared.schedule {
            let next = schedule.advance(now);
            dispatch(&mut clients, &mut dialer, &mut shared)?;
            clients.turn_until(end.min(next), &mut shared)?;
            continue;
        }
        while let Some(number) = shared.idle.pop() {
            let begun = clock::now();
            let Ok(socket) = dialer.dial() else {
                shared.errors += 1;
                shared.idle.push(number);
                break;
            };
            clients.add(socket, WebClient::new(number, begun))?;
        }
        clients.turn(end.min(now + clock::SECOND / 10), &mut shared)?;
    }
    let ended = clock::now();
    // Requests that were interrupted at the end count only for the load factor.
    let cut_off = clients
        .conversations()
        .map(|client| client.in_request(ended, &shared));
    shared.in_requests += cut_off.sum::<u64>();
    let oldest = clients.conversations().filter_map(WebClient::waiting_since);
    let waited = oldest.min().map(|begun| ended.saturating_sub(begun));
    if shared.schedule.is_some() {
        finish(&mut clients, &mut dialer, &mut shared)?;
    }
    Ok(MeasuredSize {
        waited,
        seconds: clock::seconds(ended.saturating_sub(begin).max(1)),
        shared,
    })
}

/// Lets free clients fetch the pages that wait.
fn dispatch(
    clients: &mut Loop<WebClient>,
    dialer: &mut Dialer,
    shared: &mut WebTotals,
) -> Result<(), BenchError> {
    while let Some(schedule) = &mut shared.schedule {
        let Some(&due) = schedule.waiting.front() else {
            break;
        };
        if let Some(index) = schedule.free.pop() {
            schedule.waiting.pop_front();
            if let Some(client) = clients.conversation(index) {
                client.fetch(due);
            }
            let request = shared.request();
            clients.send(index, &request, shared);
            continue;
        }
        let Some(number) = shared.idle.pop() else {
            break;
        };
        let dialed = clock::now();
        let Ok(socket) = dialer.dial() else {
            shared.errors += 1;
            shared.idle.push(number);
            break;
        };
        schedule.waiting.pop_front();
        let index = clients.add(socket, WebClient::new(number, dialed))?;
        if let Some(client) = clients.conversation(index) {
            client.fetch(due);
            client.keep_index(index);
        }
    }
    Ok(())
}

/// Fetches the pages that are still due after the end, until nothing has come for a while: the
/// slowest ones would otherwise be missing from the response times.
fn finish(
    clients: &mut Loop<WebClient>,
    dialer: &mut Dialer,
    shared: &mut WebTotals,
) -> Result<(), BenchError> {
    if interrupted() {
        return Ok(());
    }
    let unanswered = |shared: &WebTotals| {
        let schedule = shared.schedule.as_ref();
        schedule.map_or(0, PageSchedule::unanswered)
    };
    if let Some(schedule) = &mut shared.schedule {
        schedule.advance_to_end();
    }
    let (mut last, mut changed) = (unanswered(shared), clock::now());
    while last > 0 && clock::now() - changed < PATIENCE && !interrupted() {
        dispatch(clients, dialer, shared)?;
        clients.turn(clock::now() + clock::SECOND / 50, shared)?;
        if unanswered(shared) != last {
            (last, changed) = (unanswered(shared), clock::now());
        }
    }
    Ok(())
}

fn rate(hits: u64, span: Nanoseconds) -> f64 {
    hits as f64 / clock::seconds(span.max(1))
}

/// The heading above the lines of all sizes.
pub(super) fn heading() -> String {
    format!(
        "{:>7} {:>9} {:>10} {:>12} {:>8} {:>8} {:>11} {:>11} {:>6}",
        "size",
        "response",
        "conn/s",
        "bytes/s",
        "err/s",
        "Mbit/s",
        "response ms",
        "connect ms",
        "load"
    )
}

impl MeasuredSize {
    /// WebStone's figures, with names that begin with `prefix`.
    pub(super) fn report(
        &self,
        size: usize,
        prefix: &str,
        server_cpu: Option<f64>,
        outcome: &mut RunOutcome,
    ) {
        let Self {
            seconds, shared, ..
        } = self;
        let per_second = shared.hits as f64 / seconds;
        let bytes_per_second = shared.bytes as f64 / seconds;
        let errors_per_second = shared.errors as f64 / seconds;
        let megabits = bytes_per_second * 8.0 / 1e6;
        let (response, connect) = (shared.response.summary(), shared.connect.summary());
        let load = clock::seconds(shared.in_requests) / seconds;
        let length = shared.bytes / shared.hits.max(1);
        outcome.original.push(format!(
            "{size:>7} {length:>9} {per_second:>10.2} {bytes_per_second:>12.0} \
             {errors_per_second:>8.2} {megabits:>8.1} {:>11.3} {:>11.3} {load:>6.2}",
            response.mean_us / 1e3,
            connect.mean_us / 1e3,
        ));
        outcome.higher(format!("{prefix}pages per second"), per_second, "/s");
        outcome.higher(format!("{prefix}throughput"), megabits, "Mbit/s");
        outcome.lower(
            format!("{prefix}errors per second"),
            errors_per_second,
            "/s",
        );
        outcome.neutral(format!("{prefix}load factor"), load, "");
        if let Some(cpu) = server_cpu {
            let per_page = cpu / shared.pages.max(1) as f64 * 1e6;
            outcome.lower(format!("{prefix}server CPU per page"), per_page, "µs");
        }
        outcome.latency(format!("{prefix}response"), &shared.response);
        if shared.connect.count() > 0 {
            outcome.latency(format!("{prefix}connect"), &shared.connect);
        }
        match &shared.schedule {
            Some(schedule) => report_schedule(schedule, size, prefix, outcome),
            None => outcome.warn_of_waiting(&format!("{prefix}response"), self.waited),
        }
        outcome.counts_by_second.extend(shared.timeline.seconds());
        outcome.warn_if_unsteady(shared.timeline.parts());
        if shared.errors > 0 {
            outcome.warn(format!("{size} B: {} requests failed", shared.errors));
        }
    }
}

/// Adds the figures of an open loop.
fn report_schedule(schedule: &PageSchedule, size: usize, prefix: &str, outcome: &mut RunOutcome) {
    let unanswered = schedule.unanswered();
    outcome.neutral(format!("{prefix}offered"), schedule.rate(), "/s");
    outcome.lower(format!("{prefix}unanswered"), unanswered as f64, "");
    if unanswered > 0 {
        outcome.warn(format!(
            "{size} B: {unanswered} pages had no response, so no response time includes them"
        ));
    }
    outcome.latency(format!("{prefix}schedule"), &schedule.slip);
    outcome.warn_of_slip(&schedule.slip);
}
