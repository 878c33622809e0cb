//! Scans one message: runs the rules over its views, and makes a report of the results.

use std::sync::Arc;

use gatepost_learning::ScanLearning;
use gatepost_learning::bayes::{Autolearn, BayesResult};
use gatepost_mail::Mail;
use gatepost_pattern::Captured;

use super::RuleSet;
use super::early_end;
use super::near_miss::{NearMiss, near_misses};
use super::profiling;
use super::tally::ScoreTotal;
use crate::compile::{self, CompiledRuleSet, RuleFacts, ScoreSetConditions};
use crate::configuration::Configuration;
use crate::eval::ScannedMail;
use crate::network::{NetworkFindings, PendingQueries};
use crate::profile::{self, ScanStage};
use crate::report;
use crate::scan::ScanState;
use crate::shortcircuit::ShortcircuitEnding;
use crate::users::Preferences;
use crate::{GivenUp, Report, ScanContext};

/// A scan whose local rules have run.
pub(super) struct LocalScan<'a> {
    pub(super) mail: ScannedMail<'a>,
    user: Option<&'a Preferences>,
    compiled: &'a CompiledRuleSet,
    lesson: Option<ScanLearning<'a>>,
    /// The texts that groups of patterns captured.
    captured: Captured,
    /// The message is longer than the part that is scanned.
    is_cut: bool,
    /// Its DNS queries, if any were sent.
    pub(super) queries: Option<PendingQueries<'a>>,
    state: ScanState,
}

impl RuleSet {
    /// Scans a message, given as RFC 5322 text with either line end.
    pub fn scan(&self, message: &[u8], context: &ScanContext<'_>) -> Report {
        self.judge(message, context, |_, _| ()).0
    }

    /// Scans a message as [`RuleSet::scan`] does, and also returns the metas that nearly hit: a
    /// rule in them hit, and one more or one less hit would have made them true.
    pub fn explain(&self, message: &[u8], context: &ScanContext<'_>) -> (Report, Vec<NearMiss>) {
        self.judge(message, context, near_misses)
    }

    /// Scans a message; `inspect` receives the hits before the report does.
    pub(super) fn judge<T>(
        &self,
        message: &[u8],
        context: &ScanContext<'_>,
        inspect: impl FnOnce(&CompiledRuleSet, &ScanState) -> T,
    ) -> (Report, T) {
        let user = self.user(context);
        let mut scan = self.begin(message, user.as_deref(), context);
        if let Some(queries) = &mut scan.queries {
            profile::enter(ScanStage::Answers);
            queries.wait(&scan.mail);
        }
        self.end(scan, inspect)
    }

