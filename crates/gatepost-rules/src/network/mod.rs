//! Rules that ask the network: lists of relays and of links, the sender's domain, `askdns`.
//!
//! Off unless switched on. What a message's rules want to know is asked at once, over one socket,
//! before the local rules run ([`Network::ask`]); the answers are fetched after them, up to one
//! deadline for all ([`Asked::judge`]). Rules that need several steps, such as the addresses of a
//! link's name servers or SPF, put their next questions when the earlier ones are answered, under the
//! same deadline. What is not answered does not hit.

mod hashes;
mod lookup;
mod origin;
mod results;
mod senders;
mod tests_of_rules;
mod views;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::language::definition::{LinkList, NetworkCall};
use crate::mail::Mail;
use crate::scan::{RuleId, State};
use hashes::HashTest;
use lookup::Lookup;
use senders::SenderTest;
pub(crate) use tests_of_rules::NetworkTest;
use tests_of_rules::{LinkKey, Subtest};
use views::Views;
#[doc(hidden)]
pub use wire::read_any;
pub(crate) use wire::{Answer, Kind, Question, Record};

/// The port of DNS servers, RFC 1035 section 4.2.
const DNS_PORT: u16 = 53;
/// Where the system says which server to ask.
const SYSTEM_SERVERS: &str = "/etc/resolv.conf";

/// The server to ask, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    server: SocketAddr,
    time: Duration,
}

impl Network {
    /// With the server named, or the system's first; the error says that there is none.
    pub(crate) fn new(server: Option<&str>, time: Duration) -> Result<Self, String> {
        let server = match server {
            Some(text) => address(text).ok_or_else(|| {
                format!("{text:?} is no address of a DNS server; write 192.0.2.1 or 192.0.2.1:53")
            })?,
            None => system_server()
                .ok_or_else(|| format!("{SYSTEM_SERVERS} names no server; set rules.dns_server"))?,
        };
        Ok(Self { server, time })
    }

    /// Puts the questions of all rules about a message.
    pub(crate) fn ask<'m, 'a>(
        &self,
        tests: &'m [(Option<RuleId>, NetworkTest)],
        mail: &'m Mail<'a>,
    ) -> Option<Asked<'m, 'a>> {
        if tests.is_empty() {
            return None;
        }
        // Without a socket nothing is asked, and nothing hits.
        let lookup = Lookup::start(self.server, self.time).ok()?;
        let views = Views::of(mail);
        let mut asked = Asked {
            tests,
            views,
            lookup,
        };
        asked.put(true);
        Some(asked)
    }
}

/// Questions on their way.
pub(crate) struct Asked<'m, 'a> {
    /// Without a number are tests whose answers others look at, and nobody else.
    tests: &'m [(Option<RuleId>, NetworkTest)],
    views: Views<'m, 'a>,
    lookup: Lookup,
}

impl Asked<'_, '_> {
    /// Puts what can be asked with what is known.
    fn put(&mut self, first: bool) {
        for (_, test) in self.tests {
            if !first && !test.has_steps() {
                continue;
            }
            let answer = |question: &_| self.lookup.answer(question);
            let questions = test.questions(&self.views, &answer);
            for question in &questions {
                self.lookup.ask(question);
            }
        }
    }

    /// Waits for the answers and notes the rules that hit.
    pub(crate) fn judge(mut self, state: &mut State) {
        // One silent server must not hold up what leads further.
        while self.lookup.collect() {
            self.put(false);
        }
        let answer = |question: &_| self.lookup.answer(question);
        for (rule, test) in self.tests {
            if let Some(rule) = rule
                && test.hits(&self.views, self.tests, &answer)
            {
                state.hit(*rule, 1.0);
            }
        }
        let mail = self.views.mail();
        let _ = mail.findings().tags.set(origin::tags(mail, &answer));
        let asked: Vec<&SenderTest> = self
            .tests
            .iter()
            .filter_map(|(_, test)| test.of_sender())
            .collect();
        let found = results::results(&self.views.senders, &asked, &answer);
        let _ = mail.findings().authentication.set(found);
    }
}

