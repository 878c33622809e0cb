//! Commands: one line of the client, read without I/O.

use super::parameters::{self, MailCommand};
use super::path::{self, Mailbox};
use super::replies::{NO_TEXT, NOT_OFFERED};
use super::reply::SmtpReply;
use super::xclient::ForwardedClient;

/// One command, its syntax checked; the session decides whether the state permits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SmtpCommand {
    /// The client's greeting.
    Hello {
        verb: GreetingVerb,
        name: String,
    },
    Mail(MailCommand),
    Rcpt {
        to: Mailbox,
        /// NOTIFY and ORCPT (RFC 3461), as written.
        parameters: Vec<String>,
    },
    /// BDAT (RFC 3030): this many bytes of the message follow immediately.
    Chunk {
        size: u64,
        last: bool,
    },
    StartTls,
    /// AUTH (RFC 4954), with the initial response, if any.
    Auth {
        mechanism: String,
        initial: Option<String>,
    },
    /// XFORWARD: a trusted peer names its client, for this connection.
    XForward(Box<ForwardedClient>),
    /// XCLIENT: the session starts again as this client's.
    XClient(Box<ForwardedClient>),
    Data,
    Reset,
    Noop,
    Quit,
    Verify,
    Help,
}

/// The verb of a client's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GreetingVerb {
    Helo,
    Ehlo,
    /// LMTP's (RFC 2033, section 4.1).
    Lhlo,
}

const NO_COMMAND: SmtpReply = SmtpReply::new(500, "5.5.1", "no such command");
const NO_QUEUE: SmtpReply = SmtpReply::new(
    502,
    "5.5.1",
    "this server has no queue, so it cannot start one",
);
const BAD_AUTH: SmtpReply = SmtpReply::new(501, "5.5.4", "write a mechanism: AUTH PLAIN");
const BAD_CHUNK: SmtpReply = SmtpReply::new(
    501,
    "5.5.4",
    "write the size of the chunk in bytes: BDAT 1000, or BDAT 1000 LAST",
);
const BAD_HELLO: SmtpReply = SmtpReply::new(
    501,
    "5.5.4",
    "write a host name or an address literal: EHLO example.org",
);
const BAD_MAIL: SmtpReply = SmtpReply::new(
    501,
    "5.1.7",
    "write the sender in angle brackets: MAIL FROM:<anna@example.org>",
);
const BAD_RCPT: SmtpReply = SmtpReply::new(
    501,
    "5.1.3",
    "write the recipient in angle brackets: RCPT TO:<name@localhost>",
);
const NO_ARGUMENTS: SmtpReply = SmtpReply::new(501, "5.5.4", "the command takes no arguments");

/// Reads one line, without its CR LF.
pub(super) fn parse(line: &[u8]) -> Result<SmtpCommand, SmtpReply> {
    let line = std::str::from_utf8(line).map_err(|_| NO_TEXT)?;
    let line = line.trim_end_matches([' ', '\t']);
    if line.contains(|character: char| character.is_control() && character != '\t') {
        return Err(NO_COMMAND);
    }
    let (verb, arguments) = line.split_once(' ').unwrap_or((line, ""));
    let arguments = arguments.trim_start();
    let bare = |command| {
        if arguments.is_empty() {
            Ok(command)
        } else {
            Err(NO_ARGUMENTS)
        }
    };
    match verb.to_ascii_uppercase().as_str() {
        "EHLO" => hello(GreetingVerb::Ehlo, arguments),
        "HELO" => hello(GreetingVerb::Helo, arguments),
        "LHLO" => hello(GreetingVerb::Lhlo, arguments),
        "MAIL" => mail(arguments),
        "RCPT" => rcpt(arguments),
        "DATA" => bare(SmtpCommand::Data),
        "RSET" => bare(SmtpCommand::Reset),
        "QUIT" => bare(SmtpCommand::Quit),
        "NOOP" => Ok(SmtpCommand::Noop),
        "VRFY" => Ok(SmtpCommand::Verify),
        "HELP" => Ok(SmtpCommand::Help),
        "BDAT" => chunk(arguments),
        "XFORWARD" => Ok(SmtpCommand::XForward(Box::new(ForwardedClient::parse(
            arguments,
        )?))),
        "XCLIENT" => Ok(SmtpCommand::XClient(Box::new(ForwardedClient::parse(
            arguments,
        )?))),
        "ETRN" => Err(NO_QUEUE),
        "STARTTLS" => bare(SmtpCommand::StartTls),
        "AUTH" => auth(arguments),
        "EXPN" | "TURN" => Err(NOT_OFFERED),
        _ => Err(NO_COMMAND),
    }
}

