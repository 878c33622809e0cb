//! ARC: the chain of intermediaries and their authentication results (RFC 8617).

use super::dkim::{
    BodyHashes, Canonicalization, DkimSignature, KeyLookup, RawMail, Tags, fetch_keys,
    without_value,
};
use super::{AnswerPending, DnsResponses};

/// The most sets of one message, RFC 8617, section 4.2.1.
const SETS_MAX: usize = 50;

/// The result for a message's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArcResult {
    None,
    Pass,
    Fail,
}

/// One intermediary's three fields, by their indices.
#[derive(Debug)]
struct ArcSet {
    results: usize,
    message_signature: usize,
    seal: usize,
}

/// The chain of a message before its validation.
#[derive(Debug)]
pub(crate) struct ArcChain {
    /// The sets in the order of their numbers; `None` if the chain has gaps.
    sets: Option<Vec<ArcSet>>,
    /// The message signature of the newest set, then the seals; `None` for one that cannot be
    /// valid.
    signatures: Vec<Option<DkimSignature>>,
}

impl ArcChain {
    pub(crate) fn read(mail: &RawMail<'_>, now: u64) -> Self {
        let sets = sets(mail);
        let mut signatures = Vec::new();
        if let Some(newest) = sets.as_deref().and_then(<[_]>::last) {
            let field = mail.field(newest.message_signature);
            signatures.push(
                field.and_then(|field| DkimSignature::of_fields(&Tags::parse(field.value())?, now)),
            );
        }
        for (place, set) in sets.iter().flatten().enumerate() {
            signatures.push(read_seal(mail, set, place));
        }
        Self { sets, signatures }
    }

    /// The keys of its signatures.
    pub(crate) fn fetch_keys(
        &self,
        known: &DnsResponses<'_, '_>,
    ) -> Result<Vec<KeyLookup>, AnswerPending> {
        fetch_keys(self.signatures.iter().map(Option::as_ref), known)
    }

    /// Validates it, section 5.2.
    pub(crate) fn verify(&self, mail: &RawMail<'_>, keys: &[KeyLookup]) -> ArcResult {
        let Some(sets) = &self.sets else {
            return ArcResult::Fail;
        };
        let Some(newest) = sets.last() else {
            return ArcResult::None;
        };
        let mut with_keys = self.signatures.iter().zip(keys);
        let mut next = || match with_keys.next() {
            Some((Some(signature), KeyLookup::Key(key))) => Some((signature, key)),
            _ => None,
        };
        let is_message_signed = next().is_some_and(|(signature, key)| {
            signature.covers_body(&mut BodyHashes::of(mail.body))
                && key.verifies(
                    signature.algorithm,
                    &signature.signed_text(mail, newest.message_signature),
                    &signature.value,
                )
        });
        let mut is_sealed = |count: usize| {
            next().is_some_and(|(signature, key)| {
                let text = sealed_text(mail, sets.get(..count).unwrap_or_default());
                key.verifies(signature.algorithm, &text, &signature.value)
            })
        };
        if is_message_signed && (1..=sets.len()).all(&mut is_sealed) {
            ArcResult::Pass
        } else {
            ArcResult::Fail
        }
    }
}

/// The sets in the order of their numbers; `None` if the chain has gaps.
fn sets(mail: &RawMail<'_>) -> Option<Vec<ArcSet>> {
    let results = numbered(mail, b"arc-authentication-results")?;
    let signatures = numbered(mail, b"arc-message-signature")?;
    let seals = numbered(mail, b"arc-seal")?;
    let is_whole = results.len() == signatures.len() && seals.len() == results.len();
    if !is_whole || results.len() > SETS_MAX {
        return None;
    }
    let all = results.into_iter().zip(signatures).zip(seals);
    let sets = all.map(|((results, message_signature), seal)| ArcSet {
        results,
        message_signature,
        seal,
    });
    Some(sets.collect())
}

/// The indices of the fields with a name, by their `i=`, which counts from 1 without gaps.
fn numbered(mail: &RawMail<'_>, name: &[u8]) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for (index, field) in mail.fields_named(name) {
        let first = field
            .value()
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default();
        let number: usize = Tags::parse(first)
            .and_then(|tags| tags.text("i"))
            .or_else(|| Tags::parse(field.value())?.text("i"))?
            .parse()
            .ok()?;
        found.push((number, index));
    }
    found.sort_unstable();
    let in_order = found
        .iter()
        .enumerate()
        .all(|(place, (number, _))| *number == place + 1);
    in_order.then(|| found.into_iter().map(|(_, index)| index).collect())
}

/// The seal of a set; `None` if it cannot be valid, or does not have the required result for the
/// sets before it.
fn read_seal(mail: &RawMail<'_>, set: &ArcSet, place: usize) -> Option<DkimSignature> {
    let tags = Tags::parse(mail.field(set.seal)?.value())?;
    // Section 5.1.1: the first set cannot validate a chain; all others found it valid.
    let expected = if place == 0 { "none" } else { "pass" };
    let is_expected = tags.text("cv")?.eq_ignore_ascii_case(expected);
    DkimSignature::of_seal(&tags).filter(|_| is_expected)
}

/// The text that the seal of the last of these sets signs.
fn sealed_text(mail: &RawMail<'_>, sets: &[ArcSet]) -> Vec<u8> {
    let mut text = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        let is_own = place + 1 == sets.len();
        let others: &[usize] = if is_own {
            &[set.results, set.message_signature]
        } else {
            &[set.results, set.message_signature, set.seal]
        };
        for &index in others {
            if let Some(field) = mail.field(index) {
                Canonicalization::Relaxed.field(field, &mut text);
                text.extend_from_slice(b"\r\n");
            }
        }
    }
    if let Some(field) = sets.last().and_then(|set| mail.field(set.seal)) {
        without_value(Canonicalization::Relaxed, field, &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::tests::Zone;
    use gatepost_dns::Question;

    #[test]
    fn chains_of_another_program() {
        let zone = Zone::read(include_str!("../../tests/data/authentication/keys.txt"));
        let answer = |question: &Question| Some(zone.answer(question));
        let known = DnsResponses::new(&answer, true);
        let message =
            include_str!("../../tests/data/authentication/forwarded.eml").replace('\n', "\r\n");
        let chain = |message: &str| {
            let mail = RawMail::read(message.as_bytes());
            let chain = ArcChain::read(&mail, 1_000_000_000);
            chain.verify(&mail, &chain.fetch_keys(&known).expect("all is answered"))
        };
        assert_eq!(chain(&message), ArcResult::Pass);
        assert_eq!(chain(&message.replace("Hello", "Hallo")), ArcResult::Fail);
        assert_eq!(
            chain(&message.replace("spf=pass", "spf=fail")),
            ArcResult::Fail
        );
        assert_eq!(
            chain(&message.replace("ARC-Seal: i=1", "X-Seal: i=1")),
            ArcResult::Fail
        );
        assert_eq!(chain("From: a@b.example\r\n\r\nx\r\n"), ArcResult::None);
    }
}
