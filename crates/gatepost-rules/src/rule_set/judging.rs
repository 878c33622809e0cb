//! One message judged: the rules run over its views, and what they found made into a report.

use std::sync::Arc;

use super::RuleSet;
use crate::bayes::{Autolearn, Points};
use crate::compile::{self, Abilities, Compiled, RuleFacts};
use crate::learning::Lesson;
use crate::mail::{Configuration, Mail};
use crate::report;
use crate::scan::{Near, State};
use crate::shortcircuit;
use crate::users::Preferences;
use crate::{Hit, Report, ScanContext};

/// A meta rule that one change would have made hit.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// The meta's name.
    pub name: Arc<str>,
    /// What it would have added.
    pub score: f64,
    /// The rule on which it failed.
    pub other: Arc<str>,
    /// Whether that rule would have had to hit; otherwise it would have had to not hit.
    pub needs_hit: bool,
}

impl RuleSet {
    /// Judges one message, given as RFC 5322 text with either line end.
    pub fn scan(&self, message: &[u8], context: &ScanContext<'_>) -> Report {
        let message = message.get(..self.size_max).unwrap_or(message);
        let user = self.user(context);
        let user = user.as_deref();
        let mail = Mail::parse_with(message, self.configuration_of(user))
            .with_envelope_sender(context.envelope_sender);
        let (compiled, lesson) = self.begin(&mail);
        let state = self.run(compiled, &mail, lesson.as_ref(), context);
        self.report(compiled, &mail, lesson, state, user)
    }

    fn user(&self, context: &ScanContext<'_>) -> Option<Arc<Preferences>> {
        self.users
            .as_ref()?
            .preferences(context.user?, &self.definitions)
    }

    fn configuration_of<'a>(&'a self, user: Option<&'a Preferences>) -> &'a Configuration {
        user.map_or(self.configuration(), |user| &user.configuration)
    }

