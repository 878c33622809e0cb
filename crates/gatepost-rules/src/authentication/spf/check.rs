//! `check_host()`: whether a domain permits an address to send, RFC 7208, section 4.

use std::net::IpAddr;

use gatepost_dns::{RecordData, RecordType};
use gatepost_mail::ip;

use super::SpfResult;
use super::macros;
use super::record::{DomainSpec, Mechanism, SpfRecord, is_record};
use crate::authentication::{AnswerPending, DnsResponses, RecordLookup, texts};

/// The most terms that cause queries, over all records: SpamAssassin's limit; RFC 7208, section
/// 4.6.4 has 10.
const ASKING_WORDS_MAX: u32 = 20;
/// The most responses without records, section 4.6.4.
const EMPTY_ANSWERS_MAX: u32 = 2;
/// The most exchangers of a name, and names of an address, section 4.6.4.
const NAMES_MAX: usize = 10;

/// The sender of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpfSender<'s> {
    pub(crate) address: IpAddr,
    /// The part before the `@` of the envelope sender.
    pub(crate) local_part: &'s str,
    /// The part after it, or the HELO name.
    pub(crate) domain: &'s str,
    pub(crate) helo: &'s str,
}

/// The reason for which a check ends early.
enum SpfStop {
    Wait,
    With(SpfResult),
}

impl From<AnswerPending> for SpfStop {
    fn from(_: AnswerPending) -> Self {
        Self::Wait
    }
}

/// A check in progress.
struct SpfEvaluation<'e, 'a> {
    known: &'e DnsResponses<'e, 'a>,
    sender: SpfSender<'e>,
    words: u32,
    empty: u32,
}

/// The policy of the sender's domain for the sender's address.
pub(crate) fn check_host(
    known: &DnsResponses<'_, '_>,
    sender: SpfSender<'_>,
) -> Result<SpfResult, AnswerPending> {
    let mut evaluation = SpfEvaluation {
        known,
        sender,
        words: 0,
        empty: 0,
    };
    match evaluation.check(sender.domain) {
        Ok(result) | Err(SpfStop::With(result)) => Ok(result),
        Err(SpfStop::Wait) => Err(AnswerPending),
    }
}