    /// Runs the rules that need only the message; DNS queries are sent before and may still be in
    /// progress.
    pub(super) fn begin<'a>(
        &'a self,
        message: &'a [u8],
        user: Option<&'a Preferences>,
        context: &ScanContext<'_>,
    ) -> LocalScan<'a> {
        let is_cut = message.len() > self.size_max;
        let message = message.get(..self.size_max).unwrap_or(message);
        let configuration = self.configuration_of(user);
        profile::enter(ScanStage::Head);
        let mail = configuration.scanned(message, context.envelope_sender);
        profiling::make_views(&mail);
        profile::enter(ScanStage::Bayes);
        let (compiled, lesson) = self.ask_learning(&mail, user);
        let program = &compiled.program;
        profile::enter(ScanStage::Captures);
        let captured = program.captures.capture(&mail, self.time_max);
        let nothing = Captured::default();
        let ask = || {
            profile::enter(ScanStage::Queries);
            let captured = captured.as_ref().unwrap_or(&nothing);
            let network = self.network.as_ref()?;
            network.send(&program.network, &mail, &configuration.network, captured)
        };
        // The answers are on their way while the local rules run, unless those may make them
        // needless.
        let may_end_early = compiled.network_turn.is_some();
        let mut queries = if may_end_early { None } else { ask() };
        let judgement = lesson.as_ref().and_then(|lesson| lesson.judgement);
        let probability = judgement.map(|judgement| judgement.probability);
        let known = captured.as_ref();
        let state = program.run(&mail, probability, known, self.time_max, context);
        if may_end_early && !self.ends_before_network(compiled, &state) {
            queries = ask();
        }
        LocalScan {
            user,
            compiled,
            lesson,
            captured: captured.unwrap_or_default(),
            is_cut,
            queries,
            state,
            mail,
        }
    }

    /// Whether local rules end the scan before the turn of the first network rule.
    fn ends_before_network(&self, compiled: &CompiledRuleSet, state: &ScanState) -> bool {
        let metas = compiled.program.metas.hits(state);
        let metas = metas.iter().map(|(rule, _)| rule);
        let hits = state.hits.iter().chain(metas);
        let facts = hits.filter_map(|rule| compiled.facts.get(*rule as usize));
        let earlier = facts.filter(|facts| Some(facts.turn) < compiled.network_turn);
        early_end::ending(earlier, &self.options.shortcircuit).is_some()
    }

    /// Adds the results of DNS queries, and sums up.
    pub(super) fn end<T>(
        &self,
        scan: LocalScan<'_>,
        inspect: impl FnOnce(&CompiledRuleSet, &ScanState) -> T,
    ) -> (Report, T) {
        let LocalScan {
            mail,
            user,
            compiled,
            lesson,
            captured,
            is_cut,
            queries,
            mut state,
        } = scan;
        profile::enter(ScanStage::Answers);
        let mut found = queries
            .map(|queries| queries.evaluate(&mail))
            .unwrap_or_default();
        found
            .tags
            .extend(captured.into_iter().map(|(name, values)| {
                let values = values.iter().map(|value| String::from_utf8_lossy(value));
                (name, values.collect::<Vec<_>>().join(" "))
            }));
        for rule in &found.hits {
            state.hit(*rule, 1.0);
        }
        profile::enter(ScanStage::Metas);
        compiled.program.run_metas(&mut state);
        self.block_lists(compiled, &state);
        profile::enter(ScanStage::Report);
        let seen = inspect(compiled, &state);
        let given_up = GivenUp {
            time: state.budget.was_spent(),
            steps: !state.limited.is_empty() && !state.budget.was_spent(),
            size: is_cut || mail.is_cut(),
        };
        let report = self.report(compiled, &mail, lesson, (state, given_up), found, user);
        (report, seen)
    }

    /// Blocks the DNS lists whose refusals the message hit. The rule files decide, not a user's
    /// preferences: a block is for the messages of all users.
    fn block_lists(&self, compiled: &CompiledRuleSet, state: &ScanState) {
        let rules = &self.configuration().network.block_rules;
        let Some(network) = self.network.as_ref().filter(|_| !rules.is_empty()) else {
            return;
        };
        let facts = |rule: &u32| compiled.facts.get(*rule as usize);
        network.block(rules, |name| {
            let mut hits = state.hits.iter().filter_map(facts);
            hits.any(|facts| &*facts.name == name)
        });
    }

    pub(super) fn user(&self, context: &ScanContext<'_>) -> Option<Arc<Preferences>> {
        self.users
            .as_ref()?
            .preferences(context.user?, &self.definitions)
    }

    fn configuration_of<'a>(&'a self, user: Option<&'a Preferences>) -> &'a Configuration {
        user.map_or(self.configuration(), |user| &user.configuration)
    }

    /// Runs Bayes, and selects the score set that applies.
    fn ask_learning<'a>(
        &'a self,
        mail: &Mail<'_>,
        user: Option<&'a Preferences>,
    ) -> (&'a CompiledRuleSet, Option<ScanLearning<'a>>) {
        let own = user.and_then(|user| user.learning.as_ref());
        let settings = own.unwrap_or(self.learning_settings());
        let lesson = self
            .learning
            .as_ref()
            .map(|learning| ScanLearning::begin(learning, settings, mail));
        let with_bayes = lesson.as_ref().is_some_and(|lesson| lesson.with_bayes);
        let compiled = if with_bayes {
            self.with_bayes.get_or_init(|| {
                let abilities = ScoreSetConditions {
                    network: self.network.is_some(),
                    bayes: true,
                };
                compile::compile(&mut self.definitions.clone(), abilities)
            })
        } else {
            &self.plain
        };
        (compiled, lesson)
    }

    /// Runs the rules on a message and discards the result: nothing is learned from the message,
    /// and no DNS queries are sent.
    pub(crate) fn run_discarding(&self, mail: &ScannedMail<'_>) {
        let (compiled, _) = self.ask_learning(mail, None);
        let context = ScanContext::default();
        let time = self.time_max;
        let captured = compiled.program.captures.capture(mail, time);
        let known = captured.as_ref();
        let mut state = compiled.program.run(mail, None, known, time, &context);
        compiled.program.run_metas(&mut state);
    }

    /// The report of a message whose rules have run.
    fn report(
        &self,
        compiled: &CompiledRuleSet,
        mail: &Mail<'_>,
        lesson: Option<ScanLearning<'_>>,
        (mut state, given_up): (ScanState, GivenUp),
        network: NetworkFindings,
        user: Option<&Preferences>,
    ) -> Report {
        let with_bayes = lesson.as_ref().is_some_and(|lesson| lesson.with_bayes);
        let abilities = ScoreSetConditions {
            network: self.network.is_some(),
            bayes: with_bayes,
        };
        let set = abilities.score_set();
        let required = user.and_then(|user| user.required).unwrap_or(self.required);
        state.hits.sort_unstable();
        let facts = |rule: &u32| compiled.facts.get(*rule as usize);
        let scores = &self.options.shortcircuit;
        let ending = early_end::ending(state.hits.iter().filter_map(facts), scores);
        let own_score = |facts: &RuleFacts| user?.score(&facts.name, set);
        let mut tally = ScoreTotal::of(compiled, &mut state, ending.as_ref(), own_score);
        for name in given_up.rules() {
            if let Some(rule) = self.definitions.find(name) {
                let own = user.and_then(|user| user.score(name, set));
                tally.add_given_up(rule, own.unwrap_or_else(|| rule.score(set)));
            }
        }
        let bayes = lesson.as_ref().and_then(|lesson| lesson.judgement);
        // A message that was not judged completely is not learned, and its sender's average does
        // not change.
        let lesson = lesson.filter(|_| ending.is_none() && !given_up.is_any());
        let learned = lesson.map(|lesson| tally.learn(compiled, lesson, mail, required));
        let (autolearn, autolearn_force) = learned.unwrap_or(match &ending {
            Some(_) => (Autolearn::Disabled, None),
            None => (Autolearn::Unavailable, None),
        });
        let autolearn_points = tally.autolearn_points();
        let options = user.map_or(&self.options, |user| &user.options);
        let mut tags = tags(network.tags, self.configuration_of(user));
        tags.extend(report::message_tags::values(&options.wanted_tags, mail));
        let limited = state.limited.iter().filter_map(facts);
        Report {
            score: report::round(tally.score),
            required,
            hits: tally.hits,
            autolearn,
            autolearn_force,
            autolearn_points,
            bayes,
            notes: notes(compiled, &state, bayes),
            sub_rules: if options.wants_sub_rules {
                sub_rules(compiled, &state, ending.as_ref())
            } else {
                Vec::new()
            },
            time: state.budget.elapsed(),
            given_up,
            limited: limited.map(|facts| Arc::clone(&facts.name)).collect(),
            authentication: network.authentication,
            tags,
            preview: report::preview(mail.body()),
            subject_prefix: tally.subject_prefix,
            ending,
            options: Arc::clone(options),
        }
    }
}

