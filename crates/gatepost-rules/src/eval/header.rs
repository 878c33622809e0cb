//! HeaderEval: header fields, and contradictions between them, that mail programs do not produce.

use std::collections::HashSet;

use gatepost_mail::HeaderSelector;

use super::ScannedMail;
use super::received::{gated_through_received_remover, received_on_one_line};
use super::{Entry, bound, locale, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    // The hit is added when a scan ends early.
    ("check_shortcircuit", |_| plain(|_| false)),
    ("check_for_fake_aol_relay_in_rcvd", |_| {
        plain(fake_aol_relay)
    }),
    ("check_for_faraway_charset_in_headers", |_| {
        plain(faraway_charset)
    }),
    ("check_for_unique_subject_id", |_| plain(|_| false)),
    ("check_illegal_chars", |arguments| {
        let name = arguments.text(0)?;
        let name = if name.ends_with(":raw") {
            name.to_owned()
        } else {
            format!("{name}:raw")
        };
        let (ratio, count) = (arguments.number(1)?, arguments.number(2)?);
        let is_subject = name.eq_ignore_ascii_case("subject:raw");
        let selector = HeaderSelector::parse(&name);
        bound(move |mail| {
            mail.scalar(&selector)
                .is_some_and(|text| has_illegal_characters(&text, is_subject, ratio, count))
        })
    }),
    ("gated_through_received_hdr_remover", |_| {
        plain(gated_through_received_remover)
    }),
    ("check_for_msn_groups_headers", |_| {
        plain(super::forged::is_msn_group)
    }),
    ("check_for_matching_env_and_hdr_from", |_| {
        plain(|mail| {
            let lower = |name: &str| {
                mail.header_text(name)
                    .unwrap_or_default()
                    .to_ascii_lowercase()
            };
            lower("EnvelopeFrom:addr") == lower("From:addr")
        })
    }),
    ("check_for_missing_to_header", |_| {
        plain(|mail| {
            let is_empty = |name: &str| mail.header_text(name).is_none_or(|text| text.is_empty());
            is_empty("To") && is_empty("Apparently-To")
        })
    }),
    ("subject_is_all_caps", |_| plain(subject_is_all_caps)),
    ("check_for_to_in_subject", |arguments| {
        match arguments.text(0)? {
            "address" => plain(address_in_subject),
            "user" => plain(user_in_subject),
            other => Err(format!("{other} is neither address nor user")),
        }
    }),
    ("check_header_count_range", |arguments| {
        let name = arguments.text(0)?.as_bytes().to_vec();
        let (low, high) = (arguments.number(1)?, arguments.number(2)?);
        bound(move |mail| {
            let different: HashSet<&[u8]> = mail
                .head()
                .all(&name)
                .map(gatepost_mail::HeaderField::decoded)
                .collect();
            (low..=high).contains(&(different.len() as f64))
        })
    }),
];

/// Further functions, in a separate list for readability.
pub(super) const OTHER_FUNCTIONS: &[Entry] = &[
    ("check_messageid_not_usable", |_| {
        plain(message_id_not_usable)
    }),
    ("check_unresolved_template", |_| plain(unresolved_template)),
    ("check_ratware_name_id", |_| plain(ratware_name_id)),
    ("check_ratware_envelope_from", |_| {
        plain(ratware_envelope_from)
    }),
    ("check_equal_from_domains", |_| plain(from_domains_differ)),
    ("check_for_forged_gw05_received_headers", |_| {
        plain(forged_gw05)
    }),
];

pattern!(AOL_RELAY, r" rly-[a-z][a-z]\d\d\.", "i");
pattern!(
    AOL_SERVER,
    r"/AOL-\d+\.\d+\.\d+\)|ESMTP id (?:RELAY|MAILRELAY|MAILIN)"
);

fn fake_aol_relay(mail: &ScannedMail<'_>) -> bool {
    let received = received_on_one_line(mail);
    AOL_RELAY.is_match(&received) && !AOL_SERVER.is_match(&received)
}

pattern!(ENCODED_WORD, r"=\?(.+?)\?.\?.*?\?=");

fn faraway_charset(mail: &ScannedMail<'_>) -> bool {
    let locales = &mail.settings().locales;
    !locale::is_any(locales)
        && ["From:raw", "Subject:raw"]
            .iter()
            .flat_map(|name| mail.values_of(name))
            .any(|value| {
                ENCODED_WORD.spans(&value).any(|(start, end)| {
                    let word = value.get(start..end).unwrap_or_default();
                    let charset = ENCODED_WORD.group(word, 1).unwrap_or_default();
                    !locale::is_expected(&String::from_utf8_lossy(charset), locales)
                })
            })
}