impl<'a> SpfEvaluation<'_, 'a> {
    fn check(&mut self, domain: &str) -> Result<SpfResult, SpfStop> {
        if !is_domain(domain) {
            return Ok(SpfResult::None);
        }
        let records = match self.known.lookup(domain, RecordType::Txt)? {
            RecordLookup::Records(records) => records,
            RecordLookup::Nothing { .. } => return Ok(SpfResult::None),
            RecordLookup::Failed => return Err(SpfStop::With(SpfResult::TempError)),
        };
        let mut policies = texts(records).filter(|text| is_record(text));
        let policy = match (policies.next(), policies.next()) {
            (None, _) => return Ok(SpfResult::None),
            (Some(text), None) => SpfRecord::parse(text),
            (Some(_), Some(_)) => None, // section 4.5: more than one is an error
        };
        let policy = policy.ok_or(SpfStop::With(SpfResult::PermError))?;
        for (result, mechanism) in &policy.directives {
            if self.matches(mechanism, domain)? {
                return Ok(*result);
            }
        }
        let Some(redirect) = policy.redirect else {
            return Ok(SpfResult::Neutral);
        };
        self.count_word()?;
        let target = self.expand(&redirect, domain)?;
        match self.check(&target)? {
            SpfResult::None => Err(SpfStop::With(SpfResult::PermError)),
            result => Ok(result),
        }
    }

    fn count_word(&mut self) -> Result<(), SpfStop> {
        self.words += 1;
        if self.words > ASKING_WORDS_MAX {
            return Err(SpfStop::With(SpfResult::PermError));
        }
        Ok(())
    }

    fn matches(&mut self, mechanism: &Mechanism, domain: &str) -> Result<bool, SpfStop> {
        let address = self.sender.address;
        if !matches!(
            mechanism,
            Mechanism::All | Mechanism::V4(..) | Mechanism::V6(..)
        ) {
            self.count_word()?;
        }
        match mechanism {
            Mechanism::All => Ok(true),
            Mechanism::V4(network, bits) => Ok(is_within(address, (*network).into(), *bits, 128)),
            Mechanism::V6(network, bits) => Ok(is_within(address, (*network).into(), 32, *bits)),
            Mechanism::Include(name) => {
                let target = self.expand(name, domain)?;
                match self.check(&target)? {
                    SpfResult::Pass => Ok(true),
                    SpfResult::Fail | SpfResult::SoftFail | SpfResult::Neutral => Ok(false),
                    SpfResult::TempError => Err(SpfStop::With(SpfResult::TempError)),
                    SpfResult::PermError | SpfResult::None => {
                        Err(SpfStop::With(SpfResult::PermError))
                    }
                }
            }
            Mechanism::Exists(name) => {
                let target = self.expand(name, domain)?;
                Ok(!self.records(&target, RecordType::A)?.is_empty())
            }
            Mechanism::Addresses(place) => {
                let target = self.target(place.name.as_deref(), domain)?;
                self.has_address(&target, place)
            }
            Mechanism::Exchangers(place) => {
                let target = self.target(place.name.as_deref(), domain)?;
                let exchangers = self.records(&target, RecordType::Mx)?;
                if exchangers.len() > NAMES_MAX {
                    return Err(SpfStop::With(SpfResult::PermError));
                }
                let mut wait = false;
                for name in names(exchangers) {
                    match self.has_address(name, place) {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        // All queries at once.
                        Err(SpfStop::Wait) => wait = true,
                        Err(stop) => return Err(stop),
                    }
                }
                if wait { Err(SpfStop::Wait) } else { Ok(false) }
            }
            Mechanism::Pointer(name) => {
                let target = self.target(name.as_deref(), domain)?.to_ascii_lowercase();
                let is_of_target = |name: &str| {
                    name.strip_suffix(&target)
                        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
                };
                Ok(self.proven_names()?.into_iter().any(is_of_target))
            }
        }
    }

    fn target(&self, name: Option<&str>, domain: &str) -> Result<String, SpfStop> {
        match name {
            Some(name) => Ok(self.expand(name, domain)?),
            None => Ok(domain.to_owned()),
        }
    }

    /// The records of a name; an empty response counts towards the limit.
    fn records(&mut self, name: &str, kind: RecordType) -> Result<&'a [RecordData], SpfStop> {
        match self.known.lookup(name, kind)? {
            RecordLookup::Records(records) => Ok(records),
            RecordLookup::Failed => Err(SpfStop::With(SpfResult::TempError)),
            RecordLookup::Nothing { .. } => {
                self.empty += 1;
                if self.empty > EMPTY_ANSWERS_MAX {
                    return Err(SpfStop::With(SpfResult::PermError));
                }
                Ok(&[])
            }
        }
    }

    fn has_address(&mut self, name: &str, place: &DomainSpec) -> Result<bool, SpfStop> {
        let address = self.sender.address;
        let kind = kind_of(address);
        let (bits_v4, bits_v6) = (place.bits_v4, place.bits_v6);
        let mut addresses = self.records(name, kind)?.iter().filter_map(address_of);
        Ok(addresses.any(|network| is_within(address, network, bits_v4, bits_v6)))
    }

    /// The validated names of the sender's address (section 5.5). Errors are not matches.
    fn proven_names(&self) -> Result<Vec<&'a str>, AnswerPending> {
        let address = self.sender.address;
        let zone = if address.is_ipv4() {
            "in-addr.arpa"
        } else {
            "ip6.arpa"
        };
        let pointer = format!("{}.{zone}", ip::reversed(address));
        let RecordLookup::Records(records) = self.known.lookup(&pointer, RecordType::Ptr)? else {
            return Ok(Vec::new());
        };
        let mut proven = Vec::new();
        let mut wait = false;
        for name in names(records).take(NAMES_MAX) {
            match self.known.lookup(name, kind_of(address)) {
                Ok(RecordLookup::Records(records))
                    if records
                        .iter()
                        .filter_map(address_of)
                        .any(|known| known == address) =>
                {
                    proven.push(name);
                }
                Ok(_) => {}
                Err(AnswerPending) => wait = true,
            }
        }
        if wait { Err(AnswerPending) } else { Ok(proven) }
    }

    fn expand(&self, text: &str, domain: &str) -> Result<String, AnswerPending> {
        macros::expand(text, |letter| self.value(letter, domain))
    }

    /// The value of a macro letter (section 7.2).
    fn value(&self, letter: char, domain: &str) -> Result<String, AnswerPending> {
        let SpfSender {
            address,
            local_part,
            domain: sender_domain,
            helo,
        } = self.sender;
        let local_part = if local_part.is_empty() {
            "postmaster"
        } else {
            local_part
        };
        Ok(match letter {
            's' => format!("{local_part}@{sender_domain}"),
            'l' => local_part.to_owned(),
            'o' => sender_domain.to_owned(),
            'd' => domain.to_owned(),
            'h' => helo.to_owned(),
            'v' if address.is_ipv4() => "in-addr".to_owned(),
            'v' => "ip6".to_owned(),
            'i' => match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(_) => ip::reversed(address)
                    .split('.')
                    .rev()
                    .collect::<Vec<_>>()
                    .join("."),
            },
            'p' => {
                let names = self.proven_names()?;
                let best = names.iter().find(|name| **name == domain).or_else(|| {
                    names.iter().find(|name| {
                        name.strip_suffix(domain)
                            .is_some_and(|before| before.ends_with('.'))
                    })
                });
                best.or(names.first())
                    .map_or("unknown", |name| name)
                    .to_owned()
            }
            _ => String::new(),
        })
    }
}

