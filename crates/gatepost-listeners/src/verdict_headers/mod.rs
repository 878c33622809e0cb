//! The header fields that state a mail's verdict: those that procedures request (`X-Spam-Status`
//! and its like), `Authentication-Results` (RFC 8601), and a rewritten subject.
//!
//! A listener that forwards mail gets the edits here and applies them in its own way: a milter
//! sends them to the mail server, forwarding writes them. Fields of the same names that arrived
//! with the mail are removed first, since anyone could have written them.

pub(crate) mod head;

use std::collections::HashMap;

use bytes::Bytes;
use gatepost_message::{Action, Edit, EditedField, Verdict, edit};
use serde::{Deserialize, Serialize};

use head::FieldSpan as Present;

/// SpamAssassin's prefix, which every spam filter's verdict uses.
const SPAM_FIELDS: &str = "X-Spam-";
/// These fields record what an earlier filter changed in the message, not its verdict.
const KEPT_SPAM_FIELDS: &str = "X-Spam-Prev-";

/// `listeners.NAME.verdict_headers`: the header fields that state the verdict of a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerdictHeaderSettings {
    /// Whether the fields that procedures request are added, such as `X-Spam-Status`.
    pub fields: bool,
    /// Whether `Authentication-Results` is added: the login, and the results of SPF and DKIM.
    pub authentication_results: bool,
    /// The prefix for the subject of tagged mail, such as `"[SPAM]"`; empty changes no subject.
    pub subject: String,
}

impl Default for VerdictHeaderSettings {
    fn default() -> Self {
        Self {
            fields: true,
            authentication_results: true,
            subject: String::new(),
        }
    }
}

/// Facts about a mail that its content does not state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryFacts<'a> {
    /// Our name, the "authentication service identifier".
    pub(crate) hostname: &'a str,
    /// The user that sent it.
    pub(crate) user: Option<&'a str>,
}

/// The edits of the procedures, followed by those that state the verdict.
pub(crate) fn edits(
    settings: &VerdictHeaderSettings,
    mail: &Bytes,
    verdict: &Verdict,
    facts: DeliveryFacts<'_>,
) -> Vec<Edit> {
    let mut edits = verdict.edits.clone();
    let edited = edit::apply(mail, &edits);
    edits.extend(header_edits(
        settings,
        &head::fields(&edited),
        verdict,
        facts,
    ));
    edits
}

