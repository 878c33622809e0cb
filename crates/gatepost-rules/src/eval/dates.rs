//! HeaderEval: `Date:` compared with the times of the `Received:` fields.

use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_mail::parse_date;

use super::ScannedMail;
use super::{Entry, bound, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_for_shifted_date", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            let hours = dates(mail).difference_seconds as f64 / 3600.0;
            range.holds(hours)
        })
    }),
    ("received_within_months", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            let age = (now() - dates(mail).received.unwrap_or(0)) as f64;
            range.holds(age / MONTH_SECONDS)
        })
    }),
    ("check_outlook_message_id", |_| plain(forged_outlook_id)),
];

/// A twelfth of the mean Gregorian year, seconds.
const MONTH_SECONDS: f64 = 31_556_952.0 / 12.0;

/// The times in the head, in Unix seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct DateFindings {
    /// `Date:` less the `Received:` time nearest to it; 0 if either is missing.
    difference_seconds: i64,
    /// The most likely time of receipt.
    received: Option<i64>,
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() as i64)
}

fn dates<'a>(mail: &'a ScannedMail<'_>) -> &'a DateFindings {
    mail.findings().dates.get_or_init(|| find_dates(mail))
}

fn find_dates(mail: &ScannedMail<'_>) -> DateFindings {
    let sent = ["Resent-Date", "Date"].iter().find_map(|name| {
        mail.head()
            .all(name.as_bytes())
            .find_map(|field| parse_date(field.decoded()))
    });
    let (received, fetched) = received_times(mail);
    let Some(sent) = sent else {
        return DateFindings {
            difference_seconds: 0,
            received: median(vec![received.first().copied(), fetched]),
        };
    };
    let mut differences: Vec<i64> = received.iter().map(|time| sent - time).collect();
    // The sender's own relay often copies its clock into both.
    if differences.len() > 1 && differences.last() == Some(&0) {
        differences.pop();
    }
    let difference_seconds = differences
        .into_iter()
        .min_by_key(|difference| difference.abs())
        .unwrap_or(0);
    let by_difference = (!received.is_empty()).then_some(sent - difference_seconds);
    let possible = vec![
        Some(sent),
        received.first().copied(),
        fetched,
        by_difference,
    ];
    DateFindings {
        difference_seconds,
        received: median(possible),
    }
}

fn median(times: Vec<Option<i64>>) -> Option<i64> {
    let mut times: Vec<i64> = times.into_iter().flatten().collect();
    times.sort_unstable_by(|one, other| other.cmp(one));
    times.get(times.len().saturating_sub(1) / 2).copied()
}

pattern!(
    LOCAL_HOP,
    r"\bfrom (?:localhost\s|(?:\S+ ){1,2}\S*\b127\.0\.0\.1\b)"
);
pattern!(LOCAL_QMAIL, r"qmail \d+ invoked by uid \d+");
pattern!(FETCHMAIL, r"\bby localhost with \w+ \(fetchmail-[\d.]+");
pattern!(HOP_DATE, r"\s.?\d+ \S\S\S \d+ \d+:\d+:\d+ \S+");

/// The times of the hops, and the latest of those on the machine that fetched the mail.
fn received_times(mail: &ScannedMail<'_>) -> (Vec<i64>, Option<i64>) {
    let fields: Vec<&[u8]> = mail
        .head()
        .all(b"received")
        .map(gatepost_mail::HeaderField::decoded)
        .collect();
    let mut hops: Vec<&[u8]> = fields
        .into_iter()
        .filter(|field| !field.is_empty())
        .collect();
    let mut local = Vec::new();
    if hops
        .first()
        .is_some_and(|hop| LOCAL_HOP.is_match(hop) || LOCAL_QMAIL.is_match(hop))
    {
        local.push(hops.remove(0));
    }
    if hops.first().is_some_and(|hop| FETCHMAIL.is_match(hop)) {
        local.push(hops.remove(0));
    } else if let Some(hop) = local.pop() {
        hops.insert(0, hop);
    }
    let time = |hop: &&[u8]| HOP_DATE.group(hop, 0).and_then(parse_date);
    let fetched = local
        .iter()
        .filter_map(time)
        .filter(|&time| time <= now())
        .max();
    (hops.iter().filter_map(time).collect(), fetched)
}

pattern!(
    OUTLOOK_ID,
    r"^<[0-9a-f]{4}([0-9a-f]{8})\$[0-9a-f]{8}\$[0-9a-f]{8}@"
);

/// Outlook writes the time into the message id, in units of 2^32/10^7 seconds since 1601.
fn forged_outlook_id(mail: &ScannedMail<'_>) -> bool {
    const UNITS_PER_SECOND: f64 = 0.002_328_306_436_538_7;
    const UNITS_BEFORE_1970: f64 = 27_111_902.832_984_9;
    const TOLERANCE: i64 = 250;
    let id = mail.header_text("MESSAGEID").unwrap_or_default();
    let token = OUTLOOK_ID
        .group(&id, 1)
        .and_then(|hex| std::str::from_utf8(hex).ok());
    let Some(token) = token.and_then(|hex| i64::from_str_radix(hex, 16).ok()) else {
        return false;
    };
    let is_off = |time: Option<i64>| {
        let expected = (time.unwrap_or(0) as f64 * UNITS_PER_SECOND + UNITS_BEFORE_1970) as i64;
        (token - expected).abs() >= TOLERANCE
    };
    let date = mail.header_text("Date").unwrap_or_default();
    // The whole field is parsed as a date, as in SpamAssassin.
    let received = mail.header_text("Received").unwrap_or_default();
    is_off(parse_date(&date)) && is_off(parse_date(&received))
}