fn kind_of(address: IpAddr) -> RecordType {
    if address.is_ipv4() {
        RecordType::A
    } else {
        RecordType::Aaaa
    }
}

fn address_of(record: &RecordData) -> Option<IpAddr> {
    match record {
        RecordData::A(address) => Some((*address).into()),
        RecordData::Aaaa(address) => Some((*address).into()),
        _ => None,
    }
}

fn names(records: &[RecordData]) -> impl Iterator<Item = &str> {
    records.iter().filter_map(|record| match record {
        RecordData::Name(name) | RecordData::Exchanger { name, .. } => Some(name.as_str()),
        _ => None,
    })
}

fn is_within(address: IpAddr, network: IpAddr, bits_v4: u8, bits_v6: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let shift = 32 - u32::from(bits_v4.min(32));
            u32::from(address).checked_shr(shift) == u32::from(network).checked_shr(shift)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let shift = 128 - u32::from(bits_v6.min(128));
            u128::from(address).checked_shr(shift) == u128::from(network).checked_shr(shift)
        }
        _ => false,
    }
}

/// Whether a name can have a record (section 4.3).
fn is_domain(domain: &str) -> bool {
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    domain.contains('.')
        && domain.len() <= 253
        && domain
            .split('.')
            .all(|label| !label.is_empty() && label.len() <= 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::tests::Zone;
    use gatepost_dns::Question;

    /// Cases of tests/data/authentication/spf.txt: a zone, then lines
    /// `ADDRESS SENDER HELO RESULT`.
    #[test]
    fn results_are_as_the_cases_say() {
        let text = include_str!("../../../tests/data/authentication/spf.txt");
        let (zone, cases) = text.split_once("----\n").expect("a zone, then cases");
        let zone = Zone::read(zone);
        let answer = |question: &Question| Some(zone.answer(question));
        let mut count = 0;
        for case in cases.lines().filter(|line| !line.is_empty()) {
            let [address, sender, helo, expected] = case.split(' ').collect::<Vec<_>>()[..] else {
                panic!("a case has four words: {case}");
            };
            let (local_part, domain) = sender.rsplit_once('@').unwrap_or(("", sender));
            let sender = SpfSender {
                address: address.parse().expect("an address"),
                local_part,
                domain,
                helo,
            };
            let known = DnsResponses::new(&answer, true);
            let result = check_host(&known, sender).expect("all is answered");
            assert_eq!(Some(result), SpfResult::named(expected), "{case}");
            count += 1;
        }
        assert!(count > 30, "{count}");
    }
}