fn has_illegal_characters(text: &[u8], is_subject: bool, ratio: f64, count: f64) -> bool {
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0c | 0x0e..=0x1f);
    if text.iter().all(u8::is_ascii_whitespace) {
        return false;
    }
    if !text.is_ascii() && std::str::from_utf8(text).is_ok() && !text.iter().any(is_control) {
        return false;
    }
    let mut illegal = text
        .iter()
        .filter(|byte| is_control(byte) || **byte >= 0x7f)
        .count();
    // One sign for cent, pound or registered trade mark is permitted in a subject.
    if illegal > 0
        && is_subject
        && text
            .iter()
            .filter(|byte| matches!(byte, 0xa2 | 0xa3 | 0xae))
            .count()
            == 1
    {
        illegal -= 1;
    }
    illegal as f64 / text.len() as f64 >= ratio && illegal as f64 >= count
}

pattern!(
    REPLY_MARKS,
    r"^\s*(?:(?:Re|Fwd|Fw|Aw|Antwort|WG|SV|VB|VS|VL):\s*)+",
    "i"
);
pattern!(
    CAPS_CHARSET,
    concat!(
        r"=\?[-_a-z0-9]*(?:koi|jp|jis|euc|gb|big5|isoir|cp1251|windows-1251|georgianps|pt154",
        r"|tis)[-_a-z0-9]*\?",
    ),
    "i"
);

