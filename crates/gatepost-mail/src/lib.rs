//! Views of a mail as SpamAssassin's rules see it, and mailboxes to read mails from.
//!
//! A rule never examines the bytes of a message but *views* of them: decoded header fields,
//! rendered text, decoded bodies, links, relays. [`Mail`] makes each view on first use and keeps
//! it, so a program pays only for the views that it reads. [`mailbox`] reads mails from files, mbox
//! files, Maildir and folders.
//!
//! ```
//! use gatepost_mail::{HeaderSelector, Mail};
//!
//! let mail = Mail::parse(b"Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\
//!     Content-Type: text/html\r\n\r\n\
//!     <p>See <a href=\"https://www.example.com/news\">our news</a></p>");
//!
//! let subject = mail.header(&HeaderSelector::parse("Subject"));
//! assert_eq!(subject.unwrap().trim_ascii_end(), "Grüße".as_bytes());
//! assert!(mail.body().iter().any(|line| line.starts_with(b"See our news")));
//! assert!(mail.uris().iter().any(|uri| uri == b"https://www.example.com/news"));
//! ```
//!
//! Invariants:
//! - No input is refused: every view exists, whatever the bytes, and nothing here panics.
//! - The size of every view is bounded by the size of the message times a small constant; the
//!   limits below this bound are documented where they are applied.
//! - Views are byte strings: UTF-8 where a known character set was declared, otherwise the original
//!   bytes, exactly as SpamAssassin passes them to its patterns.
//! - No view depends on a rule or on a rule's result.

pub mod address;
mod ascii;
mod body;
mod charset;
mod content_type;
mod date;
mod domain;
mod envelope;
mod fields;
mod head;
mod html;
mod inner_values;
pub mod ip;
mod leaf;
mod limits;
mod line_ends;
mod lines;
pub mod mailbox;
mod network;
mod part;
mod parties;
mod parts;
mod pattern;
mod readable;
mod relay;
mod selector;
mod transfer;
mod uri;
mod view_settings;
mod words;

pub use leaf::Leaf;
pub use limits::MailLimits;
pub use lines::Lines;
pub use selector::HeaderSelector;
pub use uri::{Uri, UriList};
pub use view_settings::{Directive, ViewSettings};

pub use ascii::lines;
pub use content_type::ContentType;
pub use date::parse as parse_date;
pub use domain::{RegistrarBoundaries, is_fully_qualified};
pub use head::{HeaderField, MessageHead};
pub use html::{Anchors, HtmlFacts, HtmlLink, OpenElements, RenderedHtml};
pub use ip::{is_ip as ip_is, is_private as ip_private, parse as parse_ip};
pub use network::Networks;
pub use part::MimePart;
pub use parts::{ParseFlags, Parts};
pub use pattern::MailPattern;
pub use relay::{Relay, Relays, as_text as relay_text};
pub use transfer::base64 as decode_base64;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::LazyLock;

use body::{Visibility, body_lines, part_text, raw_chunks, render_part};

static DEFAULT_SETTINGS: LazyLock<ViewSettings> = LazyLock::new(ViewSettings::default);

/// One message and its views.
/// Borrows the message. Not `Sync`: each message is scanned by one thread.
pub struct Mail<'a> {
    settings: &'a ViewSettings,
    head: MessageHead<'a>,
    full: Cow<'a, [u8]>,
    parts: OnceCell<Parts>,
    rendered: OnceCell<Vec<Option<RenderedHtml>>>,
    body: OnceCell<Lines>,
    visible_body: OnceCell<Lines>,
    invisible_body: OnceCell<Lines>,
    rawbody: OnceCell<Lines>,
    uris: OnceCell<UriList>,
    relays: OnceCell<Relays>,
    envelope_from: OnceCell<Option<Vec<u8>>>,
    /// Whether the envelope sender comes from the receiver, and not from the head.
    is_sender_given: bool,
    senders: OnceCell<Vec<Vec<u8>>>,
    recipients: OnceCell<Vec<Vec<u8>>>,
    /// Links from attached documents, which a caller found.
    attached_links: Vec<Vec<u8>>,
}

impl<'a> Mail<'a> {
    /// The views of `message` under the default settings.
    pub fn parse(message: &'a [u8]) -> Self {
        Self::parse_with(message, &DEFAULT_SETTINGS)
    }

    /// The views of `message` under `settings`: the networks decide which relays are trusted, the
    /// registrar boundaries which words are links.
    pub fn parse_with(message: &'a [u8], settings: &'a ViewSettings) -> Self {
        let message: &'a [u8] = if message.is_empty() { b"\n" } else { message };
        let head = MessageHead::parse(message, settings.limits);
        let full = match &head.pristine {
            Cow::Borrowed(_) => {
                let start = head.mbox_separator.map_or(0, <[u8]>::len);
                Cow::Borrowed(message.get(start..).unwrap_or_default())
            }
            Cow::Owned(pristine) => Cow::Owned([pristine.as_slice(), head.body].concat()),
        };
        Self {
            settings,
            head,
            full,
            parts: OnceCell::new(),
            rendered: OnceCell::new(),
            body: OnceCell::new(),
            visible_body: OnceCell::new(),
            invisible_body: OnceCell::new(),
            rawbody: OnceCell::new(),
            uris: OnceCell::new(),
            relays: OnceCell::new(),
            envelope_from: OnceCell::new(),
            is_sender_given: false,
            senders: OnceCell::new(),
            recipients: OnceCell::new(),
            attached_links: Vec::new(),
        }
    }

