//! Network rules: lists of relays and of links, the sender's domain, `askdns`.
//!
//! Off by default. All queries of a message's rules are sent at once, before the local rules run
//! ([`NetworkQueries::send`]), or after them if they may end the scan before the network's turn.
//! The responses are evaluated after the local rules, up to one deadline for all
//! ([`PendingQueries::evaluate`]). Rules that need several steps, such as the addresses of a link's
//! name servers or SPF, send their next queries when the earlier ones are answered
//! ([`PendingQueries::advance`]), under the same deadline. A query without a response does not hit.

mod ask;
mod asn;
mod blocks;
mod call;
mod dns_tests;
mod hashes;
mod listings;
mod results;
mod senders;
mod settings;
mod subtest;
mod views;

use std::time::{Duration, Instant};

use gatepost_dns::{
    Lookup, LookupProgress, QuestionOptions, RecordType, Resolver, SYSTEM_CONFIGURATION,
    SilenceLimits, SilentList, parse_server, system_servers,
};
use gatepost_message::Authentication;
use gatepost_pattern::Captured;

use crate::eval::ScannedMail;
use ask::AskTest;
use blocks::{BlockRules, DnsBlocks};
pub(crate) use call::{LinkFlags, LinkList, LinkQuery, NetworkCall};
pub(crate) use dns_tests::{NetworkRule, NetworkTest};
use hashes::HashTest;
use senders::SenderTest;
pub(crate) use settings::NetworkSettings;
use subtest::Subtest;
use views::{LinkKey, NetworkViews, ViewFindings};

/// The DNS client, and the deadline for all queries about one message.
#[derive(Debug, Clone)]
pub(crate) struct NetworkQueries {
    resolver: Resolver,
    time: Duration,
    /// Domains of lists that have refused queries.
    blocks: DnsBlocks,
}

impl NetworkQueries {
    /// Uses the given server, or the system's first; an error if there is none.
    pub(crate) fn new(
        server: Option<&str>,
        time: Duration,
        silence: SilenceLimits,
    ) -> Result<Self, String> {
        let server = match server {
            Some(text) => parse_server(text).ok_or_else(|| {
                format!(
                    "{text:?} is not an address of a DNS server; write 192.0.2.1 or \
                    192.0.2.1:53"
                )
            })?,
            None => system_servers().into_iter().next().ok_or_else(|| {
                format!("{SYSTEM_CONFIGURATION} names no server; set rules.dns_server")
            })?,
        };
        let resolver = Resolver::with_silence(vec![server], time, silence);
        Ok(Self {
            resolver,
            time,
            blocks: DnsBlocks::default(),
        })
    }

    /// Sends the queries of all rules about a message.
    pub(crate) fn send<'a>(
        &self,
        rules: &'a [NetworkRule],
        mail: &ScannedMail<'_>,
        settings: &'a NetworkSettings,
        captured: &Captured,
    ) -> Option<PendingQueries<'a>> {
        if rules.is_empty() {
            return None;
        }
        let mut queries = PendingQueries {
            rules,
            settings,
            found: ViewFindings::of(mail, settings, captured.clone()),
            lookup: self.resolver.lookup(Instant::now() + self.time),
            blocks: self.blocks.clone(),
        };
        queries.send(mail, true);
        Some(queries)
    }

    /// Blocks the domains of the lists whose refusals a message hit: `dns_block_rule`.
    pub(crate) fn block(&self, rules: &BlockRules, hits: impl Fn(&str) -> bool) {
        self.blocks.block(rules, hits, Instant::now());
    }

    /// The lists that do not respond, and currently get no queries.
    pub(crate) fn silent_lists(&self) -> Vec<SilentList> {
        self.resolver.silent_lists()
    }
}

/// The results of DNS queries for a message.
#[derive(Debug, Default)]
pub(crate) struct NetworkFindings {
    /// The ids of the rules that hit.
    pub(crate) hits: Vec<u32>,
    /// Template tags with their texts.
    pub(crate) tags: Vec<(String, String)>,
    /// The sender authentication of the message.
    pub(crate) authentication: Vec<Authentication>,
}

/// Queries in progress. They do not borrow the message, so a message may wait for the responses
/// without a thread; the caller passes the message to each step.
pub(crate) struct PendingQueries<'a> {
    rules: &'a [NetworkRule],
    settings: &'a NetworkSettings,
    found: ViewFindings,
    lookup: Lookup,
    blocks: DnsBlocks,
}

