//! A message as the rules see it.
//!
//! SpamAssassin's rules never look at the bytes of a message but at *views* of them: decoded header
//! fields, rendered text, decoded bodies, links, relays. [`Mail`] makes each view on first use and
//! keeps it, so that a rule set which never asks for one never pays for it.
//!
//! Invariants:
//! - No input is refused: whatever the bytes, every view exists, and nothing here panics.
//! - Every view is bounded by the size of the message times a small constant; the limits that say
//!   so are named beside what they bound.
//! - Views are byte strings: UTF-8 where a character set was declared and known, otherwise the
//!   bytes as they came, exactly as SpamAssassin hands them to its patterns.

mod configuration;
mod lines;
mod selector;

pub use configuration::{Configuration, Directive};
pub use lines::Lines;
pub use selector::HeaderSelector;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::LazyLock;

static DEFAULT_CONFIGURATION: LazyLock<Configuration> = LazyLock::new(Configuration::default);

/// One message and its views.
///
/// Borrows the message. Not `Sync`: one judge thread reads one message.
pub struct Mail<'a> {
    full: &'a [u8],
    configuration: &'a Configuration,
    body: OnceCell<Lines>,
    rawbody: OnceCell<Lines>,
    uris: OnceCell<Lines>,
}

impl<'a> Mail<'a> {
    /// The views of `message` under the default configuration.
    pub fn parse(message: &'a [u8]) -> Self {
        Self::parse_with(message, &DEFAULT_CONFIGURATION)
    }

    /// The views of `message` under `configuration`: its networks decide which relays are trusted,
    /// its registrar boundaries which words are links.
    pub fn parse_with(message: &'a [u8], configuration: &'a Configuration) -> Self {
        Self {
            full: message,
            configuration,
            body: OnceCell::new(),
            rawbody: OnceCell::new(),
            uris: OnceCell::new(),
        }
    }

    /// The configuration the views are made under.
    pub fn configuration(&self) -> &'a Configuration {
        self.configuration
    }

    /// What `full` rules match: the message as it came.
    pub fn full(&self) -> &'a [u8] {
        self.full
    }

    /// What a `header` rule matches: all the fields `selector` names, joined; `None` if there is none
    /// (then `exists:` is false, and `[if-unset: …]` applies).
    pub fn header(&self, _selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// What `mimeheader` rules match: the fields `selector` names in each part, part by part.
    pub fn mime_headers(&self, _selector: &HeaderSelector) -> Vec<Cow<'_, [u8]>> {
        Vec::new()
    }

    /// What `body` rules match: the rendered text in paragraphs. The first line is the subject, which
    /// `tflags nosubject` skips.
    pub fn body(&self) -> &Lines {
        self.body.get_or_init(Lines::default)
    }

    /// What `rawbody` rules match: the decoded text parts, unrendered, in chunks.
    pub fn rawbody(&self) -> &Lines {
        self.rawbody.get_or_init(Lines::default)
    }

    /// What `uri` rules match: every link of the text and the HTML, as written and canonical.
    pub fn uris(&self) -> &Lines {
        self.uris.get_or_init(Lines::default)
    }

    /// The subject, decoded to UTF-8; empty if there is none.
    pub fn subject(&self) -> String {
        String::new()
    }

    /// The first address of `From:`.
    pub fn from_address(&self) -> Option<String> {
        None
    }

    /// The message id with its angle brackets.
    pub fn message_id(&self) -> Option<String> {
        None
    }

    /// The `Date:` field as it stands.
    pub fn date(&self) -> Option<String> {
        None
    }

    /// The text a person would read: the `text/plain` parts if there are any, else the rendered HTML.
    pub fn readable_text(&self) -> String {
        String::new()
    }
}