fn header_edits(
    settings: &VerdictHeaderSettings,
    present: &[Present<'_>],
    verdict: &Verdict,
    facts: DeliveryFacts<'_>,
) -> Vec<Edit> {
    let tags: Vec<_> = verdict.tags.iter().filter_map(field).collect();
    let with_tags = settings.fields && !tags.is_empty();
    let mut edits = remove(present, |field| {
        let replaced = tags.iter().any(|tag| field.is(tag.name()));
        (with_tags && (replaced || is_spam_field(field)))
            || (settings.authentication_results && is_own_result(field, facts))
    });
    if !settings.subject.is_empty() && verdict.action == Action::Tag {
        edits.extend(subject(&settings.subject, present));
    }
    // Each edit prepends, so the topmost field comes last.
    if settings.fields {
        edits.extend(tags.into_iter().rev().map(Edit::PrependField));
    }
    if settings.authentication_results {
        let results = authentication_results(verdict, facts);
        let field = EditedField::new("Authentication-Results", &results);
        edits.extend(field.ok().map(Edit::PrependField));
    }
    edits
}

/// `None` if a procedure requests a field with a malformed name.
fn field((name, value): &(String, String)) -> Option<EditedField> {
    EditedField::new(name, value).ok()
}

/// Removes the fields that are `unwanted`, the last first, so that occurrence numbers stay valid.
fn remove(present: &[Present<'_>], unwanted: impl Fn(&Present<'_>) -> bool) -> Vec<Edit> {
    let is_unwanted: Vec<bool> = present.iter().map(unwanted).collect();
    // The number of fields of each unwanted name so far: if they were counted for each field, the
    // time would grow with the square of their number.
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    for (field, _) in present.iter().zip(&is_unwanted).filter(|(_, it)| **it) {
        seen.entry(field.name.to_ascii_lowercase()).or_default();
    }
    if seen.is_empty() {
        return Vec::new();
    }
    let mut edits = Vec::new();
    let mut name = Vec::new();
    for (field, is_unwanted) in present.iter().zip(is_unwanted) {
        name.clear();
        name.extend(field.name.iter().map(u8::to_ascii_lowercase));
        let Some(count) = seen.get_mut(&name) else {
            continue;
        };
        *count += 1;
        if is_unwanted {
            edits.push(Edit::RemoveField {
                name: String::from_utf8_lossy(field.name).into_owned(),
                occurrence: *count,
            });
        }
    }
    edits.reverse();
    edits
}

fn is_spam_field(field: &Present<'_>) -> bool {
    let begins = |prefix: &str| {
        field
            .name
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    begins(SPAM_FIELDS) && !begins(KEPT_SPAM_FIELDS)
}

/// RFC 8601, section 5: a field under this server's name that arrived from outside is removed.
fn is_own_result(field: &Present<'_>, facts: DeliveryFacts<'_>) -> bool {
    let text = String::from_utf8_lossy(field.value);
    let service = text.trim_start().split([';', ' ', '\t', '\r', '\n']).next();
    field.is("Authentication-Results")
        && service.is_some_and(|service| service.eq_ignore_ascii_case(facts.hostname))
}

/// RFC 8601, section 2.2: this server's name, then the result of each method.
fn authentication_results(verdict: &Verdict, facts: DeliveryFacts<'_>) -> String {
    let mut text = facts.hostname.to_owned();
    if facts.user.is_none() && verdict.authentication.is_empty() {
        return text + "; none";
    }
    if let Some(user) = facts.user {
        text += "; auth=pass smtp.auth=";
        text += &value(user);
    }
    for one in &verdict.authentication {
        for word in ["; ", one.method, "=", one.result] {
            text += word;
        }
        for (name, identity) in &one.properties {
            for word in [" ", name, "=", &value(identity)] {
                text += word;
            }
        }
    }
    text
}

/// RFC 8601, section 2.2 `pvalue`: a token, an address, or a quoted string.
fn value(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-^_`{|}~.@".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    let escaped: String = text
        .chars()
        .filter(|character| !character.is_control())
        .flat_map(|character| {
            let escape = matches!(character, '"' | '\\').then_some('\\');
            escape.into_iter().chain([character])
        })
        .collect();
    format!("\"{escaped}\"")
}

fn subject(prefix: &str, present: &[Present<'_>]) -> Option<Edit> {
    let Some(old) = present.iter().find(|field| field.is("Subject")) else {
        return EditedField::new("Subject", prefix)
            .ok()
            .map(Edit::PrependField);
    };
    let old = String::from_utf8_lossy(old.value.trim_ascii());
    if old.starts_with(prefix) {
        return None;
    }
    let field = EditedField::new("Subject", &format!("{prefix} {old}")).ok()?;
    Some(Edit::ReplaceField {
        field,
        occurrence: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Authentication;

    const FACTS: DeliveryFacts<'_> = DeliveryFacts {
        hostname: "gate.example",
        user: Some("anna b"),
    };

    fn marked(settings: &VerdictHeaderSettings, mail: &str, verdict: &Verdict) -> String {
        let mail = Bytes::copy_from_slice(mail.as_bytes());
        let edits = edits(settings, &mail, verdict, FACTS);
        String::from_utf8(edit::apply(&mail, &edits).to_vec()).expect("text")
    }

    fn tagged() -> Verdict {
        let mut verdict = Verdict::new(Action::Tag, "");
        verdict.tags = vec![
            ("X-Spam-Flag".to_owned(), "YES".to_owned()),
            ("X-Odd Name".to_owned(), "left out".to_owned()),
            ("X-Tag".to_owned(), "a\r\nBcc: b\n\n\tc\0".to_owned()),
        ];
        let found = |method, result, properties| Authentication {
            method,
            result,
            properties,
        };
        verdict.authentication = vec![
            found(
                "spf",
                "pass",
                vec![("smtp.mailfrom", "anna@example.org".to_owned())],
            ),
            found("dkim", "none", Vec::new()),
        ];
        verdict
    }

    #[test]
    fn forged_fields_are_replaced() {
        let mail = "X-Spam-Status: No\r\nX-Spam-Prev-Subject: a\r\n\
            Authentication-Results: GATE.example; dkim=pass\r\n\
            Authentication-Results: other.example; dkim=pass\r\nx-tag: z\r\nSubject: y\r\n\r\n\
            z\r\n";
        let settings = VerdictHeaderSettings {
            subject: "[SPAM]".to_owned(),
            ..VerdictHeaderSettings::default()
        };
        let expected = "Authentication-Results: gate.example; auth=pass smtp.auth=\"anna b\"; \
            spf=pass\r\n smtp.mailfrom=anna@example.org; dkim=none\r\nX-Spam-Flag: YES\r\n\
            X-Tag: a  Bcc: b   c\r\nX-Spam-Prev-Subject: a\r\n\
            Authentication-Results: other.example; dkim=pass\r\nSubject: [SPAM] y\r\n\r\nz\r\n";
        assert_eq!(marked(&settings, mail, &tagged()), expected);
    }

    /// Many more fields than a mail has; the test would take minutes if the time grew with the
    /// square of their number.
    #[test]
    fn any_number_of_forged_fields_is_removed() {
        let ours = "Authentication-Results: gate.example; dkim=pass\r\n";
        let others = "Authentication-Results: other.example; dkim=pass\r\n";
        let count = 200_000;
        let mail = [
            &ours.repeat(count),
            &others.repeat(count),
            "Subject: y\r\n\r\n",
        ]
        .concat();
        let settings = VerdictHeaderSettings {
            fields: false,
            ..VerdictHeaderSettings::default()
        };
        let marked = marked(&settings, &mail, &Verdict::accept());
        let expected = others.repeat(count) + "Subject: y\r\n\r\n";
        let added = "Authentication-Results: gate.example; auth=pass smtp.auth=\"anna b\"\r\n";
        assert!(
            marked == added.to_owned() + &expected,
            "{} bytes",
            marked.len()
        );
    }

    #[test]
    fn disabled_headers_leave_the_mail_unchanged() {
        let settings = VerdictHeaderSettings {
            fields: false,
            authentication_results: false,
            subject: String::new(),
        };
        let mail = "X-Spam-Status: No\r\nSubject: y\r\n\r\nz\r\n";
        assert_eq!(marked(&settings, mail, &tagged()), mail);
    }

    #[test]
    fn a_subject_is_prefixed_once_and_added_where_there_is_none() {
        let settings = VerdictHeaderSettings {
            fields: false,
            authentication_results: false,
            subject: "[SPAM]".to_owned(),
        };
        for (mail, expected) in [
            ("Subject: [SPAM] y\r\n\r\n", "Subject: [SPAM] y\r\n\r\n"),
            ("From: a\r\n\r\n", "Subject: [SPAM]\r\nFrom: a\r\n\r\n"),
        ] {
            assert_eq!(marked(&settings, mail, &tagged()), expected);
        }
        let accepted = Verdict::accept();
        assert_eq!(
            marked(&settings, "Subject: y\r\n\r\n", &accepted),
            "Subject: y\r\n\r\n"
        );
    }
}
