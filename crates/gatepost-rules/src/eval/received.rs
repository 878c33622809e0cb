//! The `Received:` fields as the tests of the HeaderEval plugin read them.

use super::ScannedMail;
use super::pattern;

/// All `Received:` fields with each run of white space replaced by one space.
pub(super) fn received_on_one_line(mail: &ScannedMail<'_>) -> Vec<u8> {
    one_line(&mail.header_text("Received").unwrap_or_default())
}

/// Each run of white space replaced by one space.
pub(super) fn one_line(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for &byte in text {
        let space = byte.is_ascii_whitespace() || byte == 0x0b;
        if !space {
            out.push(byte);
        } else if out.last() != Some(&b' ') {
            out.push(b' ');
        }
    }
    out
}

pattern!(EZMLM, r"^contact \S+@\S+; run by ezmlm$", "m");
pattern!(MAILING_LIST, r"^mailing list \S+@\S+", "m");
pattern!(
    QMAIL_HOP,
    r"qmail \d+ invoked (?:from network|by .{3,20})\); \d+ ... \d+"
);
pattern!(MSN_GROUPS, r"from groups\.msn\.com \(\S+\.msn\.com ");

/// Whether mailing list software removed the older `Received:` fields.
pub(super) fn gated_through_received_remover(mail: &ScannedMail<'_>) -> bool {
    let text = |name: &str| mail.header_text(name);
    if text("Mailing-List").is_some_and(|list| EZMLM.is_match(&list))
        && MAILING_LIST.is_match(&text("Delivered-To").unwrap_or_default())
        && QMAIL_HOP.is_match(&text("Received").unwrap_or_default())
    {
        return true;
    }
    text("Received").is_none_or(|received| MSN_GROUPS.is_match(&received))
}
