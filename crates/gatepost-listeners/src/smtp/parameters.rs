//! The parameters of MAIL and RCPT: SIZE (RFC 1870), BODY (RFC 6152, 3030), SMTPUTF8 (RFC 6531),
//! DSN's RET, ENVID, NOTIFY and ORCPT (RFC 3461), and AUTH (RFC 4954, section 5).

use super::path::Mailbox;
use super::replies::{BAD_PARAMETER, UNKNOWN_PARAMETER};
use super::reply::SmtpReply;
use crate::forward::BodyEncoding;

/// `MAIL FROM`, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MailCommand {
    /// `None` for the null reverse path of bounces.
    pub(super) from: Option<Mailbox>,
    /// The size that the client announces, in bytes.
    pub(super) size: Option<u64>,
    /// The addresses or the head may hold UTF-8.
    pub(super) utf8: bool,
    pub(super) body: BodyEncoding,
    /// RET and ENVID, as written: they are passed to the next hop.
    pub(super) dsn: Vec<String>,
}

/// RFC 3461, section 4.4 and section 4.2: longer ones are not identifiers.
const ENVID_BYTES_MAX: usize = 100;
const ORCPT_BYTES_MAX: usize = 500;

/// The parameters after the sender, each at most once (RFC 3461, section 4).
pub(super) fn of_mail(from: Option<Mailbox>, text: &str) -> Result<MailCommand, SmtpReply> {
    let mut command = MailCommand {
        from,
        ..MailCommand::default()
    };
    let mut seen = Vec::new();
    for (name, value) in pairs(text) {
        if seen.contains(&name) {
            return Err(BAD_PARAMETER);
        }
        match (name.as_str(), value) {
            ("SIZE", Some(text)) => command.size = Some(size(text)?),
            ("BODY", Some(body)) => command.body = body_of(body)?,
            ("SMTPUTF8", None) => command.utf8 = true,
            ("RET", Some(part))
                if ["FULL", "HDRS"]
                    .iter()
                    .any(|it| it.eq_ignore_ascii_case(part)) =>
            {
                command.dsn.push(format!("RET={part}"));
            }
            ("ENVID", Some(id)) if is_xtext(id) && id.len() <= ENVID_BYTES_MAX => {
                command.dsn.push(format!("ENVID={id}"));
            }
            // The original submitter: ignored, as section 5 allows.
            ("AUTH", Some(user)) if is_xtext(user) => {}
            ("SIZE" | "BODY" | "SMTPUTF8" | "RET" | "ENVID" | "AUTH", _) => {
                return Err(BAD_PARAMETER);
            }
            _ => return Err(UNKNOWN_PARAMETER),
        }
        seen.push(name);
    }
    Ok(command)
}

/// The parameters after a recipient, each at most once (RFC 3461, section 4).
pub(super) fn of_rcpt(text: &str) -> Result<Vec<String>, SmtpReply> {
    let mut dsn = Vec::new();
    let mut seen = Vec::new();
    for (name, value) in pairs(text) {
        if seen.contains(&name) {
            return Err(BAD_PARAMETER);
        }
        match (name.as_str(), value) {
            ("NOTIFY", Some(conditions)) if are_conditions(conditions) => {
                dsn.push(format!("NOTIFY={conditions}"));
            }
            ("ORCPT", Some(original)) if is_original(original) => {
                dsn.push(format!("ORCPT={original}"));
            }
            ("NOTIFY" | "ORCPT", _) => return Err(BAD_PARAMETER),
            _ => return Err(UNKNOWN_PARAMETER),
        }
        seen.push(name);
    }
    Ok(dsn)
}

