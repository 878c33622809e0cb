//! The command line, parsed by hand: a parser crate would take longer to start than the call takes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::connection::ServerAddress;
use crate::exit_code::{ExitMode, OnFailure, XmailOptions};

/// The port of the call listener, as in the original Scope Engine.
const DEFAULT_PORT: u16 = 7887;
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// The task that the command line asks for.
#[derive(Debug)]
pub(crate) enum CallTask {
    Help,
    Version,
    Call(CallOptions),
    /// Serve OpenSMTPD, a call for each message.
    Filter(CallOptions),
}

/// One call.
#[derive(Debug)]
pub(crate) struct CallOptions {
    pub(crate) server: ServerAddress,
    pub(crate) exit: ExitMode,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) timeout: Duration,
    pub(crate) xmail: XmailOptions,
    pub(crate) quiet: bool,
    /// The path, which begins with a slash.
    pub(crate) procedure: String,
    pub(crate) file: Option<PathBuf>,
    /// Key without its dash, and value; neither contains a control character.
    pub(crate) pairs: Vec<(String, Vec<u8>)>,
}

/// An error in the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArgumentError(String);

impl fmt::Display for ArgumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn mistake<T>(text: impl Into<String>) -> Result<T, ArgumentError> {
    Err(ArgumentError(text.into()))
}

impl CallOptions {
    /// Parses the arguments after the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<CallTask, ArgumentError> {
        let mut words = words;
        let mut host = None;
        let mut port = DEFAULT_PORT;
        let mut arguments = Self {
            server: ServerAddress::Tcp(String::new()),
            exit: ExitMode::Plain,
            on_failure: None,
            timeout: DEFAULT_TIMEOUT,
            xmail: XmailOptions::default(),
            quiet: false,
            procedure: String::new(),
            file: None,
            pairs: Vec::new(),
        };
        let mut server = None;
        let mut is_filter = false;
        loop {
            let Some(word) = words.next() else {
                return mistake("no procedure is named");
            };
            let word = text(&word)?.to_owned();
            match word.as_str() {
                "--help" | "-h" => return Ok(CallTask::Help),
                "--version" | "-V" => return Ok(CallTask::Version),
                "--stop" => arguments.xmail.stop = true,
                "--silent" => arguments.xmail.silent = true,
                "--quiet" => arguments.quiet = true,
                "--opensmtpd" => is_filter = true,
                procedure if procedure.starts_with('/') => {
                    if procedure.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                        return mistake("a procedure's path has no spaces");
                    }
                    arguments.procedure = word;
                    break;
                }
                option if option.starts_with('-') => {
                    let (option, value) = option_and_value(&word, &mut words)?;
                    match option {
                        "--server" => server = Some(value.parse().map_err(ArgumentError)?),
                        "-s" => host = Some(value),
                        "-p" => port = number(&value)?,
                        "--exit" => arguments.exit = exit_mode(&value)?,
                        "--on-failure" => arguments.on_failure = Some(on_failure(&value)?),
                        "--timeout" => arguments.timeout = period(&value)?,
                        _ => return mistake(format!("unknown option {option}")),
                    }
                }
                _ => {
                    return mistake(format!(
                        "a procedure begins with a slash: /{word}, not {word}"
                    ));
                }
            }
        }
        let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
        arguments.server = server.unwrap_or_else(|| ServerAddress::Tcp(format!("{host}:{port}")));
        arguments.read_pairs(words)?;
        match (is_filter, &arguments.file) {
            (false, _) => Ok(CallTask::Call(arguments)),
            (true, None) => Ok(CallTask::Filter(arguments)),
            (true, Some(_)) => mistake(
                "with --opensmtpd no FILE is named: smtpd passes messages on standard \
                    input",
            ),
        }
    }

    /// Parses the arguments after the procedure: a file, and keys with values.
    fn read_pairs(
        &mut self,
        mut words: impl Iterator<Item = OsString>,
    ) -> Result<(), ArgumentError> {
        while let Some(word) = words.next() {
            let key = match word.to_str().and_then(|word| word.strip_prefix('-')) {
                Some(key) if !key.is_empty() => key,
                _ => {
                    self.set_file(PathBuf::from(word))?;
                    continue;
                }
            };
            if !key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
            {
                return mistake(format!("-{key} is not a key; letters, digits, _ and - are"));
            }
            let Some(value) = words.next() else {
                return mistake(format!("-{key} has no value"));
            };
            if key == "file" {
                self.set_file(PathBuf::from(value))?;
            } else if value.as_bytes().iter().any(u8::is_ascii_control) {
                return mistake(format!("the value of -{key} has control characters"));
            } else {
                self.pairs.push((key.to_owned(), value.as_bytes().to_vec()));
            }
        }
        Ok(())
    }

    fn set_file(&mut self, path: PathBuf) -> Result<(), ArgumentError> {
        match self.file.replace(path) {
            None => Ok(()),
            Some(first) => mistake(format!(
                "two files are named; the first is {}",
                first.display()
            )),
        }
    }
}

