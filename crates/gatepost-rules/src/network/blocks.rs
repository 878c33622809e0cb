//! Domains that are not queried for some time: `dns_block_rule`.
//!
//! A DNS list answers a client that it refuses with a special address, which a rule recognises.
//! Further queries would get the same answer and may prolong the refusal, so none is sent to the
//! list's domain for `dns_block_time`. The blocks are shared by all messages of a rule set; their
//! number is bounded by the domains that rule files name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_mail::Directive;
use parking_lot::Mutex;

/// The time for which a domain is blocked, unless `dns_block_time` sets another: SpamAssassin's.
const BLOCK_TIME: Duration = Duration::from_mins(5);

/// The rules whose hits block domains.
#[derive(Clone, Debug)]
pub(crate) struct BlockRules {
    /// Rules with the domain that each blocks.
    rules: Vec<(String, String)>,
    time: Duration,
}

impl Default for BlockRules {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            time: BLOCK_TIME,
        }
    }
}

impl BlockRules {
    /// `dns_block_rule RULE domain ...`
    pub(super) fn add(&mut self, value: &str) -> Directive {
        let mut words = value.split_ascii_whitespace();
        let rule = words.next().unwrap_or_default();
        let domains: Vec<String> = words
            .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
            .collect();
        if domains.is_empty() {
            return Directive::Invalid("it takes a rule and domains".to_owned());
        }
        let rules = domains.into_iter().map(|domain| (rule.to_owned(), domain));
        self.rules.extend(rules);
        Directive::Taken
    }

    /// `dns_block_time 300`, in seconds, or with a unit: `5m`
    pub(super) fn set_time(&mut self, value: &str) -> Directive {
        let value = value.trim();
        let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let seconds = match value.strip_prefix(digits) {
            Some("" | "s") => Some(1),
            Some("m") => Some(60),
            Some("h") => Some(3600),
            Some("d") => Some(86_400),
            Some("w") => Some(604_800),
            _ => None,
        };
        // Below a year, so that the end of a block can be computed.
        let time = digits.parse::<u32>().ok().zip(seconds);
        match time.map(|(count, unit)| u64::from(count) * unit) {
            Some(seconds @ 0..=31_536_000) => self.time = Duration::from_secs(seconds),
            _ => return Directive::Invalid("it takes a time such as 300 or 5m".to_owned()),
        }
        Directive::Taken
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The domains that are not queried at present.
#[derive(Clone, Debug, Default)]
pub(crate) struct DnsBlocks(Arc<Mutex<HashMap<String, Instant>>>);

impl DnsBlocks {
    /// Blocks the domains of the rules that hit a message.
    pub(crate) fn block(&self, rules: &BlockRules, hits: impl Fn(&str) -> bool, now: Instant) {
        for (rule, domain) in &rules.rules {
            if hits(rule) {
                self.0.lock().insert(domain.clone(), now + rules.time);
            }
        }
    }

    /// Whether queries for this name may be sent: neither it nor a parent of it is blocked.
    pub(crate) fn permit(&self, name: &str, now: Instant) -> bool {
        let blocked = self.0.lock();
        if blocked.is_empty() {
            return true;
        }
        let mut domains = std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1));
        domains.all(|domain| blocked.get(domain).is_none_or(|until| *until <= now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_blocked_with_those_below_it_for_a_time() {
        let mut rules = BlockRules::default();
        assert_eq!(
            rules.add("BLOCKED Multi.Example. other.example"),
            Directive::Taken
        );
        assert_eq!(rules.add("LATER third.example"), Directive::Taken);
        assert_eq!(rules.set_time("2m"), Directive::Taken);
        let blocks = DnsBlocks::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        blocks.block(&rules, |rule| rule == "BLOCKED", at(0));
        for (name, seconds, permitted) in [
            ("2.0.0.127.multi.example", 0, false),
            ("multi.example", 119, false),
            ("other.example", 119, false),
            ("third.example", 0, true),
            ("example", 0, true),
            ("multi.example", 120, true),
        ] {
            assert_eq!(blocks.permit(name, at(seconds)), permitted, "{name}");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        let mut rules = BlockRules::default();
        assert!(matches!(rules.add("BLOCKED"), Directive::Invalid(_)));
        assert!(rules.is_empty());
        for time in ["", "m", "5x", "-1", "99999999999", "9999w"] {
            assert!(
                matches!(rules.set_time(time), Directive::Invalid(_)),
                "{time}"
            );
        }
        for (time, seconds) in [("300", 300), ("0", 0), ("1h", 3600)] {
            assert_eq!(rules.set_time(time), Directive::Taken);
            assert_eq!(rules.time, Duration::from_secs(seconds));
        }
    }
}
