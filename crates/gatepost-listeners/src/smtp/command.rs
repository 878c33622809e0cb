//! Commands: one line of the client, read without I/O.

use super::path::{self, Mailbox};
use super::reply::Reply;

/// One command, its syntax checked; whether it fits the state is the session's matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// The client names itself.
    Hello {
        verb: Hello,
        name: String,
    },
    Mail(MailCommand),
    Rcpt {
        to: Mailbox,
    },
    Data,
    Reset,
    Noop,
    Quit,
    Verify,
    Help,
}

/// The word that a client begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hello {
    Helo,
    Ehlo,
    /// LMTP's (RFC 2033 § 4.1).
    Lhlo,
}

/// `MAIL FROM`, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MailCommand {
    /// `None` for the null reverse path of bounces.
    pub(super) from: Option<Mailbox>,
    /// RFC 1870: the size that the client announces, in bytes.
    pub(super) size: Option<u64>,
    /// RFC 6531: the addresses or the head may hold UTF-8.
    pub(super) utf8: bool,
}

const NO_COMMAND: Reply = Reply::new(500, "5.5.1", "no such command");
const NO_TEXT: Reply = Reply::new(500, "5.5.2", "the line is no UTF-8 text");
const NOT_OFFERED: Reply = Reply::new(502, "5.5.1", "not offered here");
const BAD_HELLO: Reply = Reply::new(
    501,
    "5.5.4",
    "write a host name or an address literal: EHLO example.org",
);
const BAD_MAIL: Reply = Reply::new(
    501,
    "5.1.7",
    "write the sender in angle brackets: MAIL FROM:<anna@example.org>",
);
const BAD_RCPT: Reply = Reply::new(
    501,
    "5.1.3",
    "write the recipient in angle brackets: RCPT TO:<name@localhost>",
);
const NO_ARGUMENTS: Reply = Reply::new(501, "5.5.4", "the command takes no arguments");
const BAD_PARAMETER: Reply = Reply::new(501, "5.5.4", "the parameter's value is malformed");
const UNKNOWN_PARAMETER: Reply = Reply::new(555, "5.5.4", "a parameter is not known here");

/// Reads one line, without its CR LF.
pub(super) fn parse(line: &[u8]) -> Result<Command, Reply> {
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
        "EHLO" => hello(Hello::Ehlo, arguments),
        "HELO" => hello(Hello::Helo, arguments),
        "LHLO" => hello(Hello::Lhlo, arguments),
        "MAIL" => mail(arguments),
        "RCPT" => rcpt(arguments),
        "DATA" => bare(Command::Data),
        "RSET" => bare(Command::Reset),
        "QUIT" => bare(Command::Quit),
        "NOOP" => Ok(Command::Noop),
        "VRFY" => Ok(Command::Verify),
        "HELP" => Ok(Command::Help),
        "EXPN" | "ETRN" | "AUTH" | "STARTTLS" | "BDAT" | "TURN" => Err(NOT_OFFERED),
        _ => Err(NO_COMMAND),
    }
}

fn hello(verb: Hello, arguments: &str) -> Result<Command, Reply> {
    // Clients name themselves in many ways; what counts is that it is one printable word.
    let name = arguments.split(' ').next().unwrap_or_default();
    if name.is_empty() || name.len() > 255 {
        return Err(BAD_HELLO);
    }
    Ok(Command::Hello {
        verb,
        name: name.to_owned(),
    })
}

/// Strips `FROM:` or `TO:`; a space behind the colon is common and harmless.
fn after_keyword<'a>(arguments: &'a str, keyword: &str) -> Option<&'a str> {
    let (start, rest) = arguments.split_at_checked(keyword.len())?;
    start
        .eq_ignore_ascii_case(keyword)
        .then(|| rest.trim_start())
}

fn parameters(text: &str) -> impl Iterator<Item = (String, Option<&str>)> {
    text.split(' ')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| match parameter.split_once('=') {
            Some((name, value)) => (name.to_ascii_uppercase(), Some(value)),
            None => (parameter.to_ascii_uppercase(), None),
        })
}

fn mail(arguments: &str) -> Result<Command, Reply> {
    let text = after_keyword(arguments, "FROM:").ok_or(BAD_MAIL)?;
    let (from, rest) = path::parse(text).ok_or(BAD_MAIL)?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(BAD_MAIL);
    }
    let mut command = MailCommand {
        from,
        ..MailCommand::default()
    };
    for (name, value) in parameters(rest) {
        match (name.as_str(), value) {
            ("SIZE", Some(text)) => command.size = Some(size(text)?),
            ("BODY", Some(body))
                if body.eq_ignore_ascii_case("8BITMIME") || body.eq_ignore_ascii_case("7BIT") => {}
            ("SMTPUTF8", None) => command.utf8 = true,
            ("SIZE" | "BODY" | "SMTPUTF8", _) => return Err(BAD_PARAMETER),
            _ => return Err(UNKNOWN_PARAMETER),
        }
    }
    Ok(Command::Mail(command))
}

/// RFC 1870 § 4: up to 20 digits. More than 64 bits is as much too large as 64 bits are.
fn size(text: &str) -> Result<u64, Reply> {
    let is_number = (1..=20).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number {
        return Err(BAD_PARAMETER);
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

fn rcpt(arguments: &str) -> Result<Command, Reply> {
    let text = after_keyword(arguments, "TO:").ok_or(BAD_RCPT)?;
    let (to, rest) = path::parse(text).ok_or(BAD_RCPT)?;
    let to = to.ok_or(BAD_RCPT)?;
    if parameters(rest).next().is_some() {
        return Err(UNKNOWN_PARAMETER);
    }
    if rest.is_empty() {
        Ok(Command::Rcpt { to })
    } else {
        Err(BAD_RCPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_of_mail_are_read() {
        let command = parse(b"mail from:<a@example.org> size=10 BODY=8BITMIME SMTPUTF8");
        let Ok(Command::Mail(command)) = command else {
            panic!("{command:?}")
        };
        assert_eq!(command.size, Some(10));
        assert!(command.utf8);
        let Ok(Command::Mail(command)) = parse(b"MAIL FROM:<a@b.c> SIZE=99999999999999999999")
        else {
            panic!("twenty digits are a size")
        };
        assert_eq!(command.size, Some(u64::MAX));
        assert_eq!(parse(b"MAIL FROM:<a@b.c> SIZE=x"), Err(BAD_PARAMETER));
        assert_eq!(parse(b"MAIL FROM:<a@b.c> SIZE=+1"), Err(BAD_PARAMETER));
        assert_eq!(
            parse(b"MAIL FROM:<a@b.c> BODY=BINARYMIME"),
            Err(BAD_PARAMETER)
        );
        assert_eq!(parse(b"MAIL FROM:<a@b.c>SIZE=1"), Err(BAD_MAIL));
        assert_eq!(parse(b"RCPT TO:<>"), Err(BAD_RCPT));
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
