//! Dates of header fields, including malformed ones that occur in practice.

use super::ascii::is_space;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Time zones by name, from RFC 5322, section 4.3 and common practice, as hours and minutes.
const ZONES: [(&str, i64); 49] = [
    ("UT", 0),
    ("UTC", 0),
    ("NDT", -230),
    ("AST", -400),
    ("ADT", -300),
    ("NST", -330),
    ("EST", -500),
    ("EDT", -400),
    ("CST", -600),
    ("CDT", -500),
    ("MST", -700),
    ("MDT", -600),
    ("PST", -800),
    ("PDT", -700),
    ("HST", -1000),
    ("AKST", -900),
    ("AKDT", -800),
    ("HADT", -900),
    ("HAST", -1000),
    ("GMT", 0),
    ("BST", 100),
    ("IST", 100),
    ("WET", 0),
    ("WEST", 100),
    ("CET", 100),
    ("CEST", 200),
    ("EET", 200),
    ("EEST", 300),
    ("MSK", 300),
    ("MSD", 400),
    ("MET", 100),
    ("MEZ", 100),
    ("MEST", 200),
    ("MESZ", 200),
    ("BRST", -200),
    ("BRT", -300),
    ("AEST", 1000),
    ("AEDT", 1100),
    ("ACST", 930),
    ("ACDT", 1030),
    ("AWST", 800),
    ("NZST", 1200),
    ("NZDT", 1300),
    ("JST", 900),
    ("KST", 900),
    ("HKT", 800),
    ("SGT", 800),
    ("PHT", 800),
    ("IDT", 300),
];

/// Years outside this range are rejected.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2037;

/// A date of RFC 5322, or a similar form, in Unix seconds.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text
        .split(|letter: char| letter == ',' || letter.is_ascii() && is_space(letter as u8))
        .filter(|word| !word.is_empty())
        .collect();
    let (day, month, year) = calendar_day(&words)?;
    let (hour, minute, second) = words
        .iter()
        .find_map(|word| clock(word))
        .unwrap_or((0, 0, 0));
    let (hour, minute, second) = (hour.min(23), minute.min(59), second.min(59));
    let (mut day, mut month, mut year) = (day, month, year);
    if day > days_in(year, month) {
        (day, month) = (1, month + 1);
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
    let year = year.clamp(*YEARS.start(), *YEARS.end());
    if day < 1 {
        return None;
    }
    let time = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let zone = zone(&words);
    let offset = (zone.abs() / 100 * 60 + zone.abs() % 100) * 60;
    Some(if zone < 0 {
        time + offset
    } else {
        (time - offset).max(0)
    })
}

fn month_of(word: &str) -> Option<i64> {
    MONTHS
        .iter()
        .position(|month| word.eq_ignore_ascii_case(month))
        .map(|index| index as i64 + 1)
}

fn digits(word: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let fits = lengths.contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| word.parse().ok()).flatten()
}

/// Day, month and year: `7 Mar 2003`, `Mar 7 10:11:12 2003`, `7 Mar 03`.
fn calendar_day(words: &[&str]) -> Option<(i64, i64, i64)> {
    let long = words.windows(3).find_map(|window| match *window {
        [day, month, year] => Some((digits(day, 1..=9)?, month_of(month)?, digits(year, 4..=4)?)),
        _ => None,
    });
    let asctime = || {
        words.windows(4).find_map(|window| match *window {
            [month, day, time, year] => {
                time.matches(':').count().eq(&2).then_some(())?;
                Some((digits(day, 1..=9)?, month_of(month)?, digits(year, 4..=4)?))
            }
            _ => None,
        })
    };
    let short = || {
        words.windows(3).find_map(|window| match *window {
            [day, month, year] => {
                let number = digits(year, 2..=3)?;
                let full = if year.len() == 2 && number < 50 {
                    number + 2000
                } else {
                    number + 1900
                };
                Some((digits(day, 1..=9)?, month_of(month)?, full))
            }
            _ => None,
        })
    };
    long.or_else(asctime).or_else(short)
}

/// `10:11` or `10:11:12`.
fn clock(word: &str) -> Option<(i64, i64, i64)> {
    let mut pieces = word.split(':');
    let hour = digits(pieces.next()?, 1..=2)?;
    let minute = digits(pieces.next()?, 2..=2)?;
    let second = match pieces.next() {
        Some(second) => digits(second, 2..=2)?,
        None => 0,
    };
    pieces.next().is_none().then_some((hour, minute, second))
}

/// The zone: `+0100`, else a name.
fn zone(words: &[&str]) -> i64 {
    let numeric = words.iter().find_map(|word| {
        let (sign, rest) = match word.as_bytes().first()? {
            b'+' => (1, word.get(1..)?),
            b'-' => (-1, word.get(1..)?),
            _ => return None,
        };
        Some(sign * digits(rest, 4..=4)?)
    });
    let named = || {
        words.iter().find_map(|word| {
            let name = word.trim_matches(|letter: char| !letter.is_ascii_alphabetic());
            let is_name =
                (2..=4).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_uppercase());
            is_name.then(|| {
                ZONES
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map_or(0, |&(_, zone)| zone)
            })
        })
    };
    numeric.or_else(named).unwrap_or(0)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap(year)),
        _ => 31,
    }
}

/// Days since 1 January 1970 in the proleptic Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = (1970..year)
        .map(|year| 365 + i64::from(is_leap(year)))
        .sum::<i64>();
    before + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_written() {
        for (text, seconds) in [
            ("Thu, 22 Aug 2002 14:55:10 +0100", 1_030_024_510),
            ("22 Aug 02 13:55:10 GMT", 1_030_024_510),
            ("Thu Aug 22 13:55:10 2002", 1_030_024_510),
            ("31 Feb 2003 00:00 +0000", 1_046_476_800),
            ("1 Jan 1960 00:00:00 -0000", 0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        assert_eq!(parse(b"yesterday"), None);
    }
}