fn hello(verb: GreetingVerb, arguments: &str) -> Result<SmtpCommand, SmtpReply> {
    // Client names vary widely, so any printable word is accepted.
    let name = arguments.split(' ').next().unwrap_or_default();
    if name.is_empty() || name.len() > 255 {
        return Err(BAD_HELLO);
    }
    Ok(SmtpCommand::Hello {
        verb,
        name: name.to_owned(),
    })
}

/// Strips `FROM:` or `TO:`; a space after the colon is common and harmless.
fn after_keyword<'a>(arguments: &'a str, keyword: &str) -> Option<&'a str> {
    let (start, rest) = arguments.split_at_checked(keyword.len())?;
    start
        .eq_ignore_ascii_case(keyword)
        .then(|| rest.trim_start())
}

fn mail(arguments: &str) -> Result<SmtpCommand, SmtpReply> {
    let text = after_keyword(arguments, "FROM:").ok_or(BAD_MAIL)?;
    let (from, rest) = path::parse(text).ok_or(BAD_MAIL)?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(BAD_MAIL);
    }
    Ok(SmtpCommand::Mail(parameters::of_mail(from, rest)?))
}

fn rcpt(arguments: &str) -> Result<SmtpCommand, SmtpReply> {
    let text = after_keyword(arguments, "TO:").ok_or(BAD_RCPT)?;
    let (to, rest) = path::parse(text).ok_or(BAD_RCPT)?;
    let to = to.ok_or(BAD_RCPT)?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(BAD_RCPT);
    }
    let parameters = parameters::of_rcpt(rest)?;
    Ok(SmtpCommand::Rcpt { to, parameters })
}

fn auth(arguments: &str) -> Result<SmtpCommand, SmtpReply> {
    let mut words = arguments.split(' ').filter(|word| !word.is_empty());
    let (mechanism, initial) = (words.next(), words.next());
    match (mechanism, words.next()) {
        (Some(mechanism), None) => Ok(SmtpCommand::Auth {
            mechanism: mechanism.to_owned(),
            initial: initial.map(str::to_owned),
        }),
        _ => Err(BAD_AUTH),
    }
}

/// RFC 3030, section 2: the size in decimal, and LAST with the last one.
fn chunk(arguments: &str) -> Result<SmtpCommand, SmtpReply> {
    let (size, mark) = arguments.split_once(' ').unwrap_or((arguments, ""));
    let size = parameters::size(size).map_err(|_| BAD_CHUNK)?;
    let last = match mark.trim_start() {
        "" => false,
        mark if mark.eq_ignore_ascii_case("LAST") => true,
        _ => return Err(BAD_CHUNK),
    };
    Ok(SmtpCommand::Chunk { size, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_stand_behind_a_blank() {
        assert_eq!(parse(b"MAIL FROM:<a@b.c>SIZE=1"), Err(BAD_MAIL));
        assert_eq!(parse(b"RCPT TO:<>"), Err(BAD_RCPT));
        assert_eq!(parse(b"RCPT TO:<a@b.c>NOTIFY=NEVER"), Err(BAD_RCPT));
    }

    #[test]
    fn chunks_have_a_size_and_an_end() {
        let chunk = |size, last| Ok(SmtpCommand::Chunk { size, last });
        assert_eq!(parse(b"BDAT 10"), chunk(10, false));
        assert_eq!(parse(b"bdat 0 last"), chunk(0, true));
        assert_eq!(parse(b"BDAT 99999999999999999999"), chunk(u64::MAX, false));
        for wrong in ["BDAT", "BDAT x", "BDAT -1", "BDAT 1 FIRST", "BDAT LAST"] {
            assert_eq!(parse(wrong.as_bytes()), Err(BAD_CHUNK), "{wrong}");
        }
    }

    #[test]
    fn a_line_with_control_characters_is_no_command() {
        assert_eq!(parse(b"NOOP\r"), Err(NO_COMMAND));
        assert_eq!(parse(b"RSET\0"), Err(NO_COMMAND));
        assert_eq!(parse(b"\xff\xfe"), Err(NO_TEXT));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(reply) = parse(&line) {
                prop_assert!(reply.is_error());
            }
        }
    }
}
