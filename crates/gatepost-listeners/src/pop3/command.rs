//! Commands of POP3: one line, read without I/O.

/// One command (RFC 1939, RFC 2449, RFC 2595, RFC 5034).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pop3Command {
    User(String),
    Pass(String),
    Auth {
        mechanism: String,
        initial: Option<String>,
    },
    Capabilities,
    StartTls,
    Stat,
    /// LIST and UIDL, of one message or of all.
    List(Option<usize>),
    Uidl(Option<usize>),
    Retr(usize),
    Top {
        number: usize,
        lines: usize,
    },
    Dele(usize),
    Reset,
    Noop,
    Quit,
}

/// The syntax error of a line, as the client receives it.
pub(super) type Pop3SyntaxError = &'static str;

/// Reads one line, without its line end.
pub(super) fn parse(line: &[u8]) -> Result<Pop3Command, Pop3SyntaxError> {
    let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text")?;
    if line.contains(|character: char| character.is_control()) {
        return Err("no such command");
    }
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    // A password may begin or end with a blank (RFC 1939, section 7, PASS).
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    let command = match verb.to_ascii_uppercase().as_str() {
        "PASS" => return Ok(Pop3Command::Pass(rest.to_owned())),
        "USER" => Pop3Command::User(words.next().ok_or("write a name: USER anna")?.to_owned()),
        "AUTH" => Pop3Command::Auth {
            mechanism: words
                .next()
                .ok_or("write a mechanism: AUTH PLAIN")?
                .to_owned(),
            initial: words.next().map(str::to_owned),
        },
        "CAPA" => Pop3Command::Capabilities,
        "STLS" => Pop3Command::StartTls,
        "STAT" => Pop3Command::Stat,
        "LIST" => Pop3Command::List(words.next().map(number).transpose()?),
        "UIDL" => Pop3Command::Uidl(words.next().map(number).transpose()?),
        "RETR" => Pop3Command::Retr(number(words.next().unwrap_or_default())?),
        "DELE" => Pop3Command::Dele(number(words.next().unwrap_or_default())?),
        "TOP" => Pop3Command::Top {
            number: number(words.next().unwrap_or_default())?,
            lines: number(words.next().unwrap_or_default())?,
        },
        "RSET" => Pop3Command::Reset,
        "NOOP" => Pop3Command::Noop,
        "QUIT" => Pop3Command::Quit,
        _ => return Err("no such command"),
    };
    match words.next() {
        None => Ok(command),
        Some(_) => Err("too many arguments"),
    }
}

fn number(word: &str) -> Result<usize, Pop3SyntaxError> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    match word.parse() {
        Ok(number) if is_number => Ok(number),
        _ => Err("write the number of a message"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_are_read() {
        for (line, expected) in [
            ("user anna", Ok(Pop3Command::User("anna".to_owned()))),
            ("PASS  a b ", Ok(Pop3Command::Pass(" a b ".to_owned()))),
            ("LIST", Ok(Pop3Command::List(None))),
            ("uidl 2", Ok(Pop3Command::Uidl(Some(2)))),
            (
                "TOP 1 0",
                Ok(Pop3Command::Top {
                    number: 1,
                    lines: 0,
                }),
            ),
            ("RETR", Err("write the number of a message")),
            ("RETR +1", Err("write the number of a message")),
            ("TOP 1", Err("write the number of a message")),
            ("STAT 1", Err("too many arguments")),
            ("XTND", Err("no such command")),
            ("", Err("no such command")),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&line).is_ok();
        }
    }
}