fn subject_is_all_caps(mail: &ScannedMail<'_>) -> bool {
    let Some(subject) = mail.header_text("Subject") else {
        return false;
    };
    let subject = subject.trim_ascii();
    let marks = REPLY_MARKS.spans(subject).next().map_or(0, |(_, end)| end);
    let subject = subject.get(marks..).unwrap_or_default();
    if subject.len() < 10 || !subject.iter().any(u8::is_ascii_whitespace) {
        return false;
    }
    let letters = || subject.iter().filter(|byte| byte.is_ascii_alphabetic());
    letters().count() > 0
        && letters().all(u8::is_ascii_uppercase)
        && !CAPS_CHARSET.is_match(&mail.header_text("Subject:raw").unwrap_or_default())
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The positions of `needle` in `text` as a word of its own, in any case.
fn word_positions(text: &[u8], needle: &[u8]) -> Vec<usize> {
    let (text, needle) = (text.to_ascii_lowercase(), needle.to_ascii_lowercase());
    if needle.is_empty() {
        return Vec::new();
    }
    memchr::memmem::find_iter(&text, &needle).collect()
}

fn address_in_subject(mail: &ScannedMail<'_>) -> bool {
    let (Some(to), Some(subject)) = (mail.header_text("To:addr"), mail.header_text("Subject"))
    else {
        return false;
    };
    word_positions(&subject, &to).into_iter().any(|at| {
        let boundary = |position: usize| {
            is_word(
                position
                    .checked_sub(1)
                    .and_then(|before| subject.get(before)),
            ) != is_word(subject.get(position))
        };
        boundary(at) && boundary(at + to.len())
    })
}

fn user_in_subject(mail: &ScannedMail<'_>) -> bool {
    let (Some(to), Some(subject)) = (mail.header_text("To:addr"), mail.header_text("Subject"))
    else {
        return false;
    };
    let user = to.split(|&byte| byte == b'@').next().unwrap_or_default();
    if user.is_empty() {
        return false;
    }
    let line = subject.strip_suffix(b"\n").unwrap_or(&subject);
    let lower = line.to_ascii_lowercase();
    let user_lower = user.to_ascii_lowercase();
    let after_user = |text: &[u8]| text.starts_with(&user_lower);
    // "re: [word ]user"
    for mark in [&b"re:"[..], b"fw:"] {
        if let Some(rest) = lower.strip_prefix(mark) {
            let rest = rest.trim_ascii_start();
            let word = rest.iter().take_while(|byte| is_word(Some(byte))).count();
            let after_word = rest.get(word..).unwrap_or_default();
            if rest == user_lower
                || word > 0
                    && after_word.first().is_some_and(u8::is_ascii_whitespace)
                    && after_word.trim_ascii_start() == user_lower
            {
                return true;
            }
        }
    }
    // "user, ..." as written; "user"; ", user!"
    let is_mark = |byte: Option<&u8>| byte.is_some_and(|byte| b",:;!?-".contains(byte));
    if let Some(rest) = line.strip_prefix(user) {
        let rest = rest.trim_ascii_start();
        if is_mark(rest.first()) && rest.get(1).is_none_or(u8::is_ascii_whitespace) {
            return true;
        }
    }
    if lower == user_lower {
        return true;
    }
    lower
        .strip_prefix(b",")
        .map(<[u8]>::trim_ascii_start)
        .is_some_and(|rest| {
            after_user(rest) && rest.len() == user.len() + 1 && is_mark(rest.last())
        })
}

pattern!(
    UNSUBSCRIBE,
    r"<mailto:(?:leave-\S+|\S+-unsubscribe)@\S+>$",
    "i"
);

fn message_id_not_usable(mail: &ScannedMail<'_>) -> bool {
    let received = mail.header_text("Received").unwrap_or_default();
    UNSUBSCRIBE.is_match(&mail.header_text("List-Unsubscribe").unwrap_or_default())
        || gated_through_received_remover(mail)
        || memchr::memmem::find(&received, b"/CWT/DCE)").is_some()
        || memchr::memmem::find(&received, b"iPlanet Messaging Server").is_some()
}

pattern!(TEMPLATE, r"%[A-Z][A-Z_-]");
pattern!(
    TEMPLATE_ALLOWED,
    concat!(
        r"^(?:X-VMS-To|X-UIDL|X-Face|To|Cc|From|Subject|References|In-Reply-To|(?:X-|Resent-",
        r"|X-Original-)?Message-Id):",
    ),
    "i"
);

fn unresolved_template(mail: &ScannedMail<'_>) -> bool {
    let lines = mail.head().decoded_lines();
    lines
        .iter()
        .any(|line| TEMPLATE.is_match(line) && !TEMPLATE_ALLOWED.is_match(line))
}

pattern!(RATWARE_ID, r"<[A-Z]{28}\.([^>]+?)>");

fn ratware_name_id(mail: &ScannedMail<'_>) -> bool {
    let id = mail.header_text("MESSAGEID").unwrap_or_default();
    let Some(name) = RATWARE_ID.group(&id, 1) else {
        return false;
    };
    let from = mail.header_text("From").unwrap_or_default();
    let bracketed = [b"<", name, b">"].concat();
    memchr::memmem::find_iter(&from, &bracketed).any(|at| {
        let before = from.get(..at).unwrap_or_default().trim_ascii_end();
        before.strip_suffix(b"\"").is_some_and(|inner| {
            memchr::memrchr(b'"', inner).is_some_and(|open| open + 1 < inner.len())
        })
    })
}

/// Whether the sender is made of the recipient's domain and user.
fn ratware_envelope_from(mail: &ScannedMail<'_>) -> bool {
    let to = mail.header_text("To:addr").unwrap_or_default();
    let from = mail.header_text("EnvelopeFrom:addr").unwrap_or_default();
    let is_rewritten = matches!(
        from.get(..5),
        Some([b's' | b'S', b'r' | b'R', b's' | b'S', digit, b'=' | b'+' | b'-'])
            if digit.is_ascii_digit(),
    );
    let Some(sign) = memchr::memchr(b'@', &to).filter(|&sign| sign > 0) else {
        return false;
    };
    if from.is_empty() || is_rewritten {
        return false;
    }
    let (user, domain) = (
        to.get(..sign).unwrap_or_default(),
        to.get(sign + 1..).unwrap_or_default(),
    );
    let boundaries = &mail.view_settings().boundaries;
    let domain = boundaries.registered(&String::from_utf8_lossy(domain).to_ascii_lowercase());
    if !boundaries.is_valid(&domain) {
        return false;
    }
    word_positions(&from, domain.as_bytes())
        .into_iter()
        .any(|at| {
            let boundary = is_word(at.checked_sub(1).and_then(|before| from.get(before)))
                != is_word(from.get(at));
            let rest = from.get(at + domain.len() + 1..).unwrap_or_default();
            let found = rest
                .get(..user.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(user));
            boundary && found && rest.get(user.len()) == Some(&b'@')
        })
}

/// Whether the second-level domains of `From:` and of the envelope differ.
fn from_domains_differ(mail: &ScannedMail<'_>) -> bool {
    let domain = |name: &str| {
        let address = mail.header_text(name)?;
        let host = address
            .get(memchr::memrchr(b'@', &address)? + 1..)?
            .to_ascii_lowercase();
        let mut labels = host.rsplitn(3, |&byte| byte == b'.');
        let (last, second) = (labels.next()?, labels.next());
        Some(match second {
            Some(second) => [second, b".", last].concat(),
            None => last.to_vec(),
        })
        .filter(|domain| !domain.is_empty())
    };
    match (domain("From:addr"), domain("EnvelopeFrom:addr")) {
        (Some(from), Some(envelope)) => from != envelope,
        _ => false,
    }
}

pattern!(
    GW05,
    concat!(
        r"\nfrom\s(\S+)\sby\s(\S+)\swith\sESMTP;\s+\S\S\S,\s+\d+\s+\S\S\S\s+\d{4}\s+\d\d:\d\d:\d\",
        r"d\s+[-+]*\d{4}\n$",
    ),
    "s"
);

fn forged_gw05(mail: &ScannedMail<'_>) -> bool {
    let received = mail.header_text("Received").unwrap_or_default();
    GW05.group(&received, 2)
        .is_some_and(|by| !by.contains(&b'.'))
}
