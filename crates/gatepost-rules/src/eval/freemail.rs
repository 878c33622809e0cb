//! FreeMail: senders at domains that offer addresses to the public.

use super::ScannedMail;
use super::{Entry, bound, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_freemail_from", |arguments| {
        let pattern = arguments.optional_pattern(0)?;
        bound(move |mail| {
            mail.sender_addresses().iter().any(|address| {
                is_freemail(mail, address)
                    && pattern
                        .as_ref()
                        .is_none_or(|pattern| pattern.is_match(address))
            })
        })
    }),
    ("check_freemail_header", |arguments| {
        let selector = format!("{}:addr", arguments.text(0)?);
        let pattern = arguments.optional_pattern(1)?;
        bound(move |mail| {
            mail.values_of(&selector)
                .iter()
                .map(|address| address.to_ascii_lowercase())
                .any(|address| {
                    is_freemail(mail, &address)
                        && pattern
                            .as_ref()
                            .is_none_or(|pattern| pattern.is_match(&address))
                })
        })
    }),
    ("check_freemail_body", |arguments| {
        let pattern = arguments.optional_pattern(0)?;
        bound(move |mail| {
            body_freemails(mail).is_some_and(|found| {
                found.iter().any(|address| {
                    pattern
                        .as_ref()
                        .is_none_or(|pattern| pattern.is_match(address))
                })
            })
        })
    }),
    ("check_freemail_replyto", |arguments| {
        match arguments.optional(0) {
            None | Some("replyto") => plain(|mail| reply_differs(mail, false)),
            Some("reply") => plain(|mail| reply_differs(mail, true)),
            Some(other) => Err(format!("{other} is neither replyto nor reply")),
        }
    }),
];

pattern!(
    NO_PERSON,
    concat!(
        r"^(?:abuse|support|sales|info|helpdesk|contact|kontakt|(?:post|host|domain)master",
        r"|undisclosed.*|request-[a-f0-9]{16}|bounced?-|[a-f0-9]{8}(?:\.[a-f0-9]{8}",
        r"|-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12})|.+=.+=.+)@",
    ),
    "i"
);
pattern!(
    BULK_SENDER,
    concat!(
        r"(?:^(?:post|host|domain)master|^double-bounce|^(?:sentto|owner|return|",
        r"(?:gr)?bounced?)-.+|-(?:request|bounces?|admin|owner)|\b(?:do[._-t]?)?no[._-t]?repl(?:y",
        r"|ies)|.+=.+)@",
    ),
    "i"
);

/// Whether an address (lower case) is at a freemail domain and may be a person's.
fn is_freemail(mail: &ScannedMail<'_>, address: &[u8]) -> bool {
    let lists = &mail.settings();
    let text = String::from_utf8_lossy(address);
    let domain = text.rsplit('@').next().unwrap_or_default();
    if address.is_empty()
        || lists.freemail_welcomelist.contains(text.as_ref())
        || lists.freemail_welcomelist.contains(domain)
        || lists.freemail_imports.iter().any(|list| {
            let list = lists.address_list(list);
            list.is_some_and(|list| list.contains(address))
        })
        || NO_PERSON.is_match(address)
    {
        return false;
    }
    lists.freemail_domains.contains(domain) || lists.freemail_globs.contain(address)
}

/// The most addresses of a body that are recorded.
const BODY_ADDRESSES_MAX: usize = 40;
/// The most addresses of links that are recorded.
const LINK_ADDRESSES_MAX: usize = 20;

// The characters of a local part, RFC 5322, section 3.2.3.
pattern!(
    ADDRESS,
    concat!(
        r"(?=.{0,64}@)(?<![a-z0-9!#$%&'*+/=?^_`{|}~-])([a-z0-9!#$%&'*+/=?^_`{|}~-]+",
        r"(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[a-z0-9]",
        r"(?:[a-z0-9-]{0,59}[a-z0-9])?\.){1,4}[a-z0-9-]+(?![a-z0-9-]|\.[a-z0-9]))",
    ),
    "i"
);
pattern!(
    LINK_WITH_ADDRESS,
    r"<?https?://\S{0,255}(?:@|%40)\S{0,255}",
    "i"
);
pattern!(
    AFTER_ADDRESS,
    r"^(?:>|\s{1,10}(?!fa(?:x|csi)|tel|phone|e?-?mail)[a-z]{2,11}:)",
    "i"
);

/// The freemail addresses in the text; `None` if there are too many addresses.
fn body_freemails<'a>(mail: &'a ScannedMail<'_>) -> Option<&'a [Vec<u8>]> {
    mail.findings()
        .freemail
        .get_or_init(|| find_body_freemails(mail))
        .as_deref()
}

