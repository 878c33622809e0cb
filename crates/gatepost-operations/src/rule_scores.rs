//! Changes of the scores of rules by administrators.
//!
//! A change writes the [file](crate::score_file) and reloads; if the reload finds a mistake, the
//! earlier file is restored. The last change can be undone, and undoing can be undone too. Changes
//! are made one at a time.

use std::io;

use gatepost_rules::RuleSummary;
use serde_json::{Value, json};

use crate::error::OperationError;
use crate::operations::Operations;
use crate::reload::ReloadReport;
use crate::score_file::{RuleScores, parse, print};

impl Operations {
    /// The rules whose name or description contains `search`, sorted by name, with their scores.
    pub async fn rule_scores(
        &self,
        search: &str,
        count: usize,
        skip: usize,
    ) -> Result<Value, OperationError> {
        let search = search.to_lowercase();
        self.blocking(move |operations| {
            let own = parse(&RuleScores::text(&operations.scores.file).map_err(failed)?);
            let can_undo = operations.scores.previous().exists();
            // Listing loads no rules that nothing has needed yet.
            let loaded = operations.gateway.procedures().rules();
            let mut rules = loaded
                .loaded()
                .map_or_else(Vec::new, |rules| rules.summaries());
            // A rule whose score is 0 does not run.
            let missing = own.iter().filter(|(name, _)| {
                let is_running = |rule: &RuleSummary| *rule.name == ***name;
                !rules.iter().any(is_running)
            });
            let missing: Vec<RuleSummary> = missing
                .map(|(name, score)| RuleSummary {
                    name: name.as_str().into(),
                    score: *score,
                    description: None,
                    definition: 0,
                })
                .collect();
            rules.extend(missing);
            let total = rules.len();
            rules.retain(|rule| contains(rule, &search));
            rules.sort_by(|one, other| one.name.cmp(&other.name));
            let listed = rules.iter().skip(skip).take(count).map(|rule| {
                json!({
                    "name": &*rule.name,
                    "description": rule.description.as_deref(),
                    "score": rule.score,
                    "set": own.get(&*rule.name),
                })
            });
            Ok(json!({
                "total": total,
                "found": rules.len(),
                "can_undo": can_undo,
                "rules": listed.collect::<Vec<_>>(),
            }))
        })
        .await
    }

    /// Sets the score of a rule, or returns it to that of the rule folders, and reloads.
    pub async fn set_rule_score(
        &self,
        name: &str,
        score: Option<f64>,
    ) -> Result<ReloadReport, OperationError> {
        let _changing = self.scores.changing.lock().await;
        let before = RuleScores::text(&self.scores.file).map_err(failed)?;
        let mut scores = parse(&before);
        match score {
            Some(score) => {
                let known = name.to_owned();
                let is_known = self.blocking(move |operations| {
                    let rules = operations.rules_in_force()?.summaries();
                    Ok(rules.iter().any(|rule| *rule.name == *known))
                });
                if !scores.contains_key(name) && !is_known.await? {
                    return Err(OperationError::NotFound);
                }
                scores.insert(name.to_owned(), score);
            }
            None => {
                scores.remove(name).ok_or(OperationError::NotFound)?;
            }
        }
        self.replace_scores(&before, &print(&scores)).await
    }

    /// Returns to the scores before the last change, and reloads.
    pub async fn undo_rule_scores(&self) -> Result<ReloadReport, OperationError> {
        let _changing = self.scores.changing.lock().await;
        let previous = self.scores.previous();
        if !previous.exists() {
            return Err(OperationError::NotFound);
        }
        let before = RuleScores::text(&self.scores.file).map_err(failed)?;
        let text = RuleScores::text(&previous).map_err(failed)?;
        self.replace_scores(&before, &text).await
    }

    async fn replace_scores(
        &self,
        before: &str,
        text: &str,
    ) -> Result<ReloadReport, OperationError> {
        let file = &self.scores.file;
        RuleScores::write(file, text).map_err(failed)?;
        let report = self.reload(false).await;
        if report.as_ref().is_ok_and(|report| report.applied) {
            RuleScores::write(&self.scores.previous(), before).map_err(failed)?;
        } else {
            RuleScores::write(file, before).map_err(failed)?;
        }
        report
    }
}

fn contains(rule: &RuleSummary, search: &str) -> bool {
    let description = rule.description.as_deref().unwrap_or_default();
    rule.name.to_lowercase().contains(search) || description.to_lowercase().contains(search)
}

fn failed(error: io::Error) -> OperationError {
    OperationError::Failed(format!("the file of scores: {error}"))
}
