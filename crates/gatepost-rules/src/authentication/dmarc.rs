//! DMARC: the author domain's policy for mail that neither SPF nor DKIM authenticates (RFC 7489).
//!
//! The `pct` tag is read as 100: a random choice would not be reproducible.

use gatepost_dns::RecordType;

use super::dkim::Tags;
use super::{AnswerPending, DnsResponses, RecordLookup, texts};

/// A domain's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DmarcPolicy {
    None,
    Quarantine,
    Reject,
}

/// The result for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DmarcResult {
    /// The domain has no policy.
    NoPolicy,
    Pass,
    Fail(DmarcPolicy),
    /// The DNS query failed.
    Unknown,
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PublishedPolicy {
    policy: DmarcPolicy,
    policy_below: DmarcPolicy,
    strict_dkim: bool,
    strict_spf: bool,
}

impl PublishedPolicy {
    fn parse(record: &[u8]) -> Option<Self> {
        let tags = Tags::parse(record)?;
        let starts_well = record
            .trim_ascii_start()
            .get(..2)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"v="));
        if !starts_well || tags.text("v")? != "DMARC1" {
            return None;
        }
        let policy = |name: &str| match tags.text(name)?.to_ascii_lowercase().as_str() {
            "none" => Some(DmarcPolicy::None),
            "quarantine" => Some(DmarcPolicy::Quarantine),
            "reject" => Some(DmarcPolicy::Reject),
            _ => None,
        };
        // Section 6.6.3: a record without a policy that requests reports counts as policy none.
        let whole = policy("p").or_else(|| tags.text("rua").map(|_| DmarcPolicy::None))?;
        let is_strict = |name: &str| {
            tags.text(name)
                .is_some_and(|mode| mode.eq_ignore_ascii_case("s"))
        };
        Some(Self {
            policy: whole,
            policy_below: policy("sp").unwrap_or(whole),
            strict_dkim: is_strict("adkim"),
            strict_spf: is_strict("aspf"),
        })
    }
}

/// The domains that are authenticated for a message.
#[derive(Debug, Default)]
pub(crate) struct AuthenticatedDomains<'p> {
    /// The domains of valid DKIM signatures.
    pub(crate) signers: Vec<&'p str>,
    /// The domains with an SPF pass.
    pub(crate) senders: Vec<&'p str>,
}

/// Evaluates a message by its author's domain; `registered` returns a domain's organizational
/// domain.
pub(crate) fn verify(
    author: &str,
    proven: &AuthenticatedDomains<'_>,
    registered: &dyn Fn(&str) -> String,
    known: &DnsResponses<'_, '_>,
) -> Result<DmarcResult, AnswerPending> {
    let organization = registered(author);
    let own = published(author, known);
    // Both queries at once: most subdomains have no record of their own.
    let above = if organization == author {
        Ok(Ok(None))
    } else {
        published(&organization, known)
    };
    let (record, is_own) = match (own?, above?) {
        (Ok(Some(record)), _) => (record, true),
        (Err(QueryFailed), _) | (Ok(None), Err(QueryFailed)) => return Ok(DmarcResult::Unknown),
        (Ok(None), Ok(Some(record))) => (record, false),
        (Ok(None), Ok(None)) => return Ok(DmarcResult::NoPolicy),
    };
    let is_aligned = |domain: &str, strict: bool| {
        domain.eq_ignore_ascii_case(author)
            || !strict && registered(&domain.to_ascii_lowercase()) == organization
    };
    let by_signer = proven
        .signers
        .iter()
        .any(|domain| is_aligned(domain, record.strict_dkim));
    let by_sender = proven
        .senders
        .iter()
        .any(|domain| is_aligned(domain, record.strict_spf));
    Ok(if by_signer || by_sender {
        DmarcResult::Pass
    } else if is_own {
        DmarcResult::Fail(record.policy)
    } else {
        DmarcResult::Fail(record.policy_below)
    })
}

struct QueryFailed;

fn published(
    domain: &str,
    known: &DnsResponses<'_, '_>,
) -> Result<Result<Option<PublishedPolicy>, QueryFailed>, AnswerPending> {
    Ok(
        match known.lookup(&format!("_dmarc.{domain}"), RecordType::Txt)? {
            RecordLookup::Failed => Err(QueryFailed),
            RecordLookup::Nothing { .. } => Ok(None),
            RecordLookup::Records(records) => {
                let mut found = texts(records).filter_map(PublishedPolicy::parse);
                // Section 6.6.3: several records count as none.
                match (found.next(), found.next()) {
                    (Some(record), None) => Ok(Some(record)),
                    _ => Ok(None),
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::tests::Zone;
    use gatepost_dns::Question;

    #[test]
    fn policies() {
        let zone = Zone::read(
            "_dmarc.reject.example TXT v=DMARC1; p=reject; sp=quarantine
            _dmarc.own.reject.example TXT v=DMARC1; p=none
            _dmarc.strict.example TXT v=DMARC1; p=reject; adkim=s; aspf=s
            _dmarc.twice.example TXT v=DMARC1; p=none
            _dmarc.twice.example TXT v=DMARC1; p=reject
            _dmarc.reports.example TXT v=DMARC1; rua=mailto:x@reports.example
            _dmarc.slow.example TXT SERVFAIL
            _dmarc.other.example TXT v=spf1 -all",
        );
        let answer = |question: &Question| Some(zone.answer(question));
        let known = DnsResponses::new(&answer, true);
        let registered = |host: &str| {
            let labels: Vec<&str> = host.rsplitn(3, '.').collect();
            let last_two: Vec<&str> = labels.iter().take(2).rev().copied().collect();
            last_two.join(".")
        };
        let fails = DmarcResult::Fail;
        // The author's domain, the signers, the envelope's senders, and the result.
        for (author, signers, senders, expected) in [
            ("reject.example", "", "", fails(DmarcPolicy::Reject)),
            ("a.reject.example", "", "", fails(DmarcPolicy::Quarantine)),
            (
                "own.reject.example",
                "",
                "else.example",
                fails(DmarcPolicy::None),
            ),
            (
                "reject.example",
                "mail.reject.example",
                "",
                DmarcResult::Pass,
            ),
            (
                "reject.example",
                "",
                "bounce.reject.example",
                DmarcResult::Pass,
            ),
            (
                "strict.example",
                "mail.strict.example",
                "x.strict.example",
                fails(DmarcPolicy::Reject),
            ),
            ("strict.example", "Strict.example", "", DmarcResult::Pass),
            ("twice.example", "", "", DmarcResult::NoPolicy),
            ("reports.example", "", "", fails(DmarcPolicy::None)),
            ("other.example", "", "", DmarcResult::NoPolicy),
            ("slow.example", "", "", DmarcResult::Unknown),
            ("nothing.example", "", "", DmarcResult::NoPolicy),
        ] {
            let proven = AuthenticatedDomains {
                signers: signers.split_whitespace().collect(),
                senders: senders.split_whitespace().collect(),
            };
            assert_eq!(
                verify(author, &proven, &registered, &known),
                Ok(expected),
                "{author} {proven:?}"
            );
        }
    }
}
