//! A signature: its tags, and the text that it signs, RFC 6376, sections 3.5 and 3.7.

use std::collections::HashMap;

use gatepost_mail::decode_base64;

use super::algorithm::Algorithm;
use super::body_hashes::BodyHashes;
use super::canonical::Canonicalization;
use super::fields::{RawField, RawMail};
use super::tags::Tags;

/// The most names that a signature lists (`h=`). RFC 6376, section 6.1.1 lets a verifier refuse one
/// with more; signers list fewer than a hundred.
const SIGNED_NAMES_MAX: usize = 1_000;

/// A signature that can be verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DkimSignature {
    pub(crate) algorithm: Algorithm,
    pub(crate) value: Vec<u8>,
    body_hash: Vec<u8>,
    head_form: Canonicalization,
    body_form: Canonicalization,
    pub(crate) domain: String,
    identity_domain: String,
    pub(crate) selector: String,
    /// The names of the signed fields, as listed.
    fields: Vec<String>,
    /// The number of bytes of the canonical body that are signed; all if absent.
    body_length: Option<usize>,
}

impl DkimSignature {
    /// Parses `DKIM-Signature`; `None` if it cannot be valid.
    pub(crate) fn of_message(tags: &Tags<'_>, now: u64) -> Option<Self> {
        if tags.text("v")? != "1" {
            return None;
        }
        let query = tags.text("q").unwrap_or_else(|| "dns/txt".to_owned());
        if !query.split(':').any(|method| {
            method.eq_ignore_ascii_case("dns/txt") || method.eq_ignore_ascii_case("dns")
        }) {
            return None;
        }
        Self::of_fields(tags, now)
    }

    /// Parses the tags that `DKIM-Signature` and `ARC-Message-Signature` share.
    pub(crate) fn of_fields(tags: &Tags<'_>, now: u64) -> Option<Self> {
        let names = tags.text("h")?;
        if names.split(':').nth(SIGNED_NAMES_MAX).is_some() {
            return None;
        }
        let fields: Vec<String> = names.split(':').map(str::to_ascii_lowercase).collect();
        // Section 5.4: a signature must cover From.
        if !fields.iter().any(|name| name == "from") {
            return None;
        }
        let number = |name: &str| match tags.text(name) {
            None => Some(None),
            Some(text) => text.parse::<u64>().ok().map(Some),
        };
        let (made, ends) = (number("t")?, number("x")?);
        if ends.is_some_and(|ends| ends < now || made.is_some_and(|made| ends < made)) {
            return None;
        }
        let (head_form, body_form) = Canonicalization::pair(tags.text("c").as_deref())?;
        let mut signature = Self::of_seal(tags)?;
        signature.fields = fields;
        signature.body_hash = decode_base64(tags.raw("bh")?);
        (signature.head_form, signature.body_form) = (head_form, body_form);
        signature.body_length = number("l")?.map(|length| length as usize);
        if let Some((_, domain)) = tags
            .text("i")
            .as_deref()
            .and_then(|identity| identity.rsplit_once('@'))
        {
            signature.identity_domain = domain.to_ascii_lowercase();
        }
        let is_below = signature
            .identity_domain
            .strip_suffix(signature.domain.as_str());
        is_below?;
        is_below.filter(|before| before.is_empty() || before.ends_with('.'))?;
        Some(signature)
    }

    /// Parses the tags that every signature has.
    pub(crate) fn of_seal(tags: &Tags<'_>) -> Option<Self> {
        let domain = tags
            .text("d")
            .filter(|domain| !domain.is_empty())?
            .to_ascii_lowercase();
        let value = decode_base64(tags.raw("b")?);
        Some(Self {
            algorithm: Algorithm::named(&tags.text("a")?)?,
            value: Some(value).filter(|value| !value.is_empty())?,
            body_hash: Vec::new(),
            head_form: Canonicalization::Relaxed,
            body_form: Canonicalization::Relaxed,
            identity_domain: domain.clone(),
            domain,
            selector: tags.text("s").filter(|selector| !selector.is_empty())?,
            fields: Vec::new(),
            body_length: None,
        })
    }

