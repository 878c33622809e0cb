//! DKIM: signatures of a message by domains (RFC 6376).
//!
//! A signature covers some fields and the body in canonical form. This module computes the signed
//! text; keys come from the responses in [`DnsResponses`], so all keys are queried at once.

mod algorithm;
mod body_hashes;
mod canonical;
mod fields;
mod key;
mod signature;
mod signer;
mod tags;

use gatepost_dns::RecordType;

use super::{AnswerPending, DnsResponses, RecordLookup, texts};
pub(crate) use body_hashes::BodyHashes;
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

/// A signature of a message before its verification.
#[derive(Debug, Clone)]
pub(crate) struct ReadSignature {
    /// The index of its field.
    index: usize,
    /// `None` if it cannot be valid.
    signature: Option<DkimSignature>,
    /// The result without a valid key.
    result: SignatureResult,
}

/// The signatures of a message, in their order.
pub(crate) fn read(mail: &RawMail<'_>, now: u64) -> Vec<ReadSignature> {
    let mut all = Vec::new();
    for (index, field) in mail.fields_named(b"dkim-signature").take(SIGNATURES_MAX) {
        let Some(tags) = Tags::parse(field.value()) else {
            continue;
        };
        let text = |name| tags.text(name).unwrap_or_default();
        let domain = text("d").to_ascii_lowercase();
        let identity = tags.text("i").unwrap_or_else(|| format!("@{domain}"));
        let identity_domain = identity
            .rsplit_once('@')
            .map(|(_, domain)| domain.to_ascii_lowercase());
        all.push(ReadSignature {
            index,
            signature: DkimSignature::of_message(&tags, now),
            result: SignatureResult {
                identity_domain: identity_domain.unwrap_or_else(|| domain.clone()),
                identity,
                domain,
                selector: text("s"),
                outcome: DkimResult::Fail,
                key_bits: None,
                is_test: false,
            },
        });
    }
    all
}

/// The keys of these signatures, once all of them are known: nothing is hashed before.
pub(crate) fn fetch_keys<'s>(
    signatures: impl Iterator<Item = Option<&'s DkimSignature>>,
    known: &DnsResponses<'_, '_>,
) -> Result<Vec<KeyLookup>, AnswerPending> {
    let fetch = |signature: Option<&DkimSignature>| match signature {
        Some(signature) => fetch(signature, known),
        None => Ok(KeyLookup::None),
    };
    // All are looked up before the first open one is returned, so that all are queried at once.
    let keys: Vec<Result<KeyLookup, AnswerPending>> = signatures.map(fetch).collect();
    keys.into_iter().collect()
}

impl ReadSignature {
    pub(crate) const fn signature(&self) -> Option<&DkimSignature> {
        self.signature.as_ref()
    }

    /// The result with this key.
    fn verify(
        &self,
        mail: &RawMail<'_>,
        key: &KeyLookup,
        bodies: &mut BodyHashes<'_>,
    ) -> SignatureResult {
        let mut result = self.result.clone();
        let key = match key {
            KeyLookup::Key(key) => key,
            KeyLookup::Later => {
                result.outcome = DkimResult::TemporaryFailure;
                return result;
            }
            KeyLookup::None => return result,
        };
        (result.key_bits, result.is_test) = (key.bits(), key.is_test);
        let is_good = self.signature.as_ref().is_some_and(|signature| {
            key.allows(signature)
                && signature.covers_body(bodies)
                && key.verifies(
                    signature.algorithm,
                    &signature.signed_text(mail, self.index),
                    &signature.value,
                )
        });
        if is_good {
            result.outcome = DkimResult::Pass;
        }
        result
    }
}

/// The results of the signatures of a message with their keys.
pub(crate) fn verify(
    mail: &RawMail<'_>,
    signatures: &[ReadSignature],
    keys: &[KeyLookup],
) -> Vec<SignatureResult> {
    let mut bodies = BodyHashes::of(mail.body);
    let with_keys = signatures.iter().zip(keys);
    with_keys
        .map(|(signature, key)| signature.verify(mail, key, &mut bodies))
        .collect()
}

/// The key of a signature.
#[derive(Debug)]
pub(crate) enum KeyLookup {
    Key(DkimPublicKey),
    None,
    Later,
}

fn fetch(
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
            let signatures = read(&mail, 1_000_000_000);
            let all = signatures.iter().map(ReadSignature::signature);
            let keys = fetch_keys(all, &known).expect("all is answered");
            let all = verify(&mail, &signatures, &keys);
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

    /// All keys are queried at once.
    #[test]
    fn no_key_waits_for_another() {
        let message = include_str!("../../../tests/data/authentication/signed.eml");
        let signatures = read(&RawMail::read(&with_line_ends(message.as_bytes())), 0);
        let nothing = |_: &Question| None;
        let known = DnsResponses::new(&nothing, false);
        let all = signatures.iter().map(ReadSignature::signature);
        assert_eq!(fetch_keys(all, &known).err(), Some(AnswerPending));
        assert_eq!(known.into_questions().len(), signatures.len());
    }
}
