//! ARC: the chain of intermediaries and their authentication results (RFC 8617).

use super::dkim::{
    Canonicalization, DkimSignature, KeyLookup, RawMail, Tags, fetch, without_value,
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
struct ArcSet {
    results: usize,
    message_signature: usize,
    seal: usize,
}

/// Validates the chain, section 5.2.
pub(crate) fn verify(
    mail: &RawMail<'_>,
    known: &DnsResponses<'_, '_>,
    now: u64,
) -> Result<ArcResult, AnswerPending> {
    let Some(sets) = sets(mail) else {
        return Ok(ArcResult::Fail);
    };
    let Some(newest) = sets.last() else {
        return Ok(ArcResult::None);
    };
    let mut wait = false;
    let mut is_good = true;
    let mut note = |outcome: Result<bool, AnswerPending>| match outcome {
        Ok(good) => is_good &= good,
        Err(AnswerPending) => wait = true,
    };
    note(message_signature(
        mail,
        known,
        newest.message_signature,
        now,
    ));
    for count in 1..=sets.len() {
        note(seal(mail, known, sets.get(..count).unwrap_or_default()));
    }
    Ok(match (wait, is_good) {
        (true, _) => return Err(AnswerPending),
        (false, true) => ArcResult::Pass,
        (false, false) => ArcResult::Fail,
    })
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

fn message_signature(
    mail: &RawMail<'_>,
    known: &DnsResponses<'_, '_>,
    index: usize,
    now: u64,
) -> Result<bool, AnswerPending> {
    let field = mail.field(index);
    let signature =
        field.and_then(|field| DkimSignature::of_fields(&Tags::parse(field.value())?, now));
    let Some(signature) = signature else {
        return Ok(false);
    };
    let KeyLookup::Key(key) = fetch(&signature, known)? else {
        return Ok(false);
    };
    Ok(signature.covers_body(mail)
        && key.verifies(
            signature.algorithm,
            &signature.signed_text(mail, index),
            &signature.value,
        ))
}

/// Whether the last of these sets is sealed, with the required result for those before it.
fn seal(
    mail: &RawMail<'_>,
    known: &DnsResponses<'_, '_>,
    sets: &[ArcSet],
) -> Result<bool, AnswerPending> {
    let field = sets.last().and_then(|set| mail.field(set.seal));
    let Some((field, tags)) = field.and_then(|field| Some((field, Tags::parse(field.value())?)))
    else {
        return Ok(false);
    };
    // Section 5.1.1: the first set cannot validate a chain; all others found it valid.
    let expected = if sets.len() == 1 { "none" } else { "pass" };
    let Some(signature) = DkimSignature::of_seal(&tags).filter(|_| {
        tags.text("cv")
            .is_some_and(|cv| cv.eq_ignore_ascii_case(expected))
    }) else {
        return Ok(false);
    };
    let KeyLookup::Key(key) = fetch(&signature, known)? else {
        return Ok(false);
    };
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
    without_value(Canonicalization::Relaxed, field, &mut text);
    Ok(key.verifies(signature.algorithm, &text, &signature.value))
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
            verify(&RawMail::read(message.as_bytes()), &known, 1_000_000_000).unwrap()
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
