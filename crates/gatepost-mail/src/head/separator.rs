//! The separator line before the head of a message in an mbox or MBX file.

use crate::ascii::is_space;

/// Removes the line that separates messages in an mbox or MBX file.
pub(super) fn split_separator(message: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let length = memchr::memchr(b'\n', message).map_or(message.len(), |at| at + 1);
    let Some((line, rest)) = message.split_at_checked(length) else {
        return (None, message);
    };
    if is_mbox(line) || is_mbx(line) {
        (Some(line), rest)
    } else {
        (None, message)
    }
}

fn is_mbox(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From") else {
        return false;
    };
    let blanks = rest.iter().take_while(|&&byte| is_space(byte)).count();
    match blanks {
        0 => false,
        1 => rest.get(1) != Some(&b':'),
        _ => true,
    }
}

/// `12-Mar-2003 10:11:12 +0000,1234;000000000000-00000000`, of the University of Washington.
fn is_mbx(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some((head, flags)) = line
        .len()
        .checked_sub(21)
        .and_then(|at| line.split_at_checked(at))
    else {
        return false;
    };
    let Some(comma) = head.iter().rposition(|&byte| byte == b',') else {
        return false;
    };
    let date: &[u8] = b"99-AAA-9999 99:99:99";
    head.len() > comma + 1
        && head.iter().skip(comma + 1).all(u8::is_ascii_digit)
        && head
            .iter()
            .zip(date)
            .enumerate()
            .all(|(index, (&byte, &class))| match class {
                b'9' => byte.is_ascii_digit() || index == 0 && is_space(byte),
                b'A' => byte.is_ascii_alphabetic(),
                b' ' => is_space(byte),
                class => byte == class,
            })
        && comma >= date.len()
        && flags.first() == Some(&b';')
        && flags.iter().skip(1).take(12).all(u8::is_ascii_hexdigit)
        && flags.get(13) == Some(&b'-')
}