/// RFC 1870, section 4: up to 20 digits. A number of more than 64 bits is too large in any case.
pub(super) fn size(text: &str) -> Result<u64, SmtpReply> {
    let is_number = (1..=20).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number {
        return Err(BAD_PARAMETER);
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

fn body_of(text: &str) -> Result<BodyEncoding, SmtpReply> {
    match text.to_ascii_uppercase().as_str() {
        "7BIT" => Ok(BodyEncoding::SevenBit),
        "8BITMIME" => Ok(BodyEncoding::EightBit),
        "BINARYMIME" => Ok(BodyEncoding::Binary),
        _ => Err(BAD_PARAMETER),
    }
}

/// RFC 3461, section 4.1: NEVER alone, or a list of the others, each of them once.
fn are_conditions(text: &str) -> bool {
    let conditions = ["SUCCESS", "FAILURE", "DELAY"];
    let mut seen = [false; 3];
    let mut is_new = |word: &str| {
        let found = conditions
            .iter()
            .position(|it| it.eq_ignore_ascii_case(word));
        let seen = found.and_then(|place| seen.get_mut(place));
        seen.is_some_and(|seen| !std::mem::replace(seen, true))
    };
    text.eq_ignore_ascii_case("NEVER") || text.split(',').all(&mut is_new)
}

/// RFC 3461, section 4.2: an address type and the address as xtext.
fn is_original(text: &str) -> bool {
    let Some((kind, address)) = text.split_once(';') else {
        return false;
    };
    let is_atom = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_kind = !kind.is_empty() && kind.bytes().all(is_atom);
    let is_utf8 = kind.eq_ignore_ascii_case("utf-8");
    is_kind && text.len() <= ORCPT_BYTES_MAX && (is_utf8 || is_xtext(address))
}

/// RFC 3461, section 4: printable characters; `+` only before two hexadecimal digits.
fn is_xtext(text: &str) -> bool {
    let mut pieces = text.split('+');
    let is_plain = |text: &str| text.bytes().all(|it| it.is_ascii_graphic() && it != b'=');
    let first = pieces.next().unwrap_or_default();
    let is_escaped = |piece: &str| {
        let digits = piece.get(..2).unwrap_or_default();
        digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_hexdigit()) && is_plain(piece)
    };
    !text.is_empty() && is_plain(first) && pieces.all(is_escaped)
}

fn pairs(text: &str) -> impl Iterator<Item = (String, Option<&str>)> {
    text.split(' ')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| match parameter.split_once('=') {
            Some((name, value)) => (name.to_ascii_uppercase(), Some(value)),
            None => (parameter.to_ascii_uppercase(), None),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_mail_are_read() {
        let text = " size=10 BODY=8BITMIME SMTPUTF8 RET=hdrs ENVID=a+2Bb AUTH=<>";
        let command = of_mail(None, text).expect("parameters");
        let expected = MailCommand {
            from: None,
            size: Some(10),
            utf8: true,
            body: BodyEncoding::EightBit,
            dsn: vec!["RET=hdrs".to_owned(), "ENVID=a+2Bb".to_owned()],
        };
        assert_eq!(command, expected);
        let huge = of_mail(None, "SIZE=99999999999999999999").expect("twenty digits");
        assert_eq!(huge.size, Some(u64::MAX));
        for wrong in [
            "SIZE=x",
            "SIZE=+1",
            "SIZE",
            "BODY=9BIT",
            "RET=SOME",
            "ENVID=a+2",
            "ENVID=",
            "SMTPUTF8=1",
            "SIZE=1 size=1",
            "RET=FULL RET=HDRS",
        ] {
            assert_eq!(of_mail(None, wrong), Err(BAD_PARAMETER), "{wrong}");
        }
        assert_eq!(of_mail(None, "COLOR=red"), Err(UNKNOWN_PARAMETER));
    }

    #[test]
    fn parameters_of_recipients_are_read() {
        let both = of_rcpt(" NOTIFY=success,DELAY ORCPT=rfc822;a+2Bb@example.org");
        let expected = ["NOTIFY=success,DELAY", "ORCPT=rfc822;a+2Bb@example.org"];
        assert_eq!(both, Ok(expected.map(str::to_owned).to_vec()));
        for wrong in [
            "NOTIFY=",
            "NOTIFY=NEVER,DELAY",
            "ORCPT=a@b",
            "ORCPT=;a",
            "NOTIFY",
            "NOTIFY=DELAY,delay",
            "NOTIFY=DELAY Notify=SUCCESS",
            "ORCPT=rfc822;a ORCPT=rfc822;b",
        ] {
            assert_eq!(of_rcpt(wrong), Err(BAD_PARAMETER), "{wrong}");
        }
    }
}
