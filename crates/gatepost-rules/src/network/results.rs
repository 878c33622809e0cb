//! The sender authentication of a message, in the form of `Authentication-Results` (RFC 8601).
//!
//! Only methods that rules use are included: a method without rules is not evaluated.

use gatepost_dns::{Question, QuestionOutcome};
use gatepost_message::Authentication;

use super::senders::{SenderTest, Senders};
use crate::authentication::DnsResponses;
use crate::authentication::dkim::DkimResult;
use crate::authentication::dmarc::DmarcResult;
use crate::authentication::spf::SpfResult;

/// The results of the methods of these tests, from the responses that arrived in time.
pub(super) fn results<'a>(
    senders: &Senders<'_, '_>,
    tests: &[&SenderTest],
    answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
) -> Vec<Authentication> {
    let known = DnsResponses::new(answer, true);
    let has_test = |wanted: fn(&SenderTest) -> bool| tests.iter().any(|test| wanted(test));
    let mut results = Vec::new();
    if has_test(|test| matches!(test, SenderTest::Spf { .. })) {
        results.extend(spf(senders, &known));
    }
    if has_test(|test| matches!(test, SenderTest::Signed(_) | SenderTest::Valid(_))) {
        results.extend(dkim(senders, &known));
    }
    if has_test(|test| matches!(test, SenderTest::Dmarc(_))) {
        results.extend(dmarc(senders, &known));
    }
    results
}

/// RFC 8601, section 2.7.2. A bounce has no sender, so its identity is the HELO name (RFC 7208,
/// section 2.4).
fn spf(senders: &Senders<'_, '_>, known: &DnsResponses<'_, '_>) -> Option<Authentication> {
    let sender = senders.spf_sender().filter(|sender| !sender.is_empty());
    let of_greeting = sender.is_none();
    let result = senders.spf(of_greeting, known).ok()??;
    let identity = match sender {
        Some(sender) => ("smtp.mailfrom", sender),
        None => ("smtp.helo", senders.relay()?.helo.to_ascii_lowercase()),
    };
    Some(Authentication {
        method: "spf",
        result: match result {
            SpfResult::None => "none",
            SpfResult::Neutral => "neutral",
            SpfResult::Pass => "pass",
            SpfResult::Fail => "fail",
            SpfResult::SoftFail => "softfail",
            SpfResult::TempError => "temperror",
            SpfResult::PermError => "permerror",
        },
        properties: vec![identity],
    })
}

/// RFC 8601, section 2.7.1: a result for each signature.
fn dkim(senders: &Senders<'_, '_>, known: &DnsResponses<'_, '_>) -> Vec<Authentication> {
    let signatures = senders.signatures(known).unwrap_or_default();
    if signatures.is_empty() {
        return vec![Authentication {
            method: "dkim",
            result: "none",
            properties: Vec::new(),
        }];
    }
    let result = |signed: &crate::authentication::dkim::SignatureResult| Authentication {
        method: "dkim",
        result: match signed.outcome {
            DkimResult::Pass => "pass",
            DkimResult::Fail => "fail",
            DkimResult::TemporaryFailure => "temperror",
        },
        properties: vec![
            ("header.d", signed.domain.clone()),
            ("header.s", signed.selector.clone()),
        ],
    };
    signatures.iter().map(result).collect()
}

/// RFC 7489, section 11.2.
fn dmarc(senders: &Senders<'_, '_>, known: &DnsResponses<'_, '_>) -> Option<Authentication> {
    let result = senders.dmarc(known).ok()??;
    Some(Authentication {
        method: "dmarc",
        result: match result {
            DmarcResult::NoPolicy => "none",
            DmarcResult::Pass => "pass",
            DmarcResult::Fail(_) => "fail",
            DmarcResult::Unknown => "temperror",
        },
        properties: vec![("header.from", senders.author_domain()?)],
    })
}
