//! `gatepost check --replay N`: runs the rules, procedures and scopes of this config on the last
//! kept messages, and lists those whose verdict would change.
//!
//! Nothing is delivered, published or learned: the learned data (Bayes, averages of senders) and
//! the values of procedures are copies. Rate limits and folded alarms begin empty, which the output
//! states.

use std::process::ExitCode;
use std::sync::Arc;

use gatepost_learning::Learning;
use gatepost_message::Verdict;
use gatepost_operations::JudgedOriginal;
use gatepost_operations::learner::{self, LearningError};
use gatepost_procedures::ProcedureHost;
use gatepost_rules::RuleSet;
use gatepost_store::{JournalEntry, Store, StoreError, ValueStore};

use super::super::database::{self, NoDatabase};
use super::super::plain::plain;
use super::super::procedures::start;
use crate::config::{Config, Layers};
use crate::exit::EXIT_UNAVAILABLE;

/// Longest reason in the table.
const REASON_CHARACTERS_MAX: usize = 100;

pub(super) fn run(config: &Config, layers: &Layers, rules: Arc<RuleSet>, count: usize) -> ExitCode {
    match replay(config, layers, rules, count) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(EXIT_UNAVAILABLE)
        }
    }
}

/// The reason why messages cannot be judged again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayError {
    #[error(transparent)]
    Database(#[from] NoDatabase),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Learning(#[from] LearningError),
}

/// A copy of the data that the rules have learned.
pub(super) fn learned(config: &Config) -> Result<Learning, ReplayError> {
    database::expect(config)?;
    let store = Store::open_secondary(&config.data, &config.store)?;
    Ok(learner::copy(&store, &config.rules)?)
}

fn replay(
    config: &Config,
    layers: &Layers,
    rules: Arc<RuleSet>,
    count: usize,
) -> Result<ExitCode, StoreError> {
    let store = Store::open_secondary(&config.data, &config.store)?;
    let kept = JudgedOriginal::newest(&store, count)?;
    if kept.is_empty() {
        println!(
            "gatepost: no judged message is kept in {}; procedures.originals_max sets how many are",
            config.data.display()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let values = ValueStore::copy_of(&store, config.procedures.values_limits())?;
    let procedures = match start(config, layers, rules, ProcedureHost::new(values, None)) {
        Ok(procedures) => procedures,
        Err(code) => return Ok(code),
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return Ok(ExitCode::from(EXIT_UNAVAILABLE));
    };
    let mut changed = 0;
    for stored in &kept {
        let message = Arc::new(stored.message());
        let verdict = runtime.block_on(procedures.judge(&message));
        if verdict.action != stored.story.action {
            changed += 1;
            show(&stored.story, &verdict);
        }
    }
    println!(
        "replayed {} stored messages: {changed} would get a different verdict, {} the same",
        kept.len(),
        kept.len() - changed
    );
    println!("(with a copy of the learned data; rate limits and deduplication start empty)");
    Ok(ExitCode::SUCCESS)
}

fn show(story: &JournalEntry, verdict: &Verdict) {
    let what = story
        .subject
        .as_deref()
        .or(story.topic.as_ref().map(gatepost_message::Topic::as_str));
    let from = story
        .envelope
        .sender
        .as_deref()
        .or(story.envelope.client.as_deref());
    println!(
        "{} {} {} -> {}  from {} {:?}",
        story.id,
        story.envelope.listener,
        story.action,
        verdict.action,
        plain(from.unwrap_or("-")),
        what.unwrap_or_default(),
    );
    println!("    was: {}", described(&story.procedure, &story.reason));
    println!(
        "    now: {}",
        described(&verdict.procedure, &verdict.reason)
    );
}

fn described(procedure: &str, reason: &str) -> String {
    let reason: String = reason.chars().take(REASON_CHARACTERS_MAX).collect();
    let reason = plain(&reason);
    match (procedure, reason.as_str()) {
        ("", "") => "no reason".to_owned(),
        ("", reason) => reason.to_owned(),
        (procedure, reason) => format!("{procedure}: {reason}"),
    }
}