impl PendingQueries<'_> {
    /// Sends all queries that can be sent with the data so far.
    fn send(&mut self, mail: &ScannedMail<'_>, first: bool) {
        let views = NetworkViews::of(mail, self.settings, &self.found);
        let now = Instant::now();
        for NetworkRule { test, .. } in self.rules {
            let leads_further = test.has_steps();
            if !first && !leads_further || test.is_switched_off(self.settings) {
                continue;
            }
            let answer = |question: &_| self.lookup.answer(question);
            let questions = test.questions(&views, &answer);
            for question in &questions {
                let name = &question.name;
                if !self.settings.permits(name) || !self.blocks.permit(name, now) {
                    continue;
                }
                let list = test.list().filter(|list| question.name.ends_with(list));
                self.lookup.query(
                    question,
                    QuestionOptions {
                        list,
                        leads_further,
                    },
                );
            }
        }
    }

    /// Processes the responses that have arrived and sends the queries that follow from them,
    /// without blocking. Returns whether all queries have ended.
    pub(crate) fn advance(&mut self, mail: &ScannedMail<'_>) -> bool {
        if self.lookup.take_arrived() {
            self.send(mail, false);
        }
        self.lookup.is_complete()
    }

    /// Registers a callback for the time when [`PendingQueries::advance`] can make progress.
    pub(crate) fn progress(&self) -> LookupProgress {
        self.lookup.progress()
    }

    /// Blocks this thread until all queries have ended.
    pub(crate) fn wait(&mut self, mail: &ScannedMail<'_>) {
        while !self.advance(mail) {
            self.lookup.wait();
        }
    }

    /// Evaluates the responses.
    pub(crate) fn evaluate(self, mail: &ScannedMail<'_>) -> NetworkFindings {
        let views = NetworkViews::of(mail, self.settings, &self.found);
        let answer = |question: &_| self.lookup.answer(question);
        let hits = |rule: &NetworkRule| {
            // Another rule may have sent the query of one that is switched off.
            let hits = !rule.test.is_switched_off(self.settings)
                && rule.test.hits(&views, self.rules, &answer);
            rule.rule.filter(|_| hits)
        };
        let tests = self.rules.iter().map(|rule| &rule.test);
        let sender_tests: Vec<&SenderTest> = tests.filter_map(NetworkTest::of_sender).collect();
        let of_lists =
            self.rules.iter().map(|rule| &rule.test).filter(|test| {
                test.is_of_relays_or_senders() && !test.is_switched_off(self.settings)
            });
        let listed = of_lists.flat_map(|test| test.questions(&views, &answer));
        let listed = listings::rbl_tag(listed, &answer).map(|text| ("RBL".to_owned(), text));
        let mut tags = asn::tags(mail, &self.settings.senders, &answer);
        tags.extend(listed);
        NetworkFindings {
            hits: self.rules.iter().filter_map(hits).collect(),
            tags,
            authentication: results::results(&views.senders, &sender_tests, &answer),
        }
    }
}

/// Removes tests of invisible rules, except those whose responses other rules examine. Addresses of
/// name servers are looked up only if a rule that is left asks about name servers.
pub(crate) fn drop_unused(rules: &mut Vec<NetworkRule>) {
    let sets: Vec<String> = rules
        .iter()
        .filter(|rule| rule.rule.is_some())
        .filter_map(|rule| match &rule.test {
            NetworkTest::RelaysAgain { set, .. } => Some(set.clone()),
            _ => None,
        })
        .collect();
    rules.retain(|NetworkRule { rule, test }| {
        rule.is_some()
            || matches!(test, NetworkTest::Relays { set, .. } if sets.contains(set))
            || matches!(test, NetworkTest::OriginOfTemplates)
    });
    let asks_servers = |rule: &NetworkRule| {
        matches!(
            rule.test,
            NetworkTest::Links {
                asks_servers: true,
                ..
            }
        )
    };
    if rules.iter().any(asks_servers) {
        return;
    }
    for rule in rules {
        if let NetworkTest::Links { keys, .. } = &mut rule.test {
            keys.retain(|key| *key != LinkKey::ServerAddress);
        }
    }
}

