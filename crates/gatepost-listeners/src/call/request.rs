//! Requests, without I/O.
//!
//! | field | what |
//! |---|---|
//! | `size` | bytes of the message; 0 if there is none |
//! | `sender` | the reverse path, without angle brackets |
//! | `recipient` | a forward path; may repeat |
//! | `user` | the authenticated user who sent the message |
//! | `client` | the name that the sending host gave for itself |
//! | `address` | the IP address of the sending host |
//! | `want` | `message`: return a changed message; `close`: close after the answer; may repeat |
//! | `arg-NAME` | an argument for the procedure; may repeat |

use std::net::IpAddr;

use bytes::{Buf, BytesMut};
use gatepost_procedures::ProcedureArguments;

const START: &str = "CALL/1 ";

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The path of a procedure or scope.
    pub procedure: String,
    /// Bytes of the message.
    pub size: u64,
    /// The origin of the message.
    pub envelope: SenderFacts,
    /// For the procedure.
    pub arguments: ProcedureArguments,
    /// Whether the caller wants a changed message returned.
    pub wants_message: bool,
    /// Whether this is the connection's last call.
    pub closes: bool,
}

/// The origin of a message, as the caller described it.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the fields'
pub struct SenderFacts {
    pub sender: Option<String>,
    pub recipients: Vec<String>,
    pub user: Option<String>,
    pub client: Option<String>,
    pub address: Option<IpAddr>,
}

/// The reason why a request cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // their messages say enough
pub enum RequestError {
    #[error("the request has more than {0} bytes before its empty line")]
    TooLong(usize),
    #[error("a request is UTF-8 text")]
    NotText,
    #[error("a request begins with CALL/1 and the path of a procedure, as in CALL/1 /sizecheck")]
    Start,
    #[error("'{0}' is not a field; write name: value, and an empty line at the end")]
    NoField(String),
    #[error("there is no field named '{0}'")]
    UnknownField(String),
    #[error("size is a number of bytes")]
    Size,
    #[error("address is an IP address")]
    Address,
}

/// Takes requests from the front of the input.
#[derive(Debug)]
pub struct RequestReader {
    head_bytes_max: usize,
    /// Bytes of the input in which there is no end.
    searched: usize,
}

impl RequestReader {
    /// A reader of requests with at most this many bytes.
    pub const fn new(head_bytes_max: usize) -> Self {
        Self {
            head_bytes_max,
            searched: 0,
        }
    }

    /// The next request, or `None` if its end has not arrived. After an error the start of the next
    /// request is unknown.
    pub fn take(&mut self, input: &mut BytesMut) -> Result<Option<CallRequest>, RequestError> {
        let Some(end) = self.end_of_head(input) else {
            // A first line that is not a request need not wait for an end.
            let start = input.get(..START.len()).unwrap_or(input);
            if !START.as_bytes().starts_with(start) {
                return Err(RequestError::Start);
            }
            return if input.len() > self.head_bytes_max {
                Err(RequestError::TooLong(self.head_bytes_max))
            } else {
                Ok(None)
            };
        };
        self.searched = 0;
        if end > self.head_bytes_max {
            return Err(RequestError::TooLong(self.head_bytes_max));
        }
        let head = input.get(..end).unwrap_or_default();
        let request = parse(head)?;
        input.advance(end);
        Ok(Some(request))
    }

    /// The first byte after the empty line.
    fn end_of_head(&mut self, input: &[u8]) -> Option<usize> {
        let unsearched = input.get(self.searched..).unwrap_or_default();
        for offset in memchr::memchr_iter(b'\n', unsearched) {
            let after = self.searched + offset + 1;
            match input.get(after..).unwrap_or_default() {
                [b'\n', ..] => return Some(after + 1),
                [b'\r', b'\n', ..] => return Some(after + 2),
                // The line end may be the first half of the end.
                [] | [b'\r'] => {
                    self.searched = after - 1;
                    return None;
                }
                _ => {}
            }
        }
        self.searched = input.len();
        None
    }
}

