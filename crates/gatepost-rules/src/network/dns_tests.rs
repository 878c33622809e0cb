//! SpamAssassin's DNS tests (the tests that `skip_rbl_checks` and `dns_available` switch off; no
//! unit tests): the DNS queries of each kind of network rule, and the responses for which the rule
//! hits.

use std::net::IpAddr;

use gatepost_dns::{Question, QuestionOutcome, RecordType};
use gatepost_pattern::Pattern;

use super::ask::AskTest;
use super::asn;
use super::hashes::HashTest;
use super::senders::SenderTest;
use super::settings::NetworkSettings;
use super::subtest::{Subtest, lists};
use super::views::{LinkKey, NetworkViews};

/// Addresses of relays that one list is queried about, as SpamAssassin's `num_check_received`.
const RELAYS_MAX: usize = 9;

/// A test with the rule that it decides.
#[derive(Debug)]
pub(crate) struct NetworkRule {
    /// The rule's number in its set; `None` for tests whose answers only other tests use.
    pub(crate) rule: Option<u32>,
    pub(crate) test: NetworkTest,
}

/// The network query of a rule.
#[derive(Debug)]
pub(crate) enum NetworkTest {
    /// Whether a list contains one of the message's relays; the set selects the relays.
    Relays {
        set: String,
        zone: String,
        kind: RecordType,
        subtest: Option<Subtest>,
        /// Trusted relays are queried too: the rule lowers the message's score.
        is_nice: bool,
    },
    /// The answers of the lists of a set that other rules query.
    RelaysAgain { set: String, subtest: Subtest },
    /// Whether a list contains the host of a sender's address.
    Senders {
        zone: String,
        subtest: Option<Subtest>,
        /// The envelope's sender only.
        of_envelope: bool,
    },
    /// Whether the sender's host has neither an address nor an exchanger. SpamAssassin 4.0.1 counts
    /// the records in responses that say that there are none, so it never hits. No query is sent.
    NoSender,
    /// Whether a list contains a link.
    Links {
        zone: String,
        kind: RecordType,
        subtest: Option<Subtest>,
        keys: Vec<LinkKey>,
        /// The name servers of links are looked up because of this rule.
        asks_servers: bool,
        ips_only: bool,
        domains_only: bool,
    },
    /// `askdns`.
    Ask(AskTest),
    /// A test that authenticates the sender.
    Sender(SenderTest),
    /// A question by hashes.
    Hashes(HashTest),
    /// `check_asn`: a template tag that contains the origin network, and its pattern.
    Origin { tag: String, pattern: Pattern },
    /// The field `X-ASN`.
    OriginField { pattern: Pattern, negated: bool },
    /// Queries the network that templates name; never hits.
    OriginOfTemplates,
}

fn is_match(pattern: &Pattern, text: &str) -> bool {
    matches!(pattern.find(text.as_bytes(), 0, |_| true), Ok(Some(_)))
}

impl NetworkTest {
    /// The test of the sender, if it is one.
    pub(super) fn of_sender(&self) -> Option<&SenderTest> {
        match self {
            Self::Sender(test) => Some(test),
            _ => None,
        }
    }

    pub(super) const fn is_of_relays_or_senders(&self) -> bool {
        matches!(self, Self::Relays { .. } | Self::Senders { .. })
    }

    /// The queries that can be sent now; `answer` returns the answers so far.
    pub(super) fn questions<'a>(
        &self,
        views: &NetworkViews<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> Vec<Question> {
        match self {
            Self::Relays {
                set,
                zone,
                kind,
                is_nice,
                ..
            } => {
                let relays = views.relays(set, *is_nice, RELAYS_MAX);
                let listed = |address: &IpAddr| Question::new(&views.listed(*address, zone), *kind);
                relays.iter().map(listed).collect()
            }
            Self::RelaysAgain { .. } | Self::NoSender => Vec::new(),
            Self::Senders {
                zone, of_envelope, ..
            } => {
                let hosts = views.sender_hosts(*of_envelope);
                let listed =
                    |host: &String| Question::new(&format!("{host}.{zone}"), RecordType::A);
                hosts.iter().map(listed).collect()
            }
            Self::Links {
                zone,
                kind,
                keys,
                ips_only,
                domains_only,
                ..
            } => {
                let mut questions = Vec::new();
                for key in keys {
                    questions.extend(views.link_steps(*key, answer));
                    for name in views.link_keys(*key, *ips_only, *domains_only, answer) {
                        questions.push(Question::new(&format!("{name}.{zone}"), *kind));
                    }
                }
                questions
            }
            Self::Sender(test) => test.questions(&views.senders, answer),
            Self::Hashes(test) => test.questions(views),
            Self::Origin { .. } | Self::OriginField { .. } | Self::OriginOfTemplates => {
                asn::questions(views.mail(), &views.settings().senders)
            }
            Self::Ask(test) => test.questions(views, answer),
        }
    }