/// The test of a call of a network function; the error describes an invalid call, and `None` means
/// that there is no such test.
pub(crate) fn prepare(
    call: &NetworkCall,
    is_nice: bool,
    links: Option<&LinkList>,
) -> Option<Result<NetworkTest, String>> {
    let arguments: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    let zone = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    let relays = |kind: RecordType| {
        let (set, list) = match arguments[..] {
            [set, list] | [set, list, _] => (set.to_owned(), zone(list)),
            _ => return Err("it takes a set, a zone, and perhaps a subtest".to_owned()),
        };
        let subtest = arguments
            .get(2)
            .map(|text| Subtest::of_relays(text))
            .transpose()?;
        Ok(NetworkTest::Relays {
            set,
            zone: list,
            kind,
            subtest,
            is_nice,
        })
    };
    Some(match call.function.as_str() {
        "check_rbl" => relays(RecordType::A),
        "check_rbl_txt" => relays(RecordType::Txt),
        "check_rbl_sub" => match arguments[..] {
            [set, subtest] => Subtest::of_relays(subtest).map(|subtest| NetworkTest::RelaysAgain {
                set: set.to_owned(),
                subtest,
            }),
            _ => Err("it takes a set and a subtest".to_owned()),
        },
        "check_rbl_from_host" | "check_rbl_envfrom" => match arguments[..] {
            [_, list] | [_, list, _] => {
                let subtest = arguments
                    .get(2)
                    .map(|text| Subtest::of_relays(text))
                    .transpose();
                subtest.map(|subtest| NetworkTest::Senders {
                    zone: zone(list),
                    subtest,
                    of_envelope: call.function == "check_rbl_envfrom",
                })
            }
            _ => Err("it takes a set, a zone, and perhaps a subtest".to_owned()),
        },
        "check_dns_sender" => Ok(NetworkTest::NoSender),
        "check_uridnsbl" => match links {
            Some(list) => of_links(list),
            None => Err("no line says which list is queried: urirhssub, uridnsbl, …".to_owned()),
        },
        "askdns" => AskTest::of_arguments(&arguments).map(NetworkTest::Ask),
        "check_asn" => origin_test(&arguments),
        name => {
            if let Some(test) = SenderTest::of_function(name, &arguments) {
                return Some(Ok(NetworkTest::Sender(test)));
            }
            return Some(HashTest::of_function(name, &arguments)?.map(NetworkTest::Hashes));
        }
    })
}

fn origin_test(arguments: &[&str]) -> Result<NetworkTest, String> {
    let text = arguments.first().ok_or("the pattern is missing")?;
    let (body, modifiers) = gatepost_pattern::Pattern::split(text.as_bytes())
        .unwrap_or((text.as_bytes(), gatepost_pattern::Modifiers::default()));
    let pattern = gatepost_pattern::Pattern::parse_bare(body, modifiers)?;
    let tag = arguments
        .get(1)
        .map_or("ASN", |tag| tag.trim_matches('_'))
        .to_owned();
    Ok(NetworkTest::Origin { tag, pattern })
}

fn of_links(list: &LinkList) -> Result<NetworkTest, String> {
    let kind = RecordType::named(&list.kind)
        .filter(|kind| matches!(kind, RecordType::A | RecordType::Txt));
    let kind = kind.ok_or_else(|| format!("a list has A or TXT records, not {:?}", list.kind))?;
    let flags = list.flags;
    let keys = match list.query {
        LinkQuery::Domain if flags.whole_host => vec![LinkKey::Host],
        LinkQuery::Domain => vec![LinkKey::Domain],
        LinkQuery::ServerDomain => vec![LinkKey::ServerDomain],
        LinkQuery::ServerName => vec![LinkKey::ServerName],
        // SpamAssassin 4.0.1 asks lists of addresses for rules with `tflags a` only: about the
        // addresses of hosts, and about those of name servers if any rule has these looked up.
        LinkQuery::Address if flags.by_address => vec![LinkKey::Address, LinkKey::ServerAddress],
        LinkQuery::Address => Vec::new(),
    };
    let asks_servers = match list.query {
        LinkQuery::Domain => false,
        LinkQuery::ServerDomain | LinkQuery::ServerName => true,
        LinkQuery::Address => flags.by_server || !flags.by_address,
    };
    Ok(NetworkTest::Links {
        zone: list.zone.trim_end_matches('.').to_ascii_lowercase(),
        kind,
        subtest: list.subtest.as_deref().map(Subtest::of_links).transpose()?,
        keys,
        asks_servers,
        ips_only: flags.ips_only,
        domains_only: flags.domains_only,
    })
}
