//! White space in a `body` view: one line per paragraph, and single blanks.
//!
//! Most text does not change, so it is copied in long stretches, and only bytes that may be white
//! space are examined individually.

/// Collapses white space while text is added: a run with two line feeds or more ends a paragraph,
/// any other becomes one blank.
pub(super) struct Collapser {
    out: Vec<u8>,
    characters: bool,
    run: Run,
    touched: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// White space occurs before its first line feed.
    before: bool,
    feeds: u8,
    /// White space occurs after its last line feed.
    after: bool,
}

impl Collapser {
    /// Appends to a text that does not change; reserves room for `length` more bytes.
    pub(super) fn after(text: &[u8], length: usize, characters: bool) -> Self {
        let mut out = Vec::with_capacity(text.len() + length + 16);
        out.extend_from_slice(text);
        Self {
            out,
            characters,
            run: Run::default(),
            touched: false,
        }
    }

    pub(super) fn is_untouched(&self) -> bool {
        !self.touched
    }

    pub(super) fn push(&mut self, text: &str) {
        let bytes = text.as_bytes();
        self.touched |= !bytes.is_empty();
        let (mut from, mut at) = (0, 0);
        while let Some(ordinary) = bytes.get(at..).map(ordinary_length) {
            at += ordinary;
            let Some(&byte) = bytes.get(at) else { break };
            let length = if byte >= 0x80 && !self.characters {
                0
            } else {
                space_length(bytes, at)
            };
            if length == 0 && byte != 0 {
                at += 1;
                continue;
            }
            if from < at {
                self.end_run();
                self.push_bytes(text.get(from..at).unwrap_or_default());
            }
            if byte == 0 {
                self.end_run();
                self.out.push(b'\n');
                at += 1;
            } else {
                self.run.add(byte);
                at += length;
            }
            from = at;
        }
        if from < bytes.len() {
            self.end_run();
            self.push_bytes(text.get(from..).unwrap_or_default());
        }
    }

    /// Characters become UTF-8; text that was never decoded becomes Latin-1 again.
    fn push_bytes(&mut self, text: &str) {
        if self.characters || text.is_ascii() {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            self.out.extend(
                text.chars()
                    .map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')),
            );
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.feeds >= 2 {
            if run.before {
                self.out.push(b' ');
            }
            self.out.push(b'\n');
            if run.after {
                self.out.push(b' ');
            }
        } else if !run.is_empty() {
            self.out.push(b' ');
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end_run();
        self.out
    }
}

impl Run {
    fn is_empty(self) -> bool {
        !self.before && self.feeds == 0
    }

    fn add(&mut self, byte: u8) {
        match (byte, self.feeds) {
            (b'\n', feeds) => {
                self.feeds = feeds.saturating_add(1);
                self.after = false;
            }
            (_, 0) => self.before = true,
            _ => self.after = true,
        }
    }
}

/// The number of bytes at the start of a text that do not change: bytes that are certainly neither
/// white space nor NUL, and single blanks around them.
fn ordinary_length(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| matches!(byte, b'!'..=0x7f);
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        at += rest
            .iter()
            .position(|byte| !is_plain(byte))
            .unwrap_or(rest.len());
        match bytes.get(at..) {
            Some([b' ', next, ..]) if at > 0 && is_plain(next) => at += 2,
            _ => return at,
        }
    }
}

/// The length of the white space character at `at`; 0 if there is none. These are Unicode's.
fn space_length(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..) {
        Some([b' ' | 0x09..=0x0d, ..]) => 1,
        Some([0xc2, 0x85 | 0xa0, ..]) => 2,
        Some(
            [0xe1, 0x9a, 0x80, ..]
            | [0xe2, 0x81, 0x9f, ..]
            | [0xe3, 0x80, 0x80, ..]
            | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..],
        ) => 3,
        _ => 0,
    }
}
