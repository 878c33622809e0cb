//! The input of the classifier from one message: its tokens, ids and time.

use std::sync::LazyLock;

use gatepost_mail::{HeaderSelector, Lines, Mail};
use sha1::{Digest, Sha1};

use super::fields::{BayesField, add_fields};
use super::received_time::received_time;
use super::settings::BayesSettings;
use super::token::{Collector, Token};
use super::words::{Region, add_line};

/// The most tokens of the visible text, and of the invisible text.
const TEXT_TOKENS_MAX: usize = 50_000;
/// The most tokens of links.
const LINK_TOKENS_MAX: usize = 10_000;

/// The longest message id; longer ones are cut.
const ID_BYTES_MAX: usize = 4096;

/// The views of a message that yield tokens.
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    /// The visible text, the subject first.
    pub visible: &'a Lines,
    /// Text in HTML that is hidden from the reader.
    pub invisible: &'a Lines,
    /// Links.
    pub uris: &'a Lines,
    /// The header fields, top down.
    pub fields: Vec<BayesField<'a>>,
    /// The relays as `x-spam-relays-external`, `-internal`, `-trusted` and `-untrusted`.
    pub relays: Vec<BayesField<'a>>,
    /// For each part the SHA-1 of its decoded content in hexadecimal, a colon and its media type.
    pub part_digests: Vec<Vec<u8>>,
}

/// A message in the form in which Bayes learns and classifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BayesSample {
    /// Its tokens, each once, sorted.
    pub tokens: Vec<Token>,
    /// An id derived from its content; it is recorded when the message is learned.
    pub generated_id: Vec<u8>,
    /// Its own message id without angle brackets; another program may have recorded that one.
    pub own_id: Option<Vec<u8>>,
    /// The time of receipt, in seconds since 1970, from its `Received` fields; `None` if they
    /// contain none.
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

impl BayesSample {
    /// The sample of `mail`.
    pub fn of(mail: &Mail<'_>, settings: &BayesSettings) -> Self {
        Self {
            tokens: Sources::of(mail, settings).tokens(settings),
            generated_id: generated_id(mail),
            own_id: own_id(mail),
            time: received_time(mail),
        }
    }
}

impl BayesSample {
    /// The sample as bytes, for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.tokens.len() * 5);
        bytes.extend_from_slice(&self.time.unwrap_or(0).to_be_bytes());
        for id in [Some(&self.generated_id), self.own_id.as_ref()] {
            let id = id.map(Vec::as_slice).unwrap_or_default();
            let id = id.get(..ID_BYTES_MAX).unwrap_or(id);
            bytes.extend_from_slice(&(id.len() as u16).to_be_bytes());
            bytes.extend_from_slice(id);
        }
        for token in &self.tokens {
            bytes.extend_from_slice(&token.to_bytes());
        }
        bytes
    }

    /// The sample that [`BayesSample::to_bytes`] wrote; `None` if the bytes are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk::<4>()?;
        let (generated_id, rest) = split_id(rest)?;
        let (own_id, rest) = split_id(rest)?;
        let (tokens, []) = rest.as_chunks::<5>() else {
            return None;
        };
        Some(Self {
            tokens: tokens.iter().copied().map(Token::from_bytes).collect(),
            generated_id: generated_id.to_vec(),
            own_id: (!own_id.is_empty()).then(|| own_id.to_vec()),
            time: Some(u32::from_be_bytes(*time)).filter(|time| *time > 0),
        })
    }
}

fn split_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

impl<'a> Sources<'a> {
    /// The views of `mail` that yield tokens.
    pub fn of(mail: &'a Mail<'_>, settings: &BayesSettings) -> Self {
        static NOTHING: LazyLock<Lines> = LazyLock::new(Lines::default);
        let wanted = settings.sources;
        let view = |is_wanted: bool, view: fn(&'a Mail<'_>) -> &'a Lines| {
            if is_wanted { view(mail) } else { &*NOTHING }
        };
        let fields = mail.head().fields.iter().map(|field| BayesField {
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
            relays: if wanted.header {
                relays(mail)
            } else {
                Vec::new()
            },
            part_digests: if wanted.mimepart {
                part_digests(mail)
            } else {
                Vec::new()
            },
        }
    }
}

/// The relays in SpamAssassin's notation.
fn relays<'a>(mail: &Mail<'_>) -> Vec<BayesField<'a>> {
    [
        "x-spam-relays-external",
        "x-spam-relays-internal",
        "x-spam-relays-trusted",
        "x-spam-relays-untrusted",
    ]
    .into_iter()
    .map(|name| {
        let value = mail.header(&HeaderSelector::parse(name));
        BayesField {
            name: name.as_bytes().into(),
            value: [b" ", value.as_deref().unwrap_or_default()].concat().into(),
        }
    })
    .collect()
}

/// The digest of each part's decoded content with its type.
fn part_digests(mail: &Mail<'_>) -> Vec<Vec<u8>> {
    mail.parts()
        .leaves()
        .map(|part| {
            let digest = hexadecimal(&Sha1::digest(part.decoded()));
            format!("{digest}:{}", part.media_type).into_bytes()
        })
        .collect()
}

/// An id of the addressees, the date and the body: it stays the same when the message returns with
/// other fields added.
fn generated_id(mail: &Mail<'_>) -> Vec<u8> {
    let head = mail.head();
    let line = |name: &[u8]| match head.last(name) {
        Some(value) => [value, b"\n"].concat(),
        None => Vec::new(),
    };
    let mut body_hash = Sha1::new();
    if head.crlf {
        // The body counts with LF as line end, whatever the original line ends were.
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
        .filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)
        .map(<[u8]>::to_vec)
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0xF)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGE: &[u8] = b"To: a@b.example\nDate: Thu, 22 Aug 2002 10:00:00 +0000\n\
        Message-Id: <id@b.example>\nSubject: Cheap watches\n\nBuy cheap watches\n";

    #[test]
    fn a_message_keeps_its_ids_when_fields_are_added() {
        let settings = BayesSettings::default();
        let sample = BayesSample::of(&Mail::parse(MESSAGE), &settings);
        assert_eq!(sample.own_id.as_deref(), Some(&b"id@b.example"[..]));
        let crlf = String::from_utf8_lossy(MESSAGE).replace('\n', "\r\n");
        let added = format!("X-Spam-Status: No\r\n{crlf}");
        let again = BayesSample::of(&Mail::parse(added.as_bytes()), &settings);
        assert_eq!(again.generated_id, sample.generated_id);
        assert_eq!(again.tokens, sample.tokens);
        assert!(sample.tokens.contains(&Token::of(&[b"watches"])));
        // The digest of the head's original bytes, which sa-learn records for this message.
        assert!(sample.generated_id.ends_with(b"@sa_generated"));
    }

    proptest! {
        #[test]
        fn a_sample_comes_back_from_its_bytes(
            tokens in proptest::collection::vec(any::<[u8; 5]>(), 0..9),
            generated_id: Vec<u8>,
            time in 1u32..,
        ) {
            let sample = BayesSample {
                tokens: tokens.into_iter().map(Token::from_bytes).collect(),
                generated_id,
                own_id: None,
                time: Some(time),
            };
            prop_assert_eq!(BayesSample::from_bytes(&sample.to_bytes()), Some(sample));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = BayesSample::from_bytes(&bytes);
        }

        #[test]
        fn any_message_gives_a_sample(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            BayesSample::of(&Mail::parse(&bytes), &BayesSettings::default());
        }
    }
}