fn parse(head: &[u8]) -> Result<CallRequest, RequestError> {
    let head = std::str::from_utf8(head).map_err(|_| RequestError::NotText)?;
    let mut lines = head.lines();
    let procedure = lines
        .next()
        .and_then(|line| line.strip_prefix(START))
        .filter(|path| path.starts_with('/'))
        .ok_or(RequestError::Start)?;
    let mut request = CallRequest {
        procedure: procedure.trim_end().to_owned(),
        size: 0,
        envelope: SenderFacts::default(),
        arguments: ProcedureArguments::none(),
        wants_message: false,
        closes: false,
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| RequestError::NoField(shortened(line)))?;
        field(&mut request, name, value.strip_prefix(' ').unwrap_or(value))?;
    }
    Ok(request)
}

fn field(request: &mut CallRequest, name: &str, value: &str) -> Result<(), RequestError> {
    let envelope = &mut request.envelope;
    match name {
        "size" => request.size = value.parse().map_err(|_| RequestError::Size)?,
        "sender" => envelope.sender = Some(value.to_owned()),
        "recipient" => envelope.recipients.push(value.to_owned()),
        "user" => envelope.user = Some(value.to_owned()),
        "client" => envelope.client = Some(value.to_owned()),
        "address" => envelope.address = Some(value.parse().map_err(|_| RequestError::Address)?),
        "want" if value == "message" => request.wants_message = true,
        "want" if value == "close" => request.closes = true,
        _ => match name.strip_prefix("arg-") {
            Some(argument) => request.arguments.push(argument, value),
            None => return Err(RequestError::UnknownField(shortened(name))),
        },
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<Result<CallRequest, RequestError>> {
        let mut reader = RequestReader::new(200);
        let mut input = BytesMut::new();
        let mut requests = Vec::new();
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                match reader.take(&mut input) {
                    Ok(Some(request)) => requests.push(Ok(request)),
                    Ok(None) => break,
                    Err(error) => {
                        requests.push(Err(error));
                        return requests;
                    }
                }
            }
        }
        requests
    }

    #[test]
    fn any_split_reads_the_same_requests() {
        let text = b"CALL/1 /sizecheck\nsize: 12\nsender: \narg-user: anna\n\n\
                     CALL/1 /noop\r\nrecipient: a@b\r\nrecipient:c@d\r\naddress: ::1\r\n\r\n";
        let whole = read(&[text]);
        let first = whole[0].as_ref().expect("a request");
        assert_eq!((first.procedure.as_str(), first.size), ("/sizecheck", 12));
        assert_eq!(first.envelope.sender.as_deref(), Some(""));
        assert_eq!(first.arguments.get("user"), Some("anna"));
        let second = whole[1].as_ref().expect("a request");
        assert_eq!(second.envelope.recipients, ["a@b", "c@d"]);
        assert_eq!(second.envelope.address, "::1".parse().ok());
        for split in 0..text.len() {
            let (first, second) = text.split_at(split);
            assert_eq!(read(&[first, second]), whole, "split at {split}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let long = format!("CALL/1 /noop\nuser: {}\n\n", "a".repeat(200));
        for (text, error) in [
            ("HELLO\n\n", RequestError::Start),
            ("GET / HTTP/1.1\r\n", RequestError::Start),
            ("CALL/1 noop\n\n", RequestError::Start),
            ("CALL/1 /noop\nsize: large\n\n", RequestError::Size),
            ("CALL/1 /noop\nsize: -1\n\n", RequestError::Size),
            ("CALL/1 /noop\naddress: here\n\n", RequestError::Address),
            (
                "CALL/1 /noop\nhello\n\n",
                RequestError::NoField("hello".into()),
            ),
            (
                "CALL/1 /noop\ncolour: red\n\n",
                RequestError::UnknownField("colour".into()),
            ),
            (&long, RequestError::TooLong(200)),
        ] {
            assert_eq!(read(&[text.as_bytes()]), [Err(error)], "{text}");
        }
        assert_eq!(read(&[b"CALL/1 /\xff\n\n"]), [Err(RequestError::NotText)]);
    }

    proptest! {
        #[test]
        fn no_input_breaks_the_reader(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&[&input]);
        }

        #[test]
        fn no_head_breaks_the_reader(rest in "[a-z:/ \\n\\r]{0,80}") {
            let _ = read(&[b"CALL/1 /", rest.as_bytes()]);
        }
    }
}
