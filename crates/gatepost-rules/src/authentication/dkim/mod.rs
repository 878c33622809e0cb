//! DKIM: signatures of a message by domains (RFC 6376).
//!
//! A signature covers some fields and the body in canonical form. This module computes the signed
//! text; keys come from the responses in [`DnsResponses`], so all keys are queried at once.

mod canonical;
mod fields;
mod key;
mod signature;
mod signer;
mod tags;

use gatepost_dns::RecordType;

use super::{AnswerPending, DnsResponses, RecordLookup, texts};
pub(crate) use canonical::Canonicalization;
pub(crate) use fields::{RawMail, with_line_ends};
pub(crate) use key::DkimPublicKey;
pub(crate) use signature::{DkimSignature, without_value};
pub use signer::{DkimKey, DkimKeyError, DkimSigner};
pub(crate) use tags::Tags;

/// The most signatures of one message that are verified.
const SIGNATURES_MAX: usize = 16;

/// A signature and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignatureResult {
    /// The identity that is responsible for the message: the domain of `i=`, otherwise `d=`.
    pub(crate) identity_domain: String,
    pub(crate) identity: String,
    /// `d=`.
    pub(crate) domain: String,
    pub(crate) selector: String,
    pub(crate) outcome: DkimResult,
    /// The size of an RSA key.
    pub(crate) key_bits: Option<usize>,
    /// The domain is testing DKIM (`t=y`).
    pub(crate) is_test: bool,
}

/// The result of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DkimResult {
    Pass,
    Fail,
    /// The key is temporarily unavailable.
    TemporaryFailure,
}

/// All signatures of a message, in their order.
pub(crate) fn verify(
    mail: &RawMail<'_>,
    known: &DnsResponses<'_, '_>,
    now: u64,
) -> Result<Vec<SignatureResult>, AnswerPending> {
    let mut all = Vec::new();
    let mut wait = false;
    for (index, field) in mail.fields_named(b"dkim-signature").take(SIGNATURES_MAX) {
        let Some(tags) = Tags::parse(field.value()) else {
            continue;
        };
        let signature = DkimSignature::of_message(&tags, now);
        let text = |name| tags.text(name).unwrap_or_default();
        let domain = text("d").to_ascii_lowercase();
        let identity = tags.text("i").unwrap_or_else(|| format!("@{domain}"));
        let identity_domain = identity
            .rsplit_once('@')
            .map(|(_, domain)| domain.to_ascii_lowercase());
        let mut signed = SignatureResult {
            identity_domain: identity_domain.unwrap_or_else(|| domain.clone()),
            identity,
            domain,
            selector: text("s"),
            outcome: DkimResult::Fail,
            key_bits: None,
            is_test: false,
        };
        if let Some(signature) = signature {
            match fetch(&signature, known) {
                Err(AnswerPending) => wait = true,
                Ok(KeyLookup::Later) => signed.outcome = DkimResult::TemporaryFailure,
                Ok(KeyLookup::None) => {}
                Ok(KeyLookup::Key(key)) => {
                    signed.key_bits = key.bits();
                    signed.is_test = key.is_test;
                    let is_good = key.allows(&signature)
                        && signature.covers_body(mail)
                        && key.verifies(
                            signature.algorithm,
                            &signature.signed_text(mail, index),
                            &signature.value,
                        );
                    if is_good {
                        signed.outcome = DkimResult::Pass;
                    }
                }
            }
        }
        all.push(signed);
    }
    if wait { Err(AnswerPending) } else { Ok(all) }
}

/// The key of a signature.
pub(crate) enum KeyLookup {
    Key(DkimPublicKey),
    None,
    Later,
}

pub(crate) fn fetch(
    signature: &DkimSignature,
    known: &DnsResponses<'_, '_>,
) -> Result<KeyLookup, AnswerPending> {
    let name = format!("{}._domainkey.{}", signature.selector, signature.domain);
    Ok(match known.lookup(&name, RecordType::Txt)? {
        RecordLookup::Records(records) => texts(records)
            .find_map(DkimPublicKey::parse)
            .map_or(KeyLookup::None, KeyLookup::Key),
        RecordLookup::Nothing { .. } => KeyLookup::None,
        RecordLookup::Failed => KeyLookup::Later,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::tests::Zone;
    use gatepost_dns::Question;

    /// Messages that Mail::DKIM signed; later changes are detected.
    #[test]
    fn signatures_of_another_program() {
        let zone = Zone::read(include_str!("../../../tests/data/authentication/keys.txt"));
        let answer = |question: &Question| Some(zone.answer(question));
        let known = DnsResponses::new(&answer, true);
        let message =
            include_str!("../../../tests/data/authentication/signed.eml").replace('\n', "\r\n");
        let outcomes = |message: &str| {
            let mail = RawMail::read(message.as_bytes());
            let all = verify(&mail, &known, 1_000_000_000).expect("all is answered");
            all.into_iter()
                .map(|signed| (signed.selector, signed.outcome))
                .collect::<Vec<_>>()
        };
        let all = outcomes(&message);
        assert!(all.len() >= 4, "{all:?}");
        for (selector, outcome) in &all {
            assert_eq!(*outcome, DkimResult::Pass, "{selector}");
        }
        for (what, changed) in [
            ("the body", message.replace("Hello", "Hallo")),
            ("the subject", message.replace("Subject: ", "Subject: Re: ")),
        ] {
            let all = outcomes(&changed);
            assert!(
                all.iter().all(|(_, outcome)| *outcome == DkimResult::Fail),
                "{what}: {all:?}"
            );
        }
        // Blanks at the ends of lines and of the body are ignored by the relaxed form, but not by
        // the simple one.
        let blanks = message
            .replace("Hello", "Hello ")
            .replace("Hello \r\n", "Hello\t \r\n");
        let all = outcomes(&blanks);
        assert!(
            all.iter()
                .any(|(selector, outcome)| selector == "simple" && *outcome == DkimResult::Fail),
            "{all:?}"
        );
    }
}
