//! The text of the call protocol, sans I/O.
//!
//! A request is `CALL/1 PATH`, fields `name: value`, and an empty line. The answer is `NEED body`
//! (then exactly `size` bytes must be sent), then `DONE VERDICT`, fields, an empty line; or `FAIL
//! REASON` if the call could not be made.

/// The longest accepted line of an answer: a procedure's text may be one long line, and so may the
/// report of many rules.
const LINE_MAX_BYTES: usize = 1 << 20;

/// The server's action for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerAction {
    Accept,
    Tag,
    Quarantine,
    Drop,
    Reject,
    Defer,
}

impl AnswerAction {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "accept" => Self::Accept,
            "tag" => Self::Tag,
            "quarantine" => Self::Quarantine,
            "drop" => Self::Drop,
            "reject" => Self::Reject,
            "defer" => Self::Defer,
            _ => return None,
        })
    }
}

/// A verdict with its fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VerdictAnswer {
    pub(crate) action: AnswerAction,
    /// One line; empty if no reason was given.
    pub(crate) reason: String,
    /// Header fields to add, each whole: `Name: value`.
    pub(crate) tags: Vec<String>,
    /// The text that the procedure returns with its verdict, line by line.
    pub(crate) text: Vec<String>,
    /// Bytes of the changed message, which follow the answer.
    pub(crate) message_bytes: Option<u64>,
}

impl VerdictAnswer {
    /// The header fields to add to a tagged message.
    pub(crate) fn fields(&self) -> &[String] {
        match self.action {
            AnswerAction::Tag => &self.tags,
            _ => &[],
        }
    }

    /// The reason, or the default text if none was given.
    pub(crate) fn reason_or<'text>(&'text self, otherwise: &'text str) -> &'text str {
        if self.reason.is_empty() {
            otherwise
        } else {
            &self.reason
        }
    }
}

/// The reason why an answer contains no verdict.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// This line is not part of a valid answer.
    NotUnderstood(String),
    /// The server could not make the call, for this reason.
    Failed(String),
}

/// The effect of a line of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerLine {
    /// The answer is not complete yet.
    More,
    /// The server requests the body.
    NeedBody,
    /// The answer is complete.
    Done(VerdictAnswer),
}

/// Parses an answer line by line.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    line: Vec<u8>,
    answer: Option<VerdictAnswer>,
}

impl AnswerReader {
    /// Processes the bytes of one read, up to the first event; returns the event with the number of
    /// bytes processed.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(AnswerLine, usize), NoAnswer> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_MAX_BYTES {
                return Err(NoAnswer::NotUnderstood("a line without end".to_owned()));
            }
            taken += part.len() + usize::from(end.is_some());
            if end.is_some() {
                let event = self.end_of_line()?;
                if event != AnswerLine::More {
                    return Ok((event, taken));
                }
            }
        }
        Ok((AnswerLine::More, taken))
    }

    fn end_of_line(&mut self) -> Result<AnswerLine, NoAnswer> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = String::from_utf8_lossy(line).into_owned();
        self.line.clear();
        let Some(answer) = &mut self.answer else {
            if line == "NEED body" {
                return Ok(AnswerLine::NeedBody);
            }
            if let Some(reason) = line.strip_prefix("FAIL ") {
                return Err(NoAnswer::Failed(reason.to_owned()));
            }
            let action = line.strip_prefix("DONE ").and_then(AnswerAction::named);
            let Some(action) = action else {
                return Err(NoAnswer::NotUnderstood(line));
            };
            self.answer = Some(VerdictAnswer {
                action,
                reason: String::new(),
                tags: Vec::new(),
                text: Vec::new(),
                message_bytes: None,
            });
            return Ok(AnswerLine::More);
        };
        if line.is_empty() {
            return Ok(self
                .answer
                .take()
                .map_or(AnswerLine::More, AnswerLine::Done));
        }
        // Fields of later versions are ignored.
        match line.split_once(": ") {
            Some(("reason", value)) => value.clone_into(&mut answer.reason),
            Some(("tag", value)) if value.contains(':') => answer.tags.push(value.to_owned()),
            Some(("text", value)) => answer.text.push(value.to_owned()),
            Some(("message", value)) => answer.message_bytes = value.parse().ok(),
            _ => {}
        }
        Ok(AnswerLine::More)
    }
}

/// The request's bytes, ready to be sent in one piece.
pub(crate) struct RequestBytes(pub(crate) Vec<u8>);

impl RequestBytes {
    /// Begins a call of a procedure.
    pub(crate) fn new(procedure: &str) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(b"CALL/1 ");
        bytes.extend_from_slice(procedure.as_bytes());
        bytes.push(b'\n');
        Self(bytes)
    }

    /// Adds a field; the value must not contain a line end.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) -> &mut Self {
        debug_assert!(!value.contains(&b'\n'));
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
        self
    }

    /// Ends the request.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'\n');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] =
        b"NEED body\nDONE reject\nscore: 9.1/5.0\nreason: too big\ntag: X-Big: yes\r\ntext: one\n\
          text: \ntext:  two \nnew: 1\n\n";

    #[test]
    fn any_split_of_the_answer_reads_the_same() {
        for split in 0..=TEXT.len() {
            let mut reader = AnswerReader::default();
            let mut events = Vec::new();
            let (first, second) = TEXT.split_at(split);
            for mut part in [first, second] {
                while !part.is_empty() {
                    let (event, taken) = reader.read(part).expect("an answer");
                    part = &part[taken..];
                    events.push(event);
                }
            }
            events.retain(|event| *event != AnswerLine::More);
            let answer = VerdictAnswer {
                action: AnswerAction::Reject,
                reason: "too big".into(),
                tags: vec!["X-Big: yes".into()],
                text: vec!["one".into(), String::new(), " two ".into()],
                message_bytes: None,
            };
            assert_eq!(
                events,
                [AnswerLine::NeedBody, AnswerLine::Done(answer)],
                "split at {split}"
            );
        }
    }

    #[test]
    fn malformed_answers_are_refused() {
        for text in [
            "\n",
            "DONE perhaps\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "NEED money\n",
        ] {
            assert!(
                AnswerReader::default().read(text.as_bytes()).is_err(),
                "{text:?}"
            );
        }
        let too_long = vec![b'a'; LINE_MAX_BYTES + 1];
        assert!(AnswerReader::default().read(&too_long).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes: Vec<u8>) {
            let mut reader = AnswerReader::default();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                match reader.read(rest) {
                    Ok((_, taken)) => rest = &rest[taken..],
                    Err(_) => break,
                }
            }
        }
    }
}
