//! One message judged: the rules run over its views, and what they found made into a report.

use std::sync::Arc;

use super::RuleSet;
use super::near_miss::NearMiss;
use super::tally::Tally;
use crate::bayes::Autolearn;
use crate::compile::{self, Abilities, Compiled, RuleFacts};
use crate::learning::Lesson;
use crate::mail::{Configuration, Mail};
use crate::report;
use crate::scan::State;
use crate::shortcircuit;
use crate::users::Preferences;
use crate::{Report, ScanContext};

impl RuleSet {
    /// Judges one message, given as RFC 5322 text with either line end.
    pub fn scan(&self, message: &[u8], context: &ScanContext<'_>) -> Report {
        self.judge(message, context, |_, _| ()).0
    }

    /// Judges one message as [`RuleSet::scan`] does, and adds the metas that nearly hit: something
    /// they name did, and one rule more or less would have made them hit.
    pub fn explain(&self, message: &[u8], context: &ScanContext<'_>) -> (Report, Vec<NearMiss>) {
        self.judge(message, context, Compiled::near_misses)
    }

    /// Judges one message; `look` sees what hit before the report takes it.
    fn judge<T>(
        &self,
        message: &[u8],
        context: &ScanContext<'_>,
        look: impl FnOnce(&Compiled, &State) -> T,
    ) -> (Report, T) {
        let message = message.get(..self.size_max).unwrap_or(message);
        let user = self.user(context);
        let user = user.as_deref();
        let mail = Mail::parse_with(message, self.configuration_of(user))
            .with_envelope_sender(context.envelope_sender);
        let (compiled, lesson) = self.begin(&mail);
        let state = self.run(compiled, &mail, lesson.as_ref(), context);
        let seen = look(compiled, &state);
        (self.report(compiled, &mail, lesson, state, user), seen)
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
    /// it, and nobody is asked about it. Then compiles the patterns that are too large to be waited for,
    /// whether or not the message led to them.
    pub(crate) fn run_unheard(&self, mail: &Mail<'_>) {
        let (compiled, _) = self.begin(mail);
        let context = ScanContext::default();
        let time = self.time_max;
        compiled.program.run(mail, None, time, &context, None);
        for (_, pattern) in compiled.program.patterns() {
            pattern.compile_if_large();
        }
    }

    /// Everything that is told of a message whose rules have run.
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
        let facts = |rule: &u32| compiled.facts.get(*rule as usize);
        let scores = &self.options.shortcircuit;
        let ending = shortcircuit::ending(state.hits.iter().filter_map(facts), scores);
        let own_score = |facts: &RuleFacts| user?.score(&facts.name, set);
        let mut tally = Tally::of(compiled, &mut state, ending.as_ref(), own_score);
        // What ended early is not learned from, nor does it change its sender's average.
        let lesson = lesson.filter(|_| ending.is_none());
        let autolearn = lesson.map_or_else(Autolearn::default, |lesson| {
            tally.learn(compiled, lesson, mail, required)
        });
        let limited = state.limited.iter().filter_map(facts);
        let authentication = mail.findings().authentication.get();
        Report {
            score: report::round(tally.score),
            required,
            hits: tally.hits,
            autolearn,
            limited: limited.map(|facts| Arc::clone(&facts.name)).collect(),
            authentication: authentication.cloned().unwrap_or_default(),
            tags: tags(mail),
            preview: report::preview(mail.body()),
            subject_prefix: tally.subject_prefix,
            ending,
            options: Arc::clone(user.map_or(&self.options, |user| &user.options)),
        }
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
