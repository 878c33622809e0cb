//! HeaderEval: recipients that are sorted, or resemble each other, as in a list of addresses.

use super::ScannedMail;
use super::{Entry, bound, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("sorted_recipients", |_| {
        plain(|mail| recipients(mail).sorted)
    }),
    ("similar_recipients", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| range.holds(recipients(mail).similarity))
    }),
];

/// The fewest recipients for which the order is meaningful.
const SORTED_COUNT_MIN: usize = 7;
/// The fewest recipients for which similarity is meaningful.
const SIMILAR_COUNT_MIN: usize = 5;
/// The number of letters at the start that are compared.
const SIMILAR_LENGTH: usize = 2;
/// The most recipients that are compared with each other.
const RECIPIENTS_MAX: usize = 256;

/// The similarity and order of the recipients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecipientFindings {
    sorted: bool,
    similarity: f64,
}

fn recipients(mail: &ScannedMail<'_>) -> RecipientFindings {
    *mail
        .findings()
        .recipients
        .get_or_init(|| find_recipients(mail))
}

fn find_recipients(mail: &ScannedMail<'_>) -> RecipientFindings {
    let mut all = mail.values_of("ToCc:addr");
    if all.len() < SIMILAR_COUNT_MIN {
        all.extend(mail.values_of("Bcc:addr"));
    }
    let mut addresses: Vec<&[u8]> = Vec::new();
    for address in &all {
        let previous = addresses.last().copied().unwrap_or_default();
        if !address.eq_ignore_ascii_case(previous) {
            addresses.push(address);
        }
        if addresses.len() == RECIPIENTS_MAX {
            break;
        }
    }
    let start = |text: &[u8]| {
        text.get(..SIMILAR_LENGTH.min(text.len()))
            .unwrap_or_default()
            .to_vec()
    };
    let host = |address: &&[u8]| {
        address
            .split(|&byte| byte == b'@')
            .nth(1)
            .unwrap_or_default()
            .to_vec()
    };
    let hosts: Vec<Vec<u8>> = addresses.iter().map(host).collect();
    let mut findings = RecipientFindings {
        sorted: addresses.len() >= SORTED_COUNT_MIN && addresses.is_sorted(),
        similarity: 0.0,
    };
    if addresses.len() < SIMILAR_COUNT_MIN {
        return findings;
    }
    let pairs: Vec<(Vec<u8>, &Vec<u8>)> = addresses
        .iter()
        .map(|address| start(address))
        .zip(&hosts)
        .collect();
    let (mut hits, mut combinations) = (0_u32, 0_u32);
    for (index, (user, host)) in pairs.iter().enumerate() {
        for (other_user, other_host) in pairs.iter().skip(index + 1) {
            hits += u32::from(user == other_user);
            hits += u32::from(host != other_host && start(host) == start(other_host));
            combinations += 1;
        }
    }
    findings.similarity = f64::from(hits) / f64::from(combinations.max(1));
    findings
}