    pub(super) fn identity_is_signer(&self) -> bool {
        self.identity_domain == self.domain
    }

    /// Whether the body is the signed one.
    pub(crate) fn covers_body(&self, bodies: &mut BodyHashes<'_>) -> bool {
        let hash = bodies.hash(self.body_form, self.body_length, self.algorithm);
        hash == Some(&self.body_hash[..])
    }

    /// The signed text: the listed fields from the last upwards, then the signature's own field
    /// without its value.
    pub(crate) fn signed_text(&self, mail: &RawMail<'_>, own: usize) -> Vec<u8> {
        let mut out = Vec::new();
        add_signed_fields(mail, &self.fields, self.head_form, &mut out);
        if let Some(field) = mail.field(own) {
            without_value(self.head_form, field, &mut out);
        }
        out
    }
}

/// Adds the fields of these names, each from the last upwards (section 5.4.2). The names are in
/// lower case.
pub(super) fn add_signed_fields(
    mail: &RawMail<'_>,
    names: &[impl AsRef<str>],
    form: Canonicalization,
    out: &mut Vec<u8>,
) {
    // By name, the fields that are not added yet, the last at the end.
    let mut left: HashMap<&[u8], Vec<RawField<'_>>> = HashMap::new();
    for name in names {
        left.entry(name.as_ref().as_bytes()).or_default();
    }
    let mut lower = Vec::new();
    for field in mail.fields() {
        lower.clear();
        lower.extend(field.name().iter().map(u8::to_ascii_lowercase));
        if let Some(fields) = left.get_mut(lower.as_slice()) {
            fields.push(field);
        }
    }
    for name in names {
        let fields = left.get_mut(name.as_ref().as_bytes());
        if let Some(field) = fields.and_then(Vec::pop) {
            form.field(field, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Adds a signature's field with an empty `b=` and without its line end.
pub(crate) fn without_value(form: Canonicalization, field: RawField<'_>, out: &mut Vec<u8>) {
    let mut text = Vec::with_capacity(field.text.len());
    let value_at = field.text.len() - field.value().len();
    let (name, value) = field.text.split_at(value_at);
    text.extend_from_slice(name);
    for (index, pair) in value.split(|&byte| byte == b';').enumerate() {
        if index > 0 {
            text.push(b';');
        }
        let equals = memchr::memchr(b'=', pair);
        match equals {
            Some(equals) if pair.get(..equals).unwrap_or_default().trim_ascii() == b"b" => {
                text.extend_from_slice(pair.get(..=equals).unwrap_or_default());
            }
            _ => text.extend_from_slice(pair),
        }
    }
    let emptied = [&text[..], b"\r\n\r\n"].concat();
    let mail = RawMail::read(&emptied);
    if let Some(field) = mail.field(0) {
        form.field(field, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_takes_the_next_field_from_the_last_upwards() {
        let mail = RawMail::read(b"A: 1\r\nB: 2\r\nA: 3\r\na : 4\r\n\r\n");
        let mut out = Vec::new();
        let names = ["a", "b", "a", "x", "b", "a", "a"];
        add_signed_fields(&mail, &names, Canonicalization::Relaxed, &mut out);
        assert_eq!(out, b"a:4\r\nb:2\r\na:3\r\na:1\r\n");
    }

    #[test]
    fn a_signature_of_too_many_names_is_invalid() {
        let signature = |names: usize| {
            let more = ":a".repeat(names - 1);
            let text = format!("v=1; a=rsa-sha256; d=a.b; s=c; h=from{more}; bh=eA==; b=eA==");
            DkimSignature::of_message(&Tags::parse(text.as_bytes())?, 0)
        };
        assert!(signature(SIGNED_NAMES_MAX).is_some());
        assert!(signature(SIGNED_NAMES_MAX + 1).is_none());
    }
}
