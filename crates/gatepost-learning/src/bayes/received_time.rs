//! The time at which a message was received, from its own fields.
//!
//! Tokens are recorded as used at this time, so learning an old archive does not make its words
//! look recent. The topmost `Received` field counts, except those that a local fetch program added.

use gatepost_mail::Mail;

/// The time of receipt of `mail`, in seconds since 1970; `None` if no field contains one.
pub(super) fn received_time(mail: &Mail<'_>) -> Option<u32> {
    let head = mail.head();
    let values = |name: &'static [u8]| head.all(name).map(|field| text(field.decoded()));
    let mut received: Vec<String> = values(b"Received").collect();
    let mut local = Vec::new();
    if received.first().is_some_and(|value| is_local(value)) {
        local.push(received.remove(0));
    }
    if received.first().is_some_and(|value| is_fetched(value)) {
        local.push(received.remove(0));
    } else {
        received.splice(0..0, local.drain(..));
    }
    let separator = head.mbox_separator.map(text);
    received
        .first()
        .cloned()
        .into_iter()
        .chain(local)
        .chain(separator)
        .chain(received.get(1..).unwrap_or_default().iter().cloned())
        .chain(values(b"Resent-Date"))
        .chain(values(b"Date"))
        .find_map(|value| parse_date(&value))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a program on the same machine forwarded the message.
fn is_local(received: &str) -> bool {
    if received.contains("qmail ") && received.contains(" invoked by uid ") {
        return true;
    }
    let Some(from) = received.split_once("from ").map(|(_, rest)| rest) else {
        return false;
    };
    from.starts_with("localhost ")
        || from
            .split(' ')
            .skip(1)
            .take(2)
            .any(|word| word.contains("127.0.0.1"))
}

/// Whether fetchmail fetched the message.
fn is_fetched(received: &str) -> bool {
    received.contains("by localhost with ") && received.contains(" (fetchmail-")
}

/// The date in a field, in seconds since 1970, in the format of RFC 5322, section 3.3 or of
/// `ctime`.
fn parse_date(value: &str) -> Option<u32> {
    let words: Vec<&str> = value
        .split([' ', '\t', ',', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    let (day, month, year) = words.windows(4).find_map(date_at).or_else(|| {
        // At the end of a value there may be no fourth word.
        let last = words.len().checked_sub(3)?;
        date_at(words.get(last..)?)
    })?;
    let time = words.iter().find_map(|word| clock(word)).unwrap_or(0);
    let zone = words
        .iter()
        .find_map(|word| zone_seconds(word))
        .unwrap_or(0);
    let seconds = days_since_1970(year, month, day) * 86_400 + time - zone;
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

/// A day, a month from 1 and a year in the first three or four words.
fn date_at(words: &[&str]) -> Option<(i64, i64, i64)> {
    let [first, second, third, rest @ ..] = words else {
        return None;
    };
    if let Some(month) = month_number(second) {
        return Some((number(first, 31)?, month, full_year(third)?));
    }
    let (month, [year, ..]) = (month_number(first)?, rest) else {
        return None;
    };
    clock(third)?;
    Some((number(second, 31)?, month, full_year(year)?))
}

fn month_number(word: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let index = MONTHS
        .iter()
        .position(|month| word.eq_ignore_ascii_case(month))?;
    i64::try_from(index + 1).ok()
}

fn number(word: &str, max: i64) -> Option<i64> {
    word.parse()
        .ok()
        .filter(|number| (0..=max).contains(number))
}

/// A year of two or three digits according to RFC 5322, section 4.3.
fn full_year(word: &str) -> Option<i64> {
    let year = number(word, 9999)?;
    let year = match (word.len(), year) {
        (2, 0..50) => year + 2000,
        (2 | 3, _) => year + 1900,
        _ => year,
    };
    Some(year.clamp(1970, 2037))
}

/// `hh:mm` or `hh:mm:ss` in seconds.
fn clock(word: &str) -> Option<i64> {
    let mut parts = word.split(':');
    let hours: i64 = number(parts.next()?, 99)?;
    let minutes = number(parts.next()?, 99)?;
    let seconds = parts.next().map_or(Some(0), |word| number(word, 99))?;
    Some(hours.min(23) * 3600 + minutes.min(59) * 60 + seconds.min(59))
}

/// The seconds that a zone is ahead of UTC.
fn zone_seconds(word: &str) -> Option<i64> {
    let hours_of_name = match word {
        "UT" | "UTC" | "GMT" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        "BST" | "CET" => 1,
        "CEST" | "EET" => 2,
        "EEST" => 3,
        _ => {
            let (sign, digits) = match word.split_at_checked(1)? {
                ("+", digits) => (1, digits),
                ("-", digits) => (-1, digits),
                _ => return None,
            };
            if digits.len() != 4 {
                return None;
            }
            let digits = number(digits, 9999)?;
            return Some(sign * (digits / 100 * 3600 + digits % 100 * 60));
        }
    };
    Some(hours_of_name * 3600)
}

/// Days from 1 January 1970 in the Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<u32>) {
        let mail = Mail::parse(message.as_bytes());
        assert_eq!(received_time(&mail), expected, "{message}");
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(
            parse_date("Thu, 22 Aug 2002 10:05:00 -0400 (EDT)"),
            Some(1_030_025_100)
        );
        assert_eq!(
            parse_date("From a@b Thu Aug 22 14:05:00 2002"),
            Some(1_030_025_100)
        );
        assert_eq!(parse_date("1 Jan 99 00:00 GMT"), Some(915_148_800));
        assert_eq!(parse_date("tomorrow"), None);
    }

    #[test]
    fn the_topmost_received_field_counts_but_for_local_ones() {
        check(
            "Received: from localhost (localhost [127.0.0.1]) by b; Thu, 22 Aug 2002 12:00:00 \
             +0000\n\
             Received: from m [127.0.0.1] by localhost with IMAP (fetchmail-5.9.0); \
             Thu, 22 Aug 2002 11:00:00 +0000\n\
             Received: from x by y; Thu, 22 Aug 2002 10:00:00 +0000\n\n",
            Some(1_030_010_400),
        );
        check(
            "Date: Thu, 22 Aug 2002 10:00:00 +0000\n\n",
            Some(1_030_010_400),
        );
        check("Subject: x\n\n", None);
    }
}
