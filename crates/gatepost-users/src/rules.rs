//! Rules, and their effect for one peer.
//!
//! The order is simple, and does not depend on when a rule was made: a peer's *own* rules come
//! first, then the rules for everyone; in each of the two steps a rule that denies takes precedence
//! over one that allows; [`DefaultPolicy`] decides the remaining cases. A token's scope narrows the
//! result and never widens it.
//!
//! Copies of birth certificates (`$sparkplug/certificates/TOPIC`) follow the rules that name them,
//! and otherwise, for readers, those of the original topic.
//!
//! A subscription is allowed if every topic that its filter can match is allowed: a rule that
//! denies need only overlap the filter, a rule that allows must cover it alone.

use std::sync::OnceLock;

use gatepost_message::TopicFilter;
use gatepost_message::sparkplug::certified_topic;

use crate::decision_cache::DecisionCache;
use crate::{Access, AccessDecision, AccessSet, DefaultPolicy, Effect, pattern};

/// Up to this number of patterns, matching costs no more than a lookup in the cache.
const PATTERNS_UNCACHED_MAX: usize = 8;

/// One rule as it was made, with placeholders for names.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) effect: Effect,
    pub(crate) access: AccessSet,
    pub(crate) filter: Box<str>,
}

#[derive(Debug, Clone)]
struct RulePattern {
    filter: TopicFilter,
    access: AccessSet,
}

/// The rules of one subject, with names inserted.
#[derive(Debug, Clone, Default)]
struct SubjectRules {
    deny: Vec<RulePattern>,
    allow: Vec<RulePattern>,
}

impl SubjectRules {
    fn new(rules: &[Rule], user: Option<&str>, client: Option<&str>) -> Self {
        let mut tier = Self::default();
        for rule in rules {
            let (patterns, filter) = match rule.effect {
                Effect::Allow => (&mut tier.allow, pattern::fill(&rule.filter, user, client)),
                Effect::Deny => (
                    &mut tier.deny,
                    pattern::fill_widely(&rule.filter, user, client),
                ),
            };
            let access = rule.access;
            patterns.extend(filter.map(|filter| RulePattern { filter, access }));
        }
        tier
    }

    fn decide_topic(&self, access: Access, topic: &str) -> Option<bool> {
        let any = |patterns: &[RulePattern]| {
            patterns
                .iter()
                .any(|pattern| pattern.access.has(access) && pattern.filter.matches(topic))
        };
        any(&self.deny)
            .then_some(false)
            .or_else(|| any(&self.allow).then_some(true))
    }

    fn decide_filter(&self, access: Access, filter: &str) -> Option<bool> {
        let any = |patterns: &[RulePattern], relation: fn(&str, &str) -> bool| {
            patterns.iter().any(|pattern| {
                pattern.access.has(access) && relation(pattern.filter.as_str(), filter)
            })
        };
        any(&self.deny, pattern::overlap)
            .then_some(false)
            .or_else(|| any(&self.allow, pattern::covers).then_some(true))
    }

    const fn len(&self) -> usize {
        self.deny.len() + self.allow.len()
    }
}

/// The combined rules for one peer. Shared by all connections with the same rules.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    own: SubjectRules,
    everyone: SubjectRules,
    /// The default if no rule applies.
    default: bool,
    /// Whether the default covers `$…` too.
    internal: bool,
    cache: OnceLock<DecisionCache>,
}

/// The user for which rules are compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleSubject<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) admin: bool,
}

impl CompiledRules {
    pub(crate) fn new(
        own: &[Rule],
        everyone: &[Rule],
        policy: DefaultPolicy,
        subject: RuleSubject<'_>,
    ) -> Self {
        // Decided by the rules as made, not as filled in: if a client's unusual name makes a grant
        // void, the client must not get more permissions than before.
        let granted = || {
            let mut rules = own.iter().chain(everyone);
            rules.any(|rule| rule.effect == Effect::Allow)
        };
        let default = match policy {
            DefaultPolicy::Auto => subject.admin || !granted(),
            DefaultPolicy::Allow => true,
            DefaultPolicy::Deny => subject.admin,
        };
        Self {
            own: SubjectRules::new(own, subject.user, subject.client),
            everyone: SubjectRules::new(everyone, subject.user, subject.client),
            default,
            internal: default && subject.admin,
            cache: OnceLock::new(),
        }
    }

    /// The rules of a token's scope: only what it grants.
    pub(crate) fn scope(rules: &[Rule], user: Option<&str>, client: Option<&str>) -> Self {
        let subject = RuleSubject {
            user,
            client,
            admin: false,
        };
        Self::new(rules, &[], DefaultPolicy::Deny, subject)
    }

    /// Rules that allow nothing.
    pub(crate) fn nothing() -> Self {
        Self::scope(&[], None, None)
    }

