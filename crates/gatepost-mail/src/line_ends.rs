//! The body of a message with normalised line ends, and without the long runs of blank lines that
//! hide the text after them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::ascii::{is_blank, is_space, lines};

/// The most consecutive blank lines that are kept in a body.
const BLANK_LINES_MAX: usize = 20;

/// The body of a message with LF line ends and without long runs of blank lines.
pub(crate) fn normalised_body(body: &[u8], crlf: bool) -> Bytes {
    let unix = if crlf {
        super::ascii::without_carriage_returns(body)
    } else {
        std::borrow::Cow::Borrowed(body)
    };
    let text: &[u8] = &unix;
    if memchr::memmem::find(text, b"\n\n\n\n\n").is_none() && !has_blank_run(text) {
        return match unix {
            std::borrow::Cow::Borrowed(text) => Bytes::copy_from_slice(text),
            std::borrow::Cow::Owned(text) => Bytes::from(text),
        };
    }
    let mut out = Vec::with_capacity(text.len());
    let mut run = BlankRun::after_top();
    for line in lines(text) {
        if is_blank(line) {
            run.push(line);
        } else {
            run.end(&mut out);
            out.extend_from_slice(line);
        }
    }
    run.end(&mut out);
    Bytes::from(out)
}

/// A run of blank lines. Of a long run the first line and the last ones are kept; at the very top,
/// the first two.
struct BlankRun<'a> {
    first_max: usize,
    first: Vec<&'a [u8]>,
    last: VecDeque<&'a [u8]>,
}

impl<'a> BlankRun<'a> {
    fn after_top() -> Self {
        Self {
            first_max: 2,
            first: Vec::new(),
            last: VecDeque::new(),
        }
    }

    fn push(&mut self, line: &'a [u8]) {
        if self.first.len() < self.first_max {
            self.first.push(line);
            return;
        }
        if self.last.len() == BLANK_LINES_MAX - 1 {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Ends the run and begins the next.
    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend(self.first.drain(..).flatten());
        out.extend(self.last.drain(..).flatten());
        self.first_max = 1;
    }
}

/// Whether there are more consecutive blank lines than are kept, where some contain blanks.
fn has_blank_run(text: &[u8]) -> bool {
    let mut run = 0;
    lines(text).any(|line| {
        run = if matches!(line.first(), Some(&byte) if is_space(byte)) && is_blank(line) {
            run + 1
        } else {
            0
        };
        run > BLANK_LINES_MAX
    })
}
