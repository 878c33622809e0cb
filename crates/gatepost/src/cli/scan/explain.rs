//! `--why`: each hit with the text that matched, and the rules that nearly hit.

use std::io::{self, Write};

use super::work::ScannedMessage;

/// Bytes of a matched text that are shown.
const MATCHED_SHOWN_MAX: usize = 60;

pub(super) fn print(out: &mut impl Write, judged: &ScannedMessage) -> io::Result<()> {
    let Ok(report) = &judged.outcome else {
        return Ok(());
    };
    let verdict = if report.is_spam() { "spam" } else { "no spam" };
    writeln!(
        out,
        "{}: {verdict}, {:.1} of {:.1} points",
        judged.name, report.score, report.required
    )?;
    for hit in &report.hits {
        writeln!(out, "{:6.2}  {}  {}", hit.score, hit.name, hit.description)?;
        if let Some(text) = &hit.matched {
            let shown = text.get(..MATCHED_SHOWN_MAX).unwrap_or(text);
            let more = if shown.len() < text.len() { "…" } else { "" };
            writeln!(out, "        matched \"{}\"{more}", shown.escape_ascii())?;
        }
    }
    if report.given_up.is_any() {
        writeln!(out, "not judged completely: limit of {}", report.given_up)?;
    }
    for rule in &report.limited {
        writeln!(out, "     ?  {rule}  ran into its limit")?;
    }
    if !judged.near_misses.is_empty() {
        writeln!(out, "nearly:")?;
    }
    for miss in &judged.near_misses {
        let verb = if miss.needs_hit { "hit" } else { "not hit" };
        writeln!(
            out,
            "{:6.2}  {}  would hit if {} did {verb}",
            miss.score, miss.name, miss.other
        )?;
    }
    Ok(())
}
