//! What mail is told about its verdict: the fields that procedures ask for (`X-Spam-Status` and
//! its like), `Authentication-Results` (RFC 8601), and a rewritten subject.
//!
//! A listener that hands a mail on asks here which edits it gets, and makes them in its own way:
//! a milter names them to the mail server, forwarding writes them. What came in under
//! our own names is taken away first, since anyone could have written it.

pub(crate) mod head;

use bytes::Bytes;
use gatepost_message::{Action, Edit, Field, Verdict, edit};
use serde::{Deserialize, Serialize};

use head::Field as Present;

/// The fields of this kind are SpamAssassin's, whoever judged.
const SPAM_FIELDS: &str = "X-Spam-";
/// These tell what an earlier judge did to the message, not what it thought.
const KEPT_SPAM_FIELDS: &str = "X-Spam-Prev-";

/// `listeners.NAME.marks`: what mail that is handed on is told about its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkSettings {
    /// Whether the fields that procedures ask for are added, `X-Spam-Status` and its like.
    pub fields: bool,
    /// Whether `Authentication-Results` is added: who logged in, and what the rules found of SPF
    /// and DKIM.
    pub authentication_results: bool,
    /// What stands in front of the subject of tagged mail, such as `"[SPAM]"`; empty leaves
    /// subjects alone.
    pub subject: String,
}

impl Default for MarkSettings {
    fn default() -> Self {
        Self {
            fields: true,
            authentication_results: true,
            subject: String::new(),
        }
    }
}

/// What is known of a mail beside its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Our name, the "authentication service identifier".
    pub(crate) hostname: &'a str,
    /// Who logged in to send it.
    pub(crate) user: Option<&'a str>,
}

/// What procedures change of a mail, and then the marks.
pub(crate) fn edits(
    settings: &MarkSettings,
    mail: &Bytes,
    verdict: &Verdict,
    known: Known<'_>,
) -> Vec<Edit> {
    let mut edits = verdict.edits.clone();
    let edited = edit::apply(mail, &edits);
    edits.extend(marks(settings, &head::fields(&edited), verdict, known));
    edits
}

fn marks(
    settings: &MarkSettings,
    present: &[Present<'_>],
    verdict: &Verdict,
    known: Known<'_>,
) -> Vec<Edit> {
    let tags: Vec<_> = verdict.tags.iter().filter_map(field).collect();
    let with_tags = settings.fields && !tags.is_empty();
    let mut edits = remove(present, |field| {
        let replaced = tags.iter().any(|tag| field.is(tag.name()));
        (with_tags && (replaced || is_spam_field(field)))
            || (settings.authentication_results && is_our_result(field, known))
    });
    if !settings.subject.is_empty() && verdict.action == Action::Tag {
        edits.extend(subject(&settings.subject, present));
    }
    // Each is put before the last one: what is to stand topmost comes at the end.
    if settings.fields {
        edits.extend(tags.into_iter().rev().map(Edit::PrependField));
    }
    if settings.authentication_results {
        let results = authentication_results(verdict, known);
        let field = Field::new("Authentication-Results", &results);
        edits.extend(field.ok().map(Edit::PrependField));
    }
    edits
}

/// A procedure may ask for anything, a head takes names only.
fn field((name, value): &(String, String)) -> Option<Field> {
    Field::new(name, value).ok()
}

/// Takes away what `unwanted` says; the last first, so that the numbers of those before stay.
fn remove(present: &[Present<'_>], unwanted: impl Fn(&Present<'_>) -> bool) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (place, field) in present.iter().enumerate().rev() {
        if !unwanted(field) {
            continue;
        }
        let name = String::from_utf8_lossy(field.name).into_owned();
        let before = present.get(..place).unwrap_or_default();
        let occurrence = before.iter().filter(|other| other.is(&name)).count() as u32 + 1;
        edits.push(Edit::RemoveField { name, occurrence });
    }
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

/// RFC 8601 § 5: a field that claims to be ours and came from outside is removed.
fn is_our_result(field: &Present<'_>, known: Known<'_>) -> bool {
    let text = String::from_utf8_lossy(field.value);
    let service = text.trim_start().split([';', ' ', '\t', '\r', '\n']).next();
    field.is("Authentication-Results")
        && service.is_some_and(|service| service.eq_ignore_ascii_case(known.hostname))
}

/// RFC 8601 § 2.2: our name, then what each method gave.
fn authentication_results(verdict: &Verdict, known: Known<'_>) -> String {
    let mut text = known.hostname.to_owned();
    if known.user.is_none() && verdict.authentication.is_empty() {
        return text + "; none";
    }
    if let Some(user) = known.user {
        text += "; auth=pass smtp.auth=";
        text += &value(user);
    }
    for one in &verdict.authentication {
        for word in ["; ", one.method, "=", one.result] {
            text += word;
        }
        for (name, of_whom) in &one.properties {
            for word in [" ", name, "=", &value(of_whom)] {
                text += word;
            }
        }
    }
    text
}

/// RFC 8601 § 2.2 `pvalue`: a token, an address, or a quoted string.
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

fn subject(mark: &str, present: &[Present<'_>]) -> Option<Edit> {
    let Some(old) = present.iter().find(|field| field.is("Subject")) else {
        return Field::new("Subject", mark).ok().map(Edit::PrependField);
    };
    let old = String::from_utf8_lossy(old.value.trim_ascii());
    if old.starts_with(mark) {
        return None;
    }
    let field = Field::new("Subject", &format!("{mark} {old}")).ok()?;
    Some(Edit::ReplaceField {
        field,
        occurrence: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Authentication;

    const KNOWN: Known<'_> = Known {
        hostname: "gate.example",
        user: Some("anna b"),
    };

    fn marked(settings: &MarkSettings, mail: &str, verdict: &Verdict) -> String {
        let mail = Bytes::copy_from_slice(mail.as_bytes());
        let edits = edits(settings, &mail, verdict, KNOWN);
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
    fn forged_marks_go_and_ours_come() {
        let mail = "X-Spam-Status: No\r\nX-Spam-Prev-Subject: a\r\n\
            Authentication-Results: GATE.example; dkim=pass\r\n\
            Authentication-Results: other.example; dkim=pass\r\nx-tag: z\r\nSubject: y\r\n\r\nz\r\n";
        let settings = MarkSettings {
            subject: "[SPAM]".to_owned(),
            ..MarkSettings::default()
        };
        let expected = "Authentication-Results: gate.example; auth=pass smtp.auth=\"anna b\"; spf=pass\r\n \
            smtp.mailfrom=anna@example.org; dkim=none\r\nX-Spam-Flag: YES\r\n\
            X-Tag: a  Bcc: b   c\r\nX-Spam-Prev-Subject: a\r\n\
            Authentication-Results: other.example; dkim=pass\r\nSubject: [SPAM] y\r\n\r\nz\r\n";
        assert_eq!(marked(&settings, mail, &tagged()), expected);
    }

    #[test]
    fn what_is_switched_off_leaves_no_trace() {
        let settings = MarkSettings {
            fields: false,
            authentication_results: false,
            subject: String::new(),
        };
        let mail = "X-Spam-Status: No\r\nSubject: y\r\n\r\nz\r\n";
        assert_eq!(marked(&settings, mail, &tagged()), mail);
    }

    #[test]
    fn a_subject_is_marked_once_and_made_where_there_is_none() {
        let settings = MarkSettings {
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
