//! The separator line before each message of an mbox.

use std::io::{BufRead, Read};

/// The longest line that can be a boundary; longer ones are text.
pub(super) const BOUNDARY_LINE_MAX_BYTES: usize = 512;

/// Whether `line` is an mbox boundary: `From `, a sender, and a date in the format of `ctime` (`Sat
/// Nov 21 04:16:24 2026`), perhaps with a time zone before or after the year.
///
/// The date distinguishes a boundary from a sentence that begins with "From"; most but not all
/// programs that write an mbox quote such sentences.
pub(super) fn is_boundary(line: &[u8]) -> bool {
    const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let Some(rest) = line.strip_prefix(b"From ") else {
        return false;
    };
    if line.len() > BOUNDARY_LINE_MAX_BYTES {
        return false;
    }
    let words: Vec<&[u8]> = rest
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(4).any(|window| {
        let [weekday, month, day, time] = window else {
            return false;
        };
        WEEKDAYS.contains(weekday)
            && MONTHS.contains(month)
            && day.len() <= 2
            && day.iter().all(u8::is_ascii_digit)
            && time.len() >= 4
            && time.contains(&b':')
            && time
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b':')
    })
}

/// Reads one line, its line end included, into `line`, at most `max` bytes of it; returns the
/// number of bytes that the line has in the source, 0 at the end.
pub(super) fn read_line(
    source: &mut impl BufRead,
    line: &mut Vec<u8>,
    max: usize,
) -> std::io::Result<u64> {
    line.clear();
    let mut taken = source.by_ref().take(max as u64).read_until(b'\n', line)? as u64;
    if line.len() == max && line.last() != Some(&b'\n') {
        taken += skip_line(source)?;
    }
    Ok(taken)
}

/// Skips the rest of a line.
fn skip_line(source: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let available = source.fill_buf()?;
        if available.is_empty() {
            return Ok(skipped);
        }
        let (used, ended) = match memchr::memchr(b'\n', available) {
            Some(end) => (end + 1, true),
            None => (available.len(), false),
        };
        source.consume(used);
        skipped += used as u64;
        if ended {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_has_a_date() {
        for line in [
            &b"From a@b.example  Sat Nov 21 04:16:24 2026\n"[..],
            b"From MAILER-DAEMON Fri Jul  8 12:08:34 2011\r\n",
            b"From \"a b\"@c.example Mon Jan 1 1:02 GMT 2001",
        ] {
            assert!(is_boundary(line), "{}", String::from_utf8_lossy(line));
        }
        for line in [
            &b"From now on, Sat Nov 21 is off"[..],
            b"From the bottom of my heart\n",
            b">From a@b.example  Sat Nov 21 04:16:24 2026\n",
            b"From: a@b.example Sat Nov 21 04:16:24 2026\n",
            b"",
        ] {
            assert!(!is_boundary(line), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_line_longer_than_the_limit_is_cut_and_passed() {
        let mut source = &b"abcdefgh\nxy"[..];
        let mut line = Vec::new();
        assert_eq!(read_line(&mut source, &mut line, 3).ok(), Some(9));
        assert_eq!(line, b"abc");
        assert_eq!(read_line(&mut source, &mut line, 3).ok(), Some(2));
        assert_eq!(line, b"xy");
        assert_eq!(read_line(&mut source, &mut line, 3).ok(), Some(0));
    }
}