    /// Asks what was learned, and gives the rules with the scores that go with it.
    fn begin<'a>(&'a self, mail: &Mail<'_>) -> (&'a Compiled, Option<Lesson<'a>>) {
        let settings = self.learning_settings();
        let lesson = self
            .learning
            .as_ref()
            .map(|learning| Lesson::begin(learning, settings, mail));
        let with_bayes = lesson.as_ref().is_some_and(|lesson| lesson.with_bayes);
        let compiled = if with_bayes {
            self.with_bayes.get_or_init(|| {
                let abilities = Abilities {
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

    fn run(
        &self,
        compiled: &Compiled,
        mail: &Mail<'_>,
        lesson: Option<&Lesson<'_>>,
        context: &ScanContext<'_>,
    ) -> State {
        let judgement = lesson.and_then(|lesson| lesson.judgement);
        let probability = judgement.map(|judgement| judgement.probability);
        let program = &compiled.program;
        let network = self.network.as_ref();
        let asked = network.and_then(|network| network.ask(&program.network, mail));
        program.run(mail, probability, self.time_max, context, asked)
    }

    /// Runs the rules on a message about which nobody wants to know anything: nothing is learned from
    /// it, and nobody is asked about it.
    pub(crate) fn run_unheard(&self, mail: &Mail<'_>) {
        let (compiled, _) = self.begin(mail);
        let context = ScanContext::default();
        let time = self.time_max;
        compiled.program.run(mail, None, time, &context, None);
    }

    /// Judges one message as [`RuleSet::scan`] does, and adds the metas that nearly hit: something
    /// they name did, and one rule more or less would have made them hit.
    pub fn explain(&self, message: &[u8], context: &ScanContext<'_>) -> (Report, Vec<NearMiss>) {
        let message = message.get(..self.size_max).unwrap_or(message);
        let user = self.user(context);
        let user = user.as_deref();
        let mail = Mail::parse_with(message, self.configuration_of(user))
            .with_envelope_sender(context.envelope_sender);
        let (compiled, lesson) = self.begin(&mail);
        let state = self.run(compiled, &mail, lesson.as_ref(), context);
        let near = compiled.program.metas.near(&state);
        let near = near.into_iter().filter_map(|near| compiled.near_miss(near));
        let near = near.collect();
        (self.report(compiled, &mail, lesson, state, user), near)
    }

    fn report(
        &self,
        compiled: &Compiled,
        mail: &Mail<'_>,
        lesson: Option<Lesson<'_>>,
        mut state: State,
        user: Option<&Preferences>,
    ) -> Report {
        let with_bayes = lesson.as_ref().is_some_and(|lesson| lesson.with_bayes);
        let abilities = Abilities {
            network: self.network.is_some(),
            bayes: with_bayes,
        };
        let set = abilities.score_set();
        let required = user.and_then(|user| user.required).unwrap_or(self.required);
        state.hits.sort_unstable();
        let known = |rule: &u32| compiled.facts.get(*rule as usize);
        let scores = &self.options.shortcircuit;
        let ending = shortcircuit::ending(state.hits.iter().filter_map(known), scores);
        let mut score = 0.0;
        let mut points = Averaged::default();
        let mut subject_prefix = String::new();
        let mut hits = Vec::with_capacity(state.hits.len());
        for &rule in &state.hits {
            let Some(facts) = compiled.facts.get(rule as usize) else {
                continue;
            };
            if facts.is_sub_rule || ending.as_ref().is_some_and(|end| facts.turn > end.turn) {
                continue;
            }
            let own = user.and_then(|user| user.score(&facts.name, set));
            if own == Some(0.0) {
                continue; // switched off by the user
            }
            let points_of_rule = own.unwrap_or(facts.score);
            // SpamAssassin lists and scores such a rule once for each match.
            let times = if facts.is_multiple {
                state.value(rule) as usize
            } else {
                1
            };
            points.add(facts);
            score += points_of_rule * times as f64;
            if let Some(prefix) = &facts.subject_prefix
                && !subject_prefix.contains(&**prefix)
            {
                subject_prefix.push_str(prefix);
                subject_prefix.push(' ');
            }
            let matched = state.matched.iter().position(|(known, _)| *known == rule);
            let hit = Hit {
                name: Arc::clone(&facts.name),
                score: points_of_rule,
                description: Arc::clone(&facts.description),
                area: facts.prefix,
                matched: matched.map(|index| state.matched.swap_remove(index).1),
            };
            hits.extend(std::iter::repeat_n(hit, times));
        }
        let name = |&rule: &u32| {
            compiled
                .facts
                .get(rule as usize)
                .map(|facts| Arc::clone(&facts.name))
        };
        if let Some(ending) = &ending {
            score += ending.score;
            hits.push(compiled.shortcircuit_hit(ending));
        }
        let mut autolearn = Autolearn::default();
        // What ended early is not learned from, nor does it change its sender's average.
        if let Some(mut lesson) = lesson.filter(|_| ending.is_none()) {
            if let Some(hit) = compiled.reputation(&mut lesson, mail, &points) {
                score += hit.score;
                hits.push(hit);
            }
            let is_spam = report::round(score) >= required;
            autolearn = lesson.end(mail, &points.autolearn, is_spam);
        }
        Report {
            score: report::round(score),
            required,
            hits,
            autolearn,
            limited: state.limited.iter().filter_map(name).collect(),
            authentication: mail
                .findings()
                .authentication
                .get()
                .cloned()
                .unwrap_or_default(),
            tags: tags(mail),
            preview: report::preview(mail.body()),
            subject_prefix,
            ending,
            options: Arc::clone(user.map_or(&self.options, |user| &user.options)),
        }
    }
}

/// What the rules that hit count for in learning.
#[derive(Debug, Default)]
struct Averaged {
    autolearn: Points,
    /// For AWL: all but what is not to be learned from.
    awl: f64,
    /// A rule forbids to touch the sender's average.
    no_awl: bool,
}

impl Averaged {
    fn add(&mut self, facts: &RuleFacts) {
        self.autolearn.add(&facts.points);
        if !facts.no_autolearn {
            self.awl += facts.score;
            self.no_awl |= facts.no_awl;
        }
    }
}

impl Compiled {
    /// The hit of the rule that adjusts the score by the sender's average.
    fn reputation(
        &self,
        lesson: &mut Lesson<'_>,
        mail: &Mail<'_>,
        points: &Averaged,
    ) -> Option<Hit> {
        let (rule, asked) = self.program.reputation?;
        let facts = self.facts.get(rule as usize)?;
        if points.no_awl {
            return None;
        }
        let awl = report::round(points.awl);
        let score = lesson.reputation(mail, asked, awl, points.autolearn.total())?;
        Some(Hit {
            name: Arc::clone(&facts.name),
            score,
            description: Arc::clone(&facts.description),
            area: facts.prefix,
            matched: None,
        })
    }

    /// The hit that says that the scan ended early.
    fn shortcircuit_hit(&self, ending: &shortcircuit::Ending) -> Hit {
        let name = "SHORTCIRCUIT";
        let facts = self.facts.iter().find(|facts| &*facts.name == name);
        Hit {
            name: name.into(),
            score: ending.score,
            description: facts.map_or_else(
                || "Not all rules were run".into(),
                |facts| Arc::clone(&facts.description),
            ),
            area: "",
            matched: None,
        }
    }

    fn near_miss(&self, near: Near) -> Option<NearMiss> {
        let meta = self.facts.get(near.meta as usize)?;
        let other = self.facts.get(near.other as usize)?;
        (!meta.is_sub_rule).then(|| NearMiss {
            name: Arc::clone(&meta.name),
            score: meta.score,
            other: Arc::clone(&other.name),
            needs_hit: near.needs_hit,
        })
    }
}

/// Tags of templates that the network filled; those that it could not are empty.
fn tags(mail: &Mail<'_>) -> Vec<(String, String)> {
    let mut tags = mail.findings().tags.get().cloned().unwrap_or_default();
    let senders = &mail.configuration().senders;
    for zone in senders.networks_v4.iter().chain(&senders.networks_v6) {
        for tag in [&zone.number_tag, &zone.route_tag] {
            if !tags.iter().any(|(known, _)| known == tag) {
                tags.push((tag.clone(), String::new()));
            }
        }
    }
    tags
}