    /// Whether rule files switch tests of this kind off.
    pub(super) fn is_switched_off(&self, settings: &NetworkSettings) -> bool {
        match self {
            Self::Relays { .. } | Self::Senders { .. } | Self::NoSender => {
                settings.skips_relay_lists
            }
            Self::Links { .. } => settings.skips_link_lists,
            _ => false,
        }
    }

    /// The tags whose values it queries.
    pub(crate) fn tags(&self) -> Vec<&str> {
        match self {
            Self::Ask(test) => test.tags(),
            Self::Hashes(test) => test.tag().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The zone of the list that it queries, if it queries one.
    pub(super) fn list(&self) -> Option<&str> {
        let zone = match self {
            Self::Relays { zone, .. } | Self::Senders { zone, .. } | Self::Links { zone, .. } => {
                zone
            }
            Self::Hashes(test) => test.zone(),
            Self::Ask(test) => test.zone()?,
            _ => return None,
        };
        (!zone.is_empty()).then_some(zone)
    }

    /// Whether it puts further questions when earlier ones are answered.
    pub(super) fn has_steps(&self) -> bool {
        match self {
            Self::Sender(_) => true,
            Self::Links { keys, .. } => keys.iter().any(|key| key.has_steps()),
            Self::Ask(test) => test.has_steps(),
            _ => false,
        }
    }

    /// Whether the rule hits; `others` are all tests, for those that use the answers of others.
    pub(super) fn hits<'a>(
        &self,
        views: &NetworkViews<'_, '_>,
        others: &[NetworkRule],
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> bool {
        match self {
            Self::RelaysAgain { set, subtest } => {
                others.iter().any(|NetworkRule { test: other, .. }| {
                    matches!(other, Self::Relays { set: queried, .. } if queried == set)
                        && other
                            .questions(views, answer)
                            .iter()
                            .any(|question| lists(answer(question), Some(subtest)))
                })
            }
            Self::Ask(test) => test.hits(views, answer),
            Self::Sender(test) => test.hits(&views.senders, answer),
            Self::Hashes(test) => self.questions(views, answer).iter().any(|question| {
                let Some(QuestionOutcome::Records(records)) = answer(question) else {
                    return false;
                };
                records.iter().any(|record| test.fits(record))
            }),
            Self::Origin { tag, pattern } => {
                let tags = asn::tags(views.mail(), &views.settings().senders, answer);
                let mut of_name = tags.iter().filter(|(known, _)| known == tag);
                of_name.any(|(_, text)| is_match(pattern, text))
            }
            Self::OriginField { pattern, negated } => {
                let field =
                    asn::field(views.mail(), &views.settings().senders, answer).unwrap_or_default();
                is_match(pattern, &field) != *negated
            }
            Self::OriginOfTemplates | Self::NoSender => false,
            Self::Relays { subtest, .. } | Self::Senders { subtest, .. } => {
                let questions = self.questions(views, answer);
                let lists = |question: &Question| lists(answer(question), subtest.as_ref());
                questions.iter().any(lists)
            }
            Self::Links { subtest, zone, .. } => {
                // Steps on the way, such as a host's address, are not listings.
                let of_zone = format!(".{}", zone.to_ascii_lowercase());
                let questions = self.questions(views, answer);
                questions.iter().any(|question| {
                    question.name.ends_with(&of_zone) && lists(answer(question), subtest.as_ref())
                })
            }
        }
    }
}