    /// Sets the envelope sender, which the head need not contain; empty for a bounce.
    #[must_use]
    pub fn with_envelope_sender(self, sender: Option<&str>) -> Self {
        let Some(sender) = sender else { return self };
        let sender = Some(sender.as_bytes().to_vec());
        Self {
            envelope_from: OnceCell::from(sender),
            is_sender_given: true,
            ..self
        }
    }

    /// Adds links from attached documents. Has no effect on views that already exist.
    pub fn add_links(&mut self, links: Vec<Vec<u8>>) {
        self.attached_links.extend(links);
    }

    /// The settings of the views.
    pub fn view_settings(&self) -> &'a ViewSettings {
        self.settings
    }

    /// The text that `full` rules match: the original message without an mbox separator line.
    pub fn full(&self) -> &[u8] {
        &self.full
    }

    /// The head, and the beginning of the body.
    pub fn head(&self) -> &MessageHead<'a> {
        &self.head
    }

    /// The MIME parts.
    pub fn parts(&self) -> &Parts {
        self.parts
            .get_or_init(|| Parts::parse(&self.head, self.settings.limits))
    }

    /// The rendered HTML parts; one entry for each leaf, `None` for leaves that are not HTML.
    pub fn rendered(&self) -> &[Option<RenderedHtml>] {
        let render = |part| render_part(part, self.settings);
        self.rendered
            .get_or_init(|| self.parts().leaves().map(render).collect())
    }

    /// Whether a limit ended a view that was made before the end of the message.
    pub fn is_cut(&self) -> bool {
        let rendered = self.rendered.get().into_iter().flatten().flatten();
        rendered.into_iter().any(|rendered| rendered.is_cut)
    }

    /// The rendering of a leaf of this message.
    pub fn rendered_of(&self, part: &MimePart) -> Option<&RenderedHtml> {
        self.rendered().get(part.leaf_number?)?.as_ref()
    }

    /// The text of a part, rendered if it is HTML; `None` if it is not text.
    pub fn text_of(&self, part: &MimePart) -> Option<String> {
        let rendered = self.rendered_of(part);
        part_text(part, rendered, Visibility::All, self.settings).map(body::PartText::into_text)
    }

    /// The facts of all HTML parts, in order.
    pub fn html_all(&self) -> impl Iterator<Item = &HtmlFacts> {
        self.rendered()
            .iter()
            .flatten()
            .map(|rendered| &rendered.facts)
    }

    fn text_view(&self, visibility: Visibility) -> Lines {
        let subject = match visibility {
            Visibility::Invisible => Vec::new(),
            _ => [self.head.last(b"subject").unwrap_or_default(), b"\n"].concat(),
        };
        let parts = self.parts().leaves().zip(self.rendered());
        let settings = self.settings;
        let texts =
            parts.map(|(part, rendered)| part_text(part, rendered.as_ref(), visibility, settings));
        body_lines(&subject, texts, settings.body_part_length_max)
    }

    /// The text that `body` rules match: the rendered text in paragraphs. The first line is the
    /// subject, which `tflags nosubject` skips.
    pub fn body(&self) -> &Lines {
        self.body.get_or_init(|| self.text_view(Visibility::All))
    }

    /// The same without text that is hidden from the reader.
    pub fn visible_body(&self) -> &Lines {
        self.visible_body
            .get_or_init(|| self.text_view(Visibility::Visible))
    }

    /// Only the text that is hidden from the reader; no subject.
    pub fn invisible_body(&self) -> &Lines {
        self.invisible_body
            .get_or_init(|| self.text_view(Visibility::Invisible))
    }

    /// The text that `rawbody` rules match: the decoded text parts, unrendered, in chunks.
    pub fn rawbody(&self) -> &Lines {
        let length_max = self.settings.rawbody_part_length_max;
        self.rawbody
            .get_or_init(|| raw_chunks(self.parts().leaves(), length_max))
    }

    /// The relays of the message.
    pub fn relays(&self) -> &Relays {
        self.relays.get_or_init(|| Relays::read(self))
    }

    /// The envelope sender according to the head; empty for a bounce.
    pub fn envelope_from(&self) -> Option<&[u8]> {
        self.envelope_from
            .get_or_init(|| envelope::sender(self))
            .as_deref()
    }

    /// The envelope sender, if the receiver knows it; empty for a bounce.
    pub fn given_envelope_sender(&self) -> Option<&[u8]> {
        self.envelope_from().filter(|_| self.is_sender_given)
    }

    /// Every link with its details.
    pub fn uri_list(&self) -> &UriList {
        self.uris.get_or_init(|| {
            let attached = &self.attached_links;
            uri::collect(self.body(), self.html_all(), attached, self.settings)
        })
    }

    /// The text that `uri` rules match: every link of the text and the HTML, original and
    /// canonical.
    pub fn uris(&self) -> &Lines {
        &self.uri_list().forms
    }
}

/// Whether the text contains an IP address.
pub fn has_ip(text: &[u8]) -> bool {
    ip::find(text).is_some()
}