    pub(crate) fn may(&self, access: Access, topic: &str) -> AccessDecision {
        if self.own.len() + self.everyone.len() <= PATTERNS_UNCACHED_MAX {
            return self.decide(access, topic).into();
        }
        let cache = self.cache.get_or_init(DecisionCache::default);
        cache
            .get_or_decide(access, topic, || self.decide(access, topic))
            .into()
    }

    fn decide(&self, access: Access, topic: &str) -> bool {
        let decided = self
            .own
            .decide_topic(access, topic)
            .or_else(|| self.everyone.decide_topic(access, topic));
        decided.unwrap_or_else(|| match original(access, topic) {
            Some(original) => self.decide(access, original),
            None => self.decide_by_default(topic),
        })
    }

    pub(crate) fn may_subscribe(&self, filter: &str) -> AccessDecision {
        // Own rules that allow the whole filter take precedence over rules for everyone that deny
        // part of it, as for each single topic.
        let decided = self
            .own
            .decide_filter(Access::Subscribe, filter)
            .or_else(|| self.everyone.decide_filter(Access::Subscribe, filter));
        if let Some(is_allowed) = decided {
            return is_allowed.into();
        }
        match original(Access::Subscribe, filter) {
            Some(original) => self.may_subscribe(original),
            None => self.decide_by_default(filter).into(),
        }
    }

    fn decide_by_default(&self, name: &str) -> bool {
        if name.starts_with('$') {
            self.internal
        } else {
            self.default
        }
    }
}

