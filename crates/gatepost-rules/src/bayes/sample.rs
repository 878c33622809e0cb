//! What Bayes needs of a message.

use std::sync::LazyLock;

use sha1::{Digest, Sha1};

use super::fields::{Field, add_fields};
use super::received_time::received_time;
use super::settings::BayesSettings;
use super::token::{Collector, Token};
use super::words::{Region, add_line};
use crate::mail::{Lines, Mail};

/// Tokens of the visible text, and of the invisible text, stop at so many.
const TEXT_TOKENS_MAX: usize = 50_000;
/// Tokens of links stop at so many.
const LINK_TOKENS_MAX: usize = 10_000;

/// The views of a message that give tokens.
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    /// The text a reader sees, the subject first.
    pub visible: &'a Lines,
    /// Text in HTML that a reader does not see.
    pub invisible: &'a Lines,
    /// Links.
    pub uris: &'a Lines,
    /// The fields of the head, top down.
    pub fields: Vec<Field<'a>>,
    /// The relays as `x-spam-relays-external`, `-internal`, `-trusted` and `-untrusted`.
    pub relays: Vec<Field<'a>>,
    /// For each part the SHA-1 of its decoded content in hexadecimal, a colon and its type.
    pub part_digests: Vec<Vec<u8>>,
}

/// A message as Bayes learns and judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its tokens, each once, sorted.
    pub tokens: Vec<Token>,
    /// An id made of its content, the same each time; it is noted when the message is learned.
    pub generated_id: Vec<u8>,
    /// Its own message id without angle brackets; another program may have noted that.
    pub own_id: Option<Vec<u8>>,
    /// When it was received, in seconds since 1970, by its `Received` fields; `None` if they do
    /// not tell.
    pub time: Option<u32>,
}

impl Sources<'_> {
    /// The tokens of a message, each once, sorted.
    pub fn tokens(&self, settings: &BayesSettings) -> Vec<Token> {
        let mut tokens = Collector::default();
        let wanted = settings.sources;
        let mut lines = |lines: &Lines, prefix: &[u8], region, tokens_max: usize| {
            let before = tokens.len();
            for line in lines.iter() {
                add_line(line, prefix, region, settings, &mut tokens);
                if tokens.len() - before >= tokens_max {
                    break;
                }
            }
        };
        if wanted.visible {
            lines(self.visible, b"", Region::Body, TEXT_TOKENS_MAX);
        }
        if wanted.uri {
            lines(self.uris, b"", Region::Link, LINK_TOKENS_MAX);
        }
        if wanted.invisible {
            lines(self.invisible, b"I*:", Region::Body, TEXT_TOKENS_MAX);
        }
        if wanted.mimepart {
            for digest in &self.part_digests {
                tokens.add(&[b"MIME:", short_digest(digest)]);
            }
        }
        if wanted.header {
            add_fields(&self.fields, &self.relays, settings, &mut tokens);
        }
        tokens.finish()
    }
}

/// The digests of parts that are empty or only line ends have names.
fn short_digest(digest: &[u8]) -> &[u8] {
    const EMPTY: &[u8] = b"da39a3ee5e6b4b0d3255bfef95601890afd80709:text/";
    const ONE_LINE_END: &[u8] = b"adc83b19e793491b1c6ea0fd8b46cd9f32e592fc:text/";
    const TWO_LINE_ENDS: &[u8] = b"71853c6197a6a7f222db0f1978c7cb232b87c5ee:text/";
    let kind = |start: &[u8]| digest.strip_prefix(start);
    match (kind(EMPTY), kind(ONE_LINE_END), kind(TWO_LINE_ENDS)) {
        (Some(b"plain"), ..) => b"Empty-Plaintext",
        (Some(b"html"), ..) => b"Empty-HTML",
        (Some(b"xml"), ..) => b"Empty-XML",
        (_, Some(b"plain"), _) => b"OneNL-Plaintext",
        (_, Some(b"html"), _) => b"OneNL-HTML",
        (_, _, Some(b"plain")) => b"TwoNL-Plaintext",
        (_, _, Some(b"html")) => b"TwoNL-HTML",
        _ => digest,
    }
}

impl Sample {
    /// What Bayes needs of `mail`.
    pub fn of(mail: &Mail<'_>, settings: &BayesSettings) -> Self {
        Self {
            tokens: Sources::of(mail, settings).tokens(settings),
            generated_id: generated_id(mail),
            own_id: own_id(mail),
            time: received_time(mail),
        }
    }
}

impl<'a> Sources<'a> {
    /// The views of `mail` that give tokens.
    pub fn of(mail: &'a Mail<'_>, settings: &BayesSettings) -> Self {
        static NOTHING: LazyLock<Lines> = LazyLock::new(Lines::default);
        let wanted = settings.sources;
        let view = |is_wanted: bool, view: fn(&'a Mail<'_>) -> &'a Lines| {
            if is_wanted { view(mail) } else { &*NOTHING }
        };
        let fields = mail.head().fields.iter().map(|field| Field {
            name: field.name().into(),
            value: [b" ", field.decoded()].concat().into(),
        });
        Self {
            visible: view(wanted.visible, |mail| mail.visible_body()),
            invisible: view(wanted.invisible, |mail| mail.invisible_body()),
            uris: view(wanted.uri, |mail| mail.uris()),
            fields: if wanted.header {
                fields.collect()
            } else {
                Vec::new()
            },
            relays: Vec::new(),
            part_digests: Vec::new(),
        }
    }
}

/// An id of the addressees, the date and the body: the same when a message comes back with other
/// fields added.
fn generated_id(mail: &Mail<'_>) -> Vec<u8> {
    let head = mail.head();
    let line = |name: &[u8]| match head.last(name) {
        Some(value) => [value, b"\n"].concat(),
        None => Vec::new(),
    };
    let mut body_hash = Sha1::new();
    if head.crlf {
        // The body counts with LF as the line end, whichever it came with.
        let mut rest = head.body;
        while let Some(at) = memchr::memmem::find(rest, b"\r\n") {
            body_hash.update(rest.get(..at).unwrap_or_default());
            body_hash.update(b"\n");
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        body_hash.update(rest);
    } else {
        body_hash.update(head.body);
    }
    let body_digest = hexadecimal(&body_hash.finalize());
    let mut hash = Sha1::new();
    let (to, date) = (line(b"To"), line(b"Date"));
    for piece in [&to[..], b"\0", &date, b"\0", body_digest.as_bytes()] {
        hash.update(piece);
    }
    format!("{}@sa_generated", hexadecimal(&hash.finalize())).into_bytes()
}

/// The message id without its angle brackets.
fn own_id(mail: &Mail<'_>) -> Option<Vec<u8>> {
    mail.head()
        .last(b"Message-Id")?
        .trim_ascii()
        .strip_prefix(b"<")?
        .strip_suffix(b">")
        .filter(|id| !id.is_empty())
        .map(<[u8]>::to_vec)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