/// The text of the Bayes rules after their descriptions: the probability.
fn notes(
    compiled: &CompiledRuleSet,
    state: &ScanState,
    bayes: Option<BayesResult>,
) -> Vec<(Arc<str>, String)> {
    let Some(judgement) = bayes else {
        return Vec::new();
    };
    let rules = compiled.program.bayes.iter().map(|(rule, _)| *rule);
    let hits = rules.filter(|rule| state.value(*rule) > 0.0);
    let facts = hits.filter_map(|rule| compiled.facts.get(rule as usize));
    let note = |facts: &RuleFacts| {
        let note = format!("score: {:.4}", judgement.probability);
        (Arc::clone(&facts.name), note)
    };
    facts.map(note).collect()
}

/// The sub-rules that hit before the scan ended, and how often, by name.
fn sub_rules(
    compiled: &CompiledRuleSet,
    state: &ScanState,
    ending: Option<&ShortcircuitEnding>,
) -> Vec<(Arc<str>, u32)> {
    let hits = state.hits.iter().filter_map(|&rule| {
        let facts = compiled.facts.get(rule as usize)?;
        let counts = facts.is_sub_rule && ending.is_none_or(|end| facts.turn <= end.turn);
        let times = if facts.is_multiple {
            state.value(rule) as u32
        } else {
            1
        };
        counts.then(|| (Arc::clone(&facts.name), times))
    });
    let mut hits: Vec<_> = hits.collect();
    hits.sort_unstable();
    hits
}

/// Tags of templates that the network filled; those that it could not are empty.
fn tags(mut tags: Vec<(String, String)>, configuration: &Configuration) -> Vec<(String, String)> {
    let senders = &configuration.network.senders;
    for zone in senders.networks_v4.iter().chain(&senders.networks_v6) {
        for tag in [&zone.number_tag, &zone.route_tag] {
            if !tags.iter().any(|(known, _)| known == tag) {
                tags.push((tag.clone(), String::new()));
            }
        }
    }
    tags
}
