//! Directives that set attributes of a rule: `score`, `describe`, `tflags`, `priority`,
//! `replace_rules` and so on.

use std::collections::HashMap;

use super::definition::{RuleExample, TestFlags};
use super::line::{LineProblem, LoadedLines, RuleLine};
use super::replace_tags::ReplaceTags;
use super::rules::{LineOutcome, rule};
use crate::shortcircuit::Shortcircuit;

pub(super) fn score(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word_text()?;
    let mut relative = false;
    let mut scores = Vec::new();
    for word in value.split_whitespace() {
        let bare = word
            .strip_prefix('(')
            .and_then(|word| word.strip_suffix(')'));
        relative |= bare.is_some();
        let score = bare
            .unwrap_or(word)
            .parse()
            .ok()
            .filter(|score: &f64| score.is_finite());
        scores.push(score.ok_or_else(|| {
            LineProblem::invalid(format!("{word:?} is not a number"), "write a number")
        })?);
    }
    let scores: [f64; 4] = match scores[..] {
        [one] => [one; 4],
        [plain, network, bayes, both] => [plain, network, bayes, both],
        _ => {
            return Err(LineProblem::invalid(
                format!("there are {} scores", scores.len()),
                "write one score, or four for the four score sets",
            ));
        }
    };
    let definition = rule(loaded, line)?;
    definition.scores = Some(match (relative, definition.scores) {
        (false, _) => scores,
        (true, Some(base)) => std::array::from_fn(|set| base[set] + scores[set]),
        (true, None) => {
            return Err(LineProblem::invalid(
                "the score is relative, but there is none before it",
                "write the score without parentheses",
            ));
        }
    });
    Ok(())
}

pub(super) fn describe(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let text = line.after_first_word_text()?;
    rule(loaded, line)?.description = Some(text.into());
    Ok(())
}

/// `test NAME ok|fail TEXT`.
pub(super) fn example(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word()?;
    let end = value
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(value.len());
    let (word, text) = value.split_at(end);
    let should_hit = match word {
        b"ok" => true,
        b"fail" => false,
        _ => {
            return Err(LineProblem::invalid(
                "an example is neither ok nor fail",
                "write: test NAME ok TEXT",
            ));
        }
    };
    loaded.definitions.examples.push(RuleExample {
        source: line.source.clone(),
        rule: line.first_word().into(),
        should_hit,
        text: text.trim_ascii_start().to_vec(),
    });
    Ok(())
}

pub(super) fn flags(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let flags = TestFlags::parse(&line.after_first_word_text()?);
    rule(loaded, line)?.flags = flags;
    Ok(())
}

pub(super) fn priority(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word_text()?;
    let priority = value.trim().parse().map_err(|_| {
        LineProblem::invalid(
            format!("{value:?} is not a priority"),
            "write a whole number",
        )
    })?;
    rule(loaded, line)?.priority = priority;
    Ok(())
}

/// `shortcircuit NAME on|spam|ham|off`.
pub(super) fn shortcircuit(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    needs_shortcircuit(loaded)?;
    let word = line.after_first_word_text()?;
    let kind = match word.trim() {
        "on" => Some(Shortcircuit::On),
        "spam" => Some(Shortcircuit::Spam),
        "ham" => Some(Shortcircuit::Ham),
        "off" => None,
        _ => {
            return Err(LineProblem::invalid(
                format!("{word:?} is none of on, spam, ham and off"),
                "write: shortcircuit NAME on",
            ));
        }
    };
    let definition = rule(loaded, line)?;
    definition.shortcircuit = kind;
    if matches!(kind, Some(Shortcircuit::Spam | Shortcircuit::Ham)) {
        if definition.priority == 0 {
            definition.priority = SHORTCIRCUIT_PRIORITY;
        }
        definition.flags.nice |= kind == Some(Shortcircuit::Ham);
        definition.flags.no_autolearn = true;
        definition.flags.autolearn.left_out = true;
    }
    Ok(())
}

/// The priority of rules that classify a message immediately, unless a rule file sets another one.
const SHORTCIRCUIT_PRIORITY: i32 = -200;

fn needs_shortcircuit(loaded: &LoadedLines<'_>) -> LineOutcome {
    if loaded
        .plugins
        .is_loaded("Mail::SpamAssassin::Plugin::Shortcircuit")
    {
        return Ok(());
    }
    Err(LineProblem::note(
        "plugin not loaded",
        "it needs loadplugin Mail::SpamAssassin::Plugin::Shortcircuit",
    ))
}

/// `shortcircuit_spam_score` and the similar directives.
pub(super) fn shortcircuit_score(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    needs_shortcircuit(loaded)?;
    let value = line.value_text()?;
    let score: f64 = value
        .parse()
        .ok()
        .filter(|score: &f64| score.is_finite())
        .ok_or_else(|| {
            LineProblem::invalid(format!("{value:?} is not a number"), "write a number")
        })?;
    let scores = &mut loaded.definitions.options.shortcircuit;
    match line.directive {
        "shortcircuit_spam_score" => scores.spam = score,
        "shortcircuit_ham_score" => scores.ham = score,
        "shortcircuit_min_ham_score" => scores.sum_min = Some(score),
        _ => scores.sum_max = Some(score),
    }
    Ok(())
}

pub(super) fn subject_prefix(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let text = line.after_first_word_text()?;
    rule(loaded, line)?.subject_prefix = Some(text.into());
    Ok(())
}

pub(super) fn replace_rules(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    for name in line.value_text()?.split_whitespace() {
        loaded.definitions.rule(name).replaces_tags = true;
    }
    Ok(())
}

fn replacement(
    loaded: &mut LoadedLines<'_>,
    line: &RuleLine<'_>,
    table: fn(&mut ReplaceTags) -> &mut HashMap<Vec<u8>, Vec<u8>>,
) -> LineOutcome {
    let text = line.after_first_word()?.to_vec();
    let name = line.first_word().as_bytes().to_vec();
    table(&mut loaded.definitions.replace_tags).insert(name, text);
    Ok(())
}

pub(super) fn replace_tag(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    replacement(loaded, line, |tags| &mut tags.tags)
}

pub(super) fn replace_pre(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    replacement(loaded, line, |tags| &mut tags.before)
}

pub(super) fn replace_inter(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    replacement(loaded, line, |tags| &mut tags.between)
}

pub(super) fn replace_post(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    replacement(loaded, line, |tags| &mut tags.after)
}

pub(super) fn replace_start(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.replace_tags.start = line.value_text()?.into_bytes();
    Ok(())
}

pub(super) fn replace_end(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    loaded.definitions.replace_tags.end = line.value_text()?.into_bytes();
    Ok(())
}