fn find_body_freemails(mail: &ScannedMail<'_>) -> Option<Vec<Vec<u8>>> {
    let lists = &mail.settings();
    let mut addresses: Vec<Vec<u8>> = Vec::new();
    let note = |address: Vec<u8>, all: &mut Vec<Vec<u8>>| {
        if !all.contains(&address) {
            all.push(address);
        }
    };
    for uri in &mail.uri_list().details {
        let from_anchor = uri.types.contains(&"a") && !uri.types.contains(&"parsed");
        if from_anchor
            && uri
                .raw
                .get(..7)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"))
            && let Some(address) = addresses_in(mail, uri.raw.get(7..).unwrap_or_default()).next()
            && address.0 == 0
        {
            note(address.2, &mut addresses);
            if addresses.len() >= LINK_ADDRESSES_MAX {
                break;
            }
        }
    }
    for line in mail.body().iter() {
        if memchr::memchr(b'@', line).is_none() {
            continue;
        }
        let line = without_links(line);
        let found = addresses_in(mail, &line).map(|(start, end, _)| (start, end));
        let line = without_quoted(&line, found);
        for (_, _, address) in addresses_in(mail, &line) {
            note(address, &mut addresses);
            if addresses.len() >= BODY_ADDRESSES_MAX {
                break;
            }
        }
        if addresses.len() >= BODY_ADDRESSES_MAX {
            break;
        }
    }
    let mut found = Vec::new();
    for (index, address) in addresses.into_iter().enumerate() {
        if index + 1 == lists.freemail_body_emails_max {
            return None;
        }
        if is_freemail(mail, &address) {
            found.push(address);
            if found.len() == lists.freemail_body_freemails_max {
                return None;
            }
        }
    }
    Some(found)
}

/// The addresses at valid domains in a text: start, end, and text in lower case.
pub(crate) fn addresses_in<'t>(
    mail: &'t ScannedMail<'_>,
    text: &'t [u8],
) -> impl Iterator<Item = (usize, usize, Vec<u8>)> + 't {
    let has_sign = memchr::memchr(b'@', text).is_some();
    let spans = has_sign.then(|| ADDRESS.spans(text)).into_iter().flatten();
    spans.filter_map(|(start, end)| {
        let address = text.get(start..end)?.to_ascii_lowercase();
        let domain =
            String::from_utf8_lossy(address.rsplit(|&byte| byte == b'@').next()?).into_owned();
        mail.view_settings()
            .boundaries
            .is_valid(&domain)
            .then_some((start, end, address))
    })
}

/// Without links that contain addresses.
pub(crate) fn without_links(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    let mut from = 0;
    for (start, end) in LINK_WITH_ADDRESS.spans(line) {
        text.extend_from_slice(line.get(from..start).unwrap_or_default());
        text.push(b' ');
        from = end;
    }
    text.extend_from_slice(line.get(from..).unwrap_or_default());
    text
}

/// Removes addresses, at these positions, that belong to a quotation.
pub(crate) fn without_quoted(
    text: &[u8],
    addresses: impl Iterator<Item = (usize, usize)>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for (start, end) in addresses {
        let before = text.get(..start).unwrap_or_default();
        let after = text.get(end..).unwrap_or_default();
        let bracket = usize::from(before.ends_with(b"<"));
        let is_link = before.ends_with(b"mailto:");
        let Some((_, length)) = AFTER_ADDRESS.spans(after).next() else {
            continue;
        };
        if is_link || start < from {
            continue;
        }
        out.extend_from_slice(text.get(from..start - bracket).unwrap_or_default());
        out.push(b' ');
        from = end + length;
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}

/// Whether replies would go to another freemail address than the sender's, or than one in the text.
/// With `any_reply`, the sender's address is the reply address if there is no other.
fn reply_differs(mail: &ScannedMail<'_>, any_reply: bool) -> bool {
    if mail.settings().freemail_skip_bulk
        && mail
            .envelope_from()
            .is_some_and(|sender| BULK_SENDER.is_match(sender))
    {
        return false;
    }
    let lower = |name: &str| {
        mail.values_of(name)
            .iter()
            .map(|address| address.to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    let (from, reply_to) = (lower("From:addr"), lower("Reply-To:addr"));
    let any_freemail = |all: &[Vec<u8>]| all.iter().any(|address| is_freemail(mail, address));
    let (from_is, reply_is) = (any_freemail(&from), any_freemail(&reply_to));
    if from_is && reply_is && !from.iter().any(|address| reply_to.contains(address)) {
        return true;
    }
    if any_reply {
        if !reply_to.is_empty() && !reply_is || !from_is {
            return false;
        }
    } else if !reply_is {
        return false;
    }
    let answers = if !any_reply || reply_is {
        &reply_to
    } else {
        &from
    };
    body_freemails(mail).is_some_and(|found| {
        found
            .iter()
            .any(|one| answers.iter().any(|answer| answer != one))
    })
}