/// Drops tests of rules that nobody sees, but for those whose answers others look at.
pub(crate) fn drop_unused(tests: &mut Vec<(Option<RuleId>, NetworkTest)>) {
    let sets: Vec<String> = tests
        .iter()
        .filter_map(|(rule, test)| match (rule, test) {
            (Some(_), NetworkTest::RelaysAgain { set, .. }) => Some(set.clone()),
            _ => None,
        })
        .collect();
    tests.retain(|(rule, test)| {
        rule.is_some()
            || matches!(test, NetworkTest::Relays { set, .. } if sets.contains(set))
            || matches!(test, NetworkTest::OriginOfTemplates)
    });
}

/// What a call of a network function asks; the error says what is wrong with it, `None` that there
/// is no such test here.
pub(crate) fn prepare(
    call: &NetworkCall,
    is_nice: bool,
    links: Option<&LinkList>,
) -> Option<Result<NetworkTest, String>> {
    let arguments: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    let zone = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    let relays = |kind: Kind| {
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
        "check_rbl" => relays(Kind::A),
        "check_rbl_txt" => relays(Kind::Txt),
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
            None => Err("no line says which list is asked: urirhssub, uridnsbl, …".to_owned()),
        },
        "askdns" => askdns(&arguments),
        "check_asn" => {
            let pattern = arguments.first().ok_or("the pattern is missing".to_owned());
            let pattern = pattern.and_then(|text| {
                let (body, modifiers) = crate::pattern::Pattern::split(text.as_bytes())
                    .unwrap_or((text.as_bytes(), crate::pattern::Modifiers::default()));
                crate::pattern::Pattern::parse_bare(body, modifiers)
            });
            let tag = arguments
                .get(1)
                .map_or("ASN", |tag| tag.trim_matches('_'))
                .to_owned();
            pattern.map(|pattern| NetworkTest::Origin { tag, pattern })
        }
        name => {
            if let Some(test) = SenderTest::of_function(name, &arguments) {
                return Some(Ok(NetworkTest::Sender(test)));
            }
            return Some(HashTest::of_function(name, &arguments)?.map(NetworkTest::Hashes));
        }
    })
}

fn of_links(list: &LinkList) -> Result<NetworkTest, String> {
    let kind = Kind::named(&list.kind).filter(|kind| matches!(kind, Kind::A | Kind::Txt));
    let kind = kind.ok_or_else(|| format!("a list has A or TXT records, not {:?}", list.kind))?;
    let keys = if list.by_name {
        vec![LinkKey::Domain]
    } else {
        let by_server = list.by_server || !list.by_address;
        let keys = [
            (by_server, LinkKey::NameServer),
            (list.by_address, LinkKey::Address),
        ];
        keys.into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, key)| key)
            .collect()
    };
    Ok(NetworkTest::Links {
        zone: list.zone.trim_end_matches('.').to_ascii_lowercase(),
        kind,
        subtest: list.subtest.as_deref().map(Subtest::of_links).transpose()?,
        keys,
        ips_only: list.ips_only,
        domains_only: list.domains_only,
    })
}

fn askdns(arguments: &[&str]) -> Result<NetworkTest, String> {
    let (template, rest) = arguments
        .split_first()
        .ok_or("the name to ask for is missing")?;
    let kind = rest.first().copied().unwrap_or("A");
    let kind = Kind::named(kind).ok_or_else(|| format!("{kind} records cannot be asked for"))?;
    let filter = match rest.get(1) {
        None => None,
        Some(text) if text.starts_with(['/', 'm']) => {
            let (body, modifiers) = crate::pattern::Pattern::split(text.as_bytes())?;
            let pattern = crate::pattern::Pattern::parse_bare(body, modifiers)?;
            Some(Subtest::Matches(pattern))
        }
        Some(text) => Some(Subtest::of_links(text)?),
    };
    Ok(NetworkTest::Ask {
        template: (*template).to_owned(),
        kind,
        filter,
    })
}

fn address(text: &str) -> Option<SocketAddr> {
    let whole = text.parse().ok();
    whole.or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, DNS_PORT)))
}

fn system_server() -> Option<SocketAddr> {
    let text = std::fs::read_to_string(SYSTEM_SERVERS).ok()?;
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .find_map(|server| address(server.trim()))
}