fn text(word: &OsStr) -> Result<&str, ArgumentError> {
    word.to_str()
        .map_or_else(|| mistake("an option is not UTF-8"), Ok)
}

/// `--option=value` or `--option value`.
fn option_and_value<'word>(
    word: &'word str,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<(&'word str, String), ArgumentError> {
    if let Some((option, value)) = word.split_once('=') {
        return Ok((option, value.to_owned()));
    }
    match words.next() {
        Some(value) => Ok((word, text(&value)?.to_owned())),
        None => mistake(format!("{word} has no value")),
    }
}

fn number(value: &str) -> Result<u16, ArgumentError> {
    value
        .parse()
        .or_else(|_| mistake(format!("{value} is not a port")))
}

fn exit_mode(value: &str) -> Result<ExitMode, ArgumentError> {
    Ok(match value {
        "plain" => ExitMode::Plain,
        "xmail-offline" => ExitMode::XmailOffline,
        "xmail-smtp" => ExitMode::XmailSmtp,
        "sysexits" => ExitMode::Sysexits,
        _ => return mistake("--exit is plain, xmail-offline, xmail-smtp or sysexits"),
    })
}

fn on_failure(value: &str) -> Result<OnFailure, ArgumentError> {
    Ok(match value {
        "accept" => OnFailure::Accept,
        "reject" => OnFailure::Reject,
        "defer" => OnFailure::Defer,
        _ => return mistake("--on-failure is accept, reject or defer"),
    })
}

/// `500ms`, `30s`, `2m`; more than zero, and at most a day.
fn period(value: &str) -> Result<Duration, ArgumentError> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = value.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => 0,
    };
    match count
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(factor))
    {
        Some(ms @ 1..=86_400_000) => Ok(Duration::from_millis(ms)),
        _ => mistake(format!("{value} is not a time; write 500ms, 30s or 2m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<CallTask, ArgumentError> {
        CallOptions::parse(line.split_whitespace().map(OsString::from))
    }

    fn call(line: &str) -> CallOptions {
        match parse(line).expect(line) {
            CallTask::Call(arguments) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_procedure_file_and_pairs() {
        let arguments = call(
            "--server unix:/run/call.sock --exit=xmail-smtp --on-failure reject --timeout 500ms \
             --stop /sizecheck spool/1 -user anna -max -1",
        );
        assert_eq!(
            arguments.server,
            ServerAddress::Unix("/run/call.sock".into())
        );
        assert_eq!(arguments.exit, ExitMode::XmailSmtp);
        assert_eq!(arguments.on_failure, Some(OnFailure::Reject));
        assert_eq!(arguments.timeout, Duration::from_millis(500));
        assert!(arguments.xmail.stop && !arguments.xmail.silent);
        assert_eq!(arguments.procedure, "/sizecheck");
        assert_eq!(arguments.file, Some("spool/1".into()));
        let pairs = [
            ("user".to_owned(), b"anna".to_vec()),
            ("max".to_owned(), b"-1".to_vec()),
        ];
        assert_eq!(arguments.pairs, pairs);
    }

    #[test]
    fn the_old_scope_client_s_form_is_understood() {
        let arguments = call("-s mailhost -p 7000 /signature -file msg -user anna");
        assert_eq!(arguments.server, ServerAddress::Tcp("mailhost:7000".into()));
        assert_eq!(arguments.file, Some("msg".into()));
        assert_eq!(
            call("/noop").server,
            ServerAddress::Tcp("127.0.0.1:7887".into())
        );
        assert_eq!(call("/noop").file, None);
    }

    #[test]
    fn a_filter_takes_arguments_and_no_file() {
        let task = parse("--opensmtpd /mail -site north");
        let Ok(CallTask::Filter(arguments)) = task else {
            panic!("{task:?}");
        };
        assert_eq!(arguments.pairs, [("site".to_owned(), b"north".to_vec())]);
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "",
            "sizecheck",
            "--exit odd /noop",
            "--on-failure maybe /noop",
            "--timeout 0s /noop",
            "--timeout 5 /noop",
            "--timeout 99999999999999999999s /noop",
            "--server nowhere /noop",
            "--server",
            "--odd 1 /noop",
            "-p 70000 /noop",
            "/noop a b",
            "/noop a -file b",
            "/noop -user",
            "/noop -us:er x",
            "--opensmtpd /noop file",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let line_end = ["/noop", "-user", "a\nDONE accept"].map(OsString::from);
        assert!(CallOptions::parse(line_end.into_iter()).is_err());
    }
}