/// The topic or filter whose rules apply where none names this one: who may read what an edge node
/// publishes may read the server's copy of its birth certificate.
fn original(access: Access, name: &str) -> Option<&str> {
    certified_topic(name)
        .filter(|original| access == Access::Subscribe && !original.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Rule {
        let mut words = text.split(' ');
        let effect = match words.next() {
            Some("deny") => Effect::Deny,
            _ => Effect::Allow,
        };
        Rule {
            effect,
            access: words.next().expect("access").parse().expect("access"),
            filter: words.next().expect("filter").into(),
        }
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| rule(text)).collect()
    }

    const ANNA: RuleSubject<'_> = RuleSubject {
        user: Some("anna"),
        client: Some("c1"),
        admin: false,
    };

    fn compiled(own: &[&str], everyone: &[&str], policy: DefaultPolicy) -> CompiledRules {
        CompiledRules::new(&rules(own), &rules(everyone), policy, ANNA)
    }

    #[test]
    fn own_rules_come_first_and_denials_win() {
        let rules = compiled(
            &[
                "allow all home/%u/#",
                "deny publish home/anna/locked",
                "allow subscribe news/#",
            ],
            &[
                "deny all news/secret",
                "allow subscribe public/#",
                "deny subscribe public/x",
            ],
            DefaultPolicy::Deny,
        );
        for (access, topic, expected) in [
            (Access::Publish, "home/anna/door", true),
            (Access::Retain, "home/anna/door", true),
            (Access::Publish, "home/anna/locked", false),
            (Access::Subscribe, "home/anna/locked", true),
            (Access::Publish, "home/otto/door", false),
            (Access::Subscribe, "news/secret", true),
            (Access::Publish, "news/today", false),
            (Access::Subscribe, "public/a", true),
            (Access::Subscribe, "public/x", false),
            (Access::Subscribe, "elsewhere", false),
        ] {
            assert_eq!(
                rules.may(access, topic).is_allowed(),
                expected,
                "{access:?} {topic}"
            );
        }
    }

    #[test]
    fn a_subscription_needs_all_that_it_can_match() {
        let rules = compiled(
            &["allow subscribe a/#", "deny subscribe a/secret/#"],
            &[],
            DefaultPolicy::Deny,
        );
        for (filter, expected) in [
            ("a/b", true),
            ("a/b/#", true),
            ("a/#", false),
            ("a/+", false),
            ("a/+/x", false),
            ("a/secret/x", false),
            ("#", false),
            ("+/b", false),
        ] {
            assert_eq!(
                rules.may_subscribe(filter).is_allowed(),
                expected,
                "{filter}"
            );
        }
    }

    #[test]
    fn the_default_is_for_those_without_grants() {
        let free = compiled(&["deny publish a"], &[], DefaultPolicy::Auto);
        assert!(free.may(Access::Publish, "b").is_allowed());
        assert!(!free.may(Access::Publish, "a").is_allowed());
        assert!(
            !free.may_subscribe("$SYS/#").is_allowed(),
            "$SYS is not a default"
        );
        assert!(free.may_subscribe("#").is_allowed());
        let granted = compiled(&["allow publish a"], &[], DefaultPolicy::Auto);
        assert!(!granted.may(Access::Publish, "b").is_allowed());
        let void = compiled(&["allow publish a/%c"], &[], DefaultPolicy::Auto);
        assert!(!void.may(Access::Publish, "b").is_allowed());
        let open = compiled(&["allow publish a"], &[], DefaultPolicy::Allow);
        assert!(open.may(Access::Publish, "b").is_allowed());
        let admin = RuleSubject {
            admin: true,
            ..ANNA
        };
        let admin = CompiledRules::new(&[], &[], DefaultPolicy::Deny, admin);
        assert!(admin.may_subscribe("$SYS/#").is_allowed());
    }

    #[test]
    fn certificates_are_read_with_the_right_to_their_originals() {
        let rules = compiled(
            &[
                "allow subscribe spBv1.0/a/#",
                "deny subscribe spBv1.0/a/NBIRTH/x",
            ],
            &["deny subscribe $sparkplug/certificates/spBv1.0/a/DBIRTH/#"],
            DefaultPolicy::Auto,
        );
        for (original, expected) in [
            ("spBv1.0/a/NBIRTH/e", true),
            ("spBv1.0/a/NBIRTH/x", false),
            ("spBv1.0/a/DBIRTH/e/d", false),
            ("spBv1.0/b/NBIRTH/e", false),
            ("spBv1.0/a/NBIRTH/+", false),
            ("spBv1.0/a/#", false),
            ("$SYS/#", false),
            ("$sparkplug/certificates/spBv1.0/a/NBIRTH/e", false),
            ("#", false),
        ] {
            let name = format!("$sparkplug/certificates/{original}");
            let may = rules.may_subscribe(&name).is_allowed();
            assert_eq!(may, expected, "{name}");
            if !original.contains(['+', '#']) {
                let may = rules.may(Access::Subscribe, &name).is_allowed();
                assert_eq!(may, expected, "{name}");
            }
        }
        let free = compiled(&[], &[], DefaultPolicy::Auto);
        for (name, expected) in [
            ("$sparkplug/certificates/#", true),
            ("$sparkplug/#", false),
            ("$sparkplug/+/spBv1.0/#", false),
        ] {
            assert_eq!(free.may_subscribe(name).is_allowed(), expected, "{name}");
        }
        let copy = "$sparkplug/certificates/spBv1.0/a/NBIRTH/e";
        assert!(!free.may(Access::Publish, copy).is_allowed());
        assert!(!free.may(Access::Retain, copy).is_allowed());
        let granted = compiled(
            &["allow subscribe $sparkplug/certificates/#"],
            &[],
            DefaultPolicy::Auto,
        );
        assert!(
            granted
                .may_subscribe("$sparkplug/certificates/#")
                .is_allowed()
        );
        assert!(!granted.may_subscribe("spBv1.0/#").is_allowed());
    }

    proptest! {
        /// With enough rules to use the cache, the second answer equals that of the rules.
        #[test]
        fn the_cache_changes_no_answer(
            texts in proptest::collection::vec("(allow|deny) (publish|subscribe|all) \
                (a|b|\\+)(/(a|b|c|\\+)){0,2}", 9..30),
            topics in proptest::collection::vec("(a|b|c)(/(a|b|c)){0,2}", 1..40),
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let rules = compiled(&texts, &[], DefaultPolicy::Deny);
            for topic in topics.iter().chain(&topics) {
                for access in Access::ALL {
                    prop_assert_eq!(
                        rules.may(access, topic).is_allowed(),
                        rules.decide(access, topic),
                    );
                }
            }
        }

        /// An allowed subscription never delivers a topic that is not allowed.
        #[test]
        fn subscriptions_are_sound(
            own in proptest::collection::vec("(allow|deny) subscribe \
                (\\$sparkplug/certificates/)?(a|b|\\+)(/(a|b|\\+)){0,2}(/#)?", 0..4),
            everyone in proptest::collection::vec("(allow|deny) subscribe \
                (\\$sparkplug/certificates/)?(a|b|\\+)(/(a|b|\\+)){0,2}(/#)?", 0..4),
            filter in "(\\$sparkplug/certificates/)?(a|b|\\+)(/(a|b|\\+)){0,2}(/#)?",
            topic in "(\\$sparkplug/certificates/)?(a|b)(/(a|b)){0,3}",
        ) {
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let everyone: Vec<&str> = everyone.iter().map(String::as_str).collect();
            let rules = compiled(&own, &everyone, DefaultPolicy::Allow);
            let requested = TopicFilter::new(&filter).expect("a filter");
            if rules.may_subscribe(&filter).is_allowed() && requested.matches(&topic) {
                prop_assert!(rules.may(Access::Subscribe, &topic).is_allowed());
            }
        }
    }
}
