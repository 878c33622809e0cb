//! `--profile`: the distribution of the scans' time.

use std::io::{self, Write};
use std::time::Duration;

use gatepost_rules::{RuleCost, ScanProfile};

/// Rules that are listed, the most expensive first.
const RULES_SHOWN: usize = 25;

/// Prints the profile of all messages.
pub(super) fn print(out: &mut impl Write, profile: &ScanProfile) -> io::Result<()> {
    let total: Duration = profile.stages().map(|(_, time)| time).sum();
    writeln!(
        out,
        "{} messages, {} bytes, {:.3} ms each\n",
        profile.messages,
        profile.bytes,
        each(profile, total)
    )?;
    writeln!(out, "{:28} {:>12} {:>8}", "stage", "ms a message", "share")?;
    for (stage, time) in profile.stages() {
        let share = percent(time.as_secs_f64(), total.as_secs_f64());
        let name = stage.name();
        writeln!(out, "{name:28} {:12.4} {share:6.1} %", each(profile, time))?;
    }
    first_uses(out, profile, total)?;
    let rules = profile.rules();
    candidates(out, &rules)?;
    rules_by_time(out, profile, &rules)
}

/// Prints the part of the stages that later messages do not repeat.
fn first_uses(out: &mut impl Write, profile: &ScanProfile, total: Duration) -> io::Result<()> {
    let uses = profile.first_uses;
    writeln!(
        out,
        "\n{:28} {:>12} {:>8} {:>12}",
        "computed on first use, in it", "ms a message", "share", "a message"
    )?;
    for (name, use_of) in [
        ("transitions of automata", uses.transitions),
        ("prefix filters", uses.prefixes),
        ("compiled patterns", uses.patterns),
    ] {
        writeln!(
            out,
            "{name:28} {:12.4} {:6.1} % {:12.2}",
            each(profile, use_of.time),
            percent(use_of.time.as_secs_f64(), total.as_secs_f64()),
            use_of.count as f64 / profile.messages.max(1) as f64
        )?;
    }
    writeln!(out, "prefilters read {} bytes", profile.filtered_bytes)
}

/// Prints the precision of the prefilters.
fn candidates(out: &mut impl Write, rules: &[RuleCost]) -> io::Result<()> {
    let candidates: u64 = rules.iter().map(|rule| rule.candidates).sum();
    let confirmed: u64 = rules.iter().map(|rule| rule.confirmed).sum();
    writeln!(
        out,
        "\n{candidates} candidates were verified, {confirmed} were matches: {:.1} % false alarms",
        percent((candidates - confirmed) as f64, candidates as f64)
    )
}

fn rules_by_time(
    out: &mut impl Write,
    profile: &ScanProfile,
    rules: &[RuleCost],
) -> io::Result<()> {
    writeln!(
        out,
        "\n{:36} {:>12} {:>10} {:>8} {:>10}",
        "rule", "ms a message", "candidates", "matches", "other runs"
    )?;
    for rule in rules.iter().take(RULES_SHOWN) {
        writeln!(
            out,
            "{:36} {:12.4} {:10} {:8} {:10}",
            rule.name,
            each(profile, rule.time),
            rule.candidates,
            rule.confirmed,
            rule.runs
        )?;
    }
    Ok(())
}

/// Milliseconds for each message.
fn each(profile: &ScanProfile, time: Duration) -> f64 {
    time.as_secs_f64() * 1e3 / profile.messages.max(1) as f64
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        100.0 * part / whole
    } else {
        0.0
    }
}
