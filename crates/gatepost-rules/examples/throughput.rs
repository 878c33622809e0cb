//! Measures the cost of a scan: `throughput [--rounds N] [--threads N] [--rules DIR]…
//! [--no-deadline] [--show-limited] [--warm-up] MESSAGES…`.
//!
//! Reads all messages below the paths, scans them in rounds and prints for each round the CPU time
//! (as the scheduler accounts it, which is accurate on a busy machine too) and the memory held
//! after it. The first round compiles what later ones reuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use gatepost_settings::Period;

struct Arguments {
    rounds: usize,
    threads: usize,
    show_limited: bool,
    warm_up: bool,
    settings: RulesSettings,
    rules: Vec<PathBuf>,
    messages: Vec<PathBuf>,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        rounds: 3,
        threads: 1,
        show_limited: false,
        warm_up: false,
        settings: RulesSettings::default(),
        rules: Vec::new(),
        messages: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value");
        match word.as_str() {
            "--rounds" => arguments.rounds = value().parse().expect("rounds are a number"),
            "--warm-up" => arguments.warm_up = true,
            "--show-limited" => arguments.show_limited = true,
            // For runs in an emulator that counts instructions.
            "--no-deadline" => arguments.settings.max_time = Period::seconds(3600),
            "--threads" => arguments.threads = value().parse().expect("threads are a number"),
            "--rules" => arguments.rules.push(value().into()),
            path => collect(Path::new(path), &mut arguments.messages),
        }
    }
    if arguments.rules.is_empty() {
        arguments.rules = RulesSettings::default().paths;
    }
    arguments
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        files.push(path.to_owned());
        return;
    }
    let entries = fs::read_dir(path).expect("the folder can be read");
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in &entries {
        collect(entry, files);
    }
}

/// Nanoseconds that this thread ran so far.
fn cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or(0)
}

/// A line of /proc/self/status in kilobytes.
fn memory_kb(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn main() {
    let arguments = arguments();
    let read = |path: &PathBuf| fs::read(path).expect("the message can be read");
    let messages: Vec<Vec<u8>> = arguments.messages.iter().map(read).collect();
    let bytes: usize = messages.iter().map(Vec::len).sum();
    let before = memory_kb("VmRSS");
    let (start, cpu) = (Instant::now(), cpu_ns());
    let (rules, _) = RuleSet::load(&arguments.rules, &arguments.settings);
    println!(
        "{} messages, {bytes} bytes; {} rules loaded in {:.0} ms, {:.0} ms of CPU, {} KB",
        messages.len(),
        rules.statistics().rules,
        start.elapsed().as_secs_f64() * 1e3,
        (cpu_ns() - cpu) as f64 / 1e6,
        memory_kb("VmRSS") - before,
    );
    if arguments.warm_up {
        let cpu = cpu_ns();
        rules.warm_up();
        let cpu_ms = (cpu_ns() - cpu) as f64 / 1e6;
        println!(
            "warmed up in {cpu_ms:.0} ms of CPU, {} KB",
            memory_kb("VmRSS") - before
        );
    }
    for round in 1..=arguments.rounds {
        let next = AtomicUsize::new(0);
        let scan_some = || {
            let cpu = cpu_ns();
            let (mut hits, mut limited, mut slowest) = (0, 0, (0, 0));
            let mut first = 0;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(message) = messages.get(index) else {
                    return (cpu_ns() - cpu, hits, limited, slowest, first);
                };
                let begin = cpu_ns();
                let report = rules.scan(message, &ScanContext::default());
                let took = cpu_ns() - begin;
                if index == 0 {
                    first = took;
                }
                slowest = slowest.max((took, index));
                hits += report.hits.len();
                limited += report.limited.len();
                if arguments.show_limited && !report.limited.is_empty() {
                    println!(
                        "{}: {:?}",
                        arguments.messages[index].display(),
                        report.limited
                    );
                }
            }
        };
        let start = Instant::now();
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..arguments.threads)
                .map(|_| scope.spawn(scan_some))
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|result| result.expect("a scan")).collect()
        });
        let wall = start.elapsed();
        let cpu: u64 = results.iter().map(|result| result.0).sum();
        let hits: usize = results.iter().map(|result| result.1).sum();
        let limited: usize = results.iter().map(|result| result.2).sum();
        let first = results.iter().map(|result| result.4).sum::<u64>();
        let slowest = results
            .iter()
            .map(|result| result.3)
            .max()
            .unwrap_or((0, 0));
        println!(
            "round {round}: {:.1} µs of CPU a message, {:.0} messages/s by the clock, {hits} hits, \
             {limited} limited, {} KB (at most {}), first {:.1} ms, slowest {:.1} ms {}",
            cpu as f64 / 1e3 / messages.len() as f64,
            messages.len() as f64 / wall.as_secs_f64(),
            memory_kb("VmRSS") - before,
            memory_kb("VmHWM"),
            first as f64 / 1e6,
            slowest.0 as f64 / 1e6,
            arguments
                .messages
                .get(slowest.1)
                .map_or("", |path| path.to_str().unwrap_or("")),
        );
    }
}
