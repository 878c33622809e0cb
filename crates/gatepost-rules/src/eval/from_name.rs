//! FromNameSpoof: a display name that is another address.

use super::ScannedMail;
use super::{Entry, bound, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_fromname_spoof", |arguments| {
        let level = arguments
            .optional(0)
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|level| *level <= 2);
        bound(move |mail| {
            let found = find(mail);
            found.address_differs
                && match level.unwrap_or(mail.settings().from_name_check) {
                    0 => true,
                    1 => found.owner_differs,
                    _ => found.domain_differs,
                }
        })
    }),
    ("check_fromname_different", |_| {
        plain(|mail| find(mail).address_differs)
    }),
    ("check_fromname_domain_differ", |_| {
        plain(|mail| find(mail).domain_differs)
    }),
    ("check_fromname_owners_differ", |_| {
        plain(|mail| find(mail).owner_differs)
    }),
    ("check_fromname_contains_email", |_| {
        plain(|mail| find(mail).is_address)
    }),
    ("check_fromname_equals_to", |_| {
        plain(|mail| find(mail).equals_recipient)
    }),
    ("check_fromname_equals_replyto", |_| {
        plain(|mail| find(mail).equals_reply_to)
    }),
];

/// The content of the sender's display name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FromNameFindings {
    is_address: bool,
    address_differs: bool,
    domain_differs: bool,
    owner_differs: bool,
    equals_recipient: bool,
    equals_reply_to: bool,
}

pattern!(
    NAMED_ADDRESS,
    r"\b([\w.!#$%&'*+/=?^_`{|}~-]+@\w[\w-]*\.\w[\w.-]++)\b",
    "i"
);

fn find(mail: &ScannedMail<'_>) -> FromNameFindings {
    *mail
        .findings()
        .from_name
        .get_or_init(|| compare(mail).unwrap_or_default())
}

fn compare(mail: &ScannedMail<'_>) -> Option<FromNameFindings> {
    let lists = &mail.settings();
    let boundaries = &mail.view_settings().boundaries;
    let lower = |name: &str| {
        mail.header_text(name)
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let present = |field: &String| mail.header_text(field).is_some_and(|text| !text.is_empty());
    if lists.from_name_ignored_fields.iter().any(present) {
        return None;
    }
    let domain_of = |address: &[u8]| {
        boundaries
            .of_link(&[b"mailto:", address].concat())
            .map(|(domain, _)| domain)
    };
    let from = lower("From:addr");
    let from_domain = domain_of(&from)?;
    let name = lower("From:name");
    let named = NAMED_ADDRESS.group(&name, 1)?;
    let named_domain = domain_of(named)?;
    let mut found = FromNameFindings {
        is_address: true,
        ..FromNameFindings::default()
    };
    let odd = |text: &[u8]| {
        text.iter()
            .filter(|byte| !byte.is_ascii_lowercase() && !byte.is_ascii_digit())
            .count() as i64
    };
    let extra = name.len() as i64 + odd(&name) - odd(named) - named.len() as i64;
    if extra > lists.from_name_extra_characters {
        return Some(found);
    }
    let owner = |domain: &str| domain.split('.').next().unwrap_or_default().to_owned();
    found.address_differs = named != from;
    found.domain_differs = named_domain != from_domain;
    found.owner_differs = owner(&named_domain) != owner(&from_domain);
    found.equals_reply_to = named == lower("Reply-To:addr");
    found.equals_recipient = mail
        .recipient_addresses()
        .iter()
        .any(|address| address == named);
    Some(found)
}
