//! Writes a document's text and notes its facts.

use super::entity::{Place, decode};
use super::facts::{Anchor, ELEMENTS, HtmlFacts, Link};
use super::style::{Styles, Unseen};
use super::target::resolve;
use super::tokens::{Attributes, Handler, tokenise};
use std::borrow::Cow;
use std::collections::HashMap;

/// Longest link that is kept, bytes.
const LINK_LENGTH_MAX: usize = 8192;
/// Most different links of a document.
const LINKS_MAX: usize = 50_000;
/// Area of an image that does not say its size, in each direction.
const IMAGE_SIDE_DEFAULT: u64 = 200;
/// Longest run of letters beside a tag that counts as a cut word.
const CUT_WORD_LENGTH_MAX: usize = 7;

/// Elements that are rendered though no standard knows them.
const TRICKS: [&str; 5] = ["bgsound", "embed", "listing", "plaintext", "xmp"];

/// A rendered document.
#[derive(Debug)]
pub(crate) struct Rendered {
    /// All its text.
    pub(crate) text: String,
    /// The text holds characters, not bytes.
    pub(crate) characters: bool,
    /// Where each piece of the text ends, and whether it cannot be seen.
    pieces: Vec<Piece>,
    /// What rules ask about it.
    pub(crate) facts: HtmlFacts,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    end: usize,
    unseen: bool,
    white_space: bool,
}

impl Rendered {
    /// The text that can be seen, or the text that cannot.
    pub(crate) fn pieces(&self, unseen: bool) -> String {
        let mut out = String::new();
        let mut start = 0;
        for piece in &self.pieces {
            if piece.unseen == unseen {
                out.push_str(self.text.get(start..piece.end).unwrap_or_default());
            }
            start = piece.end;
        }
        out
    }

    /// Whether any text cannot be seen.
    pub(crate) fn has_unseen(&self) -> bool {
        self.pieces.iter().any(|piece| piece.unseen)
    }
}

/// Renders `source`. `characters` says whether it was decoded; `length` is its length before that.
pub(crate) fn render(source: &str, characters: bool, length: usize) -> Rendered {
    let prepared = prepare(source);
    let mut renderer = Renderer::new(characters, prepared.len());
    tokenise(&prepared, &mut renderer);
    renderer.finish(source, length)
}

/// Three things are changed before the document is cut into tags: `&nbsp;` to a blank, `<br/>` to
/// `<br>`, and curly double quotes to straight ones, which mail programs take as attribute quotes.
fn prepare(source: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(source);
    if memchr::memmem::find(text.as_bytes(), b"&nbsp;").is_some() {
        text = Cow::Owned(text.replace("&nbsp;", " "));
    }
    if memchr::memmem::find(text.as_bytes(), b"/>").is_some() {
        text = Cow::Owned(without_empty_tags(&text));
    }
    if memchr::memmem::find(
        text.as_bytes(),
        "\u{201c}".get(..2).unwrap_or("\u{201c}").as_bytes(),
    )
    .is_some()
        || text.contains(['\u{201c}', '\u{201d}'])
    {
        text = Cow::Owned(text.replace(['\u{201c}', '\u{201d}'], "\""));
    }
    text
}

fn without_empty_tags(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for slash in memchr::memmem::find_iter(bytes, b"/>") {
        let mut end = slash;
        while end > from
            && bytes
                .get(end - 1)
                .copied()
                .is_some_and(super::super::ascii::is_space)
        {
            end -= 1;
        }
        let mut start = end;
        while start > from
            && bytes
                .get(start - 1)
                .copied()
                .is_some_and(super::super::ascii::is_word)
        {
            start -= 1;
        }
        if start < end && start > from && bytes.get(start - 1) == Some(&b'<') {
            out.push_str(text.get(from..end).unwrap_or_default());
            from = slash + 1;
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[derive(Default)]
struct Counts {
    tags: u64,
    tags_seen: u64,
    elements: u64,
    elements_seen: u64,
    closed_extra: u64,
    obfuscation: u64,
}

struct Renderer {
    text: String,
    characters: bool,
    pieces: Vec<Piece>,
    styles: Styles,
    facts: HtmlFacts,
    link_index: HashMap<String, usize>,
    base: Option<String>,
    counts: Counts,
    image_area: u64,
    /// Which lengths of word ends and word starts met at a tag, one bit for each pair.
    cut_words: u64,
    /// Whether elements are open that decide what becomes of text.
    open_anchor: bool,
    open_script: bool,
    open_style: bool,
    open_title: bool,
}

impl Renderer {
    fn new(characters: bool, capacity: usize) -> Self {
        let mut facts = HtmlFacts::default();
        facts.numbers.insert("html", 1.0);
        Self {
            text: String::with_capacity(capacity / 2),
            characters,
            pieces: Vec::new(),
            styles: Styles::new(),
            facts,
            link_index: HashMap::new(),
            base: None,
            counts: Counts::default(),
            image_area: 0,
            cut_words: 0,
            open_anchor: false,
            open_script: false,
            open_style: false,
            open_title: false,
        }
    }

    fn set(&mut self, name: &'static str) {
        self.facts.numbers.insert(name, 1.0);
    }

    /// Notes a tag; true if it is one to render.
    fn tag(&mut self, tag: &str, step: i64) -> bool {
        let namespace = is_office_namespace(tag);
        let index = ELEMENTS.binary_search(&tag).ok();
        let element = namespace || index.is_some();
        let (seen, open) = self.facts.open.count(tag, index, step);
        self.counts.tags += 1;
        self.counts.elements += u64::from(element);
        self.counts.tags_seen += u64::from(!seen);
        self.counts.elements_seen += u64::from(element && !seen);
        self.counts.closed_extra += u64::from(open < 0);
        let is_open = open > 0;
        match tag {
            "a" => self.open_anchor = is_open,
            "script" => self.open_script = is_open,
            "style" => self.open_style = is_open,
            "title" => self.open_title = is_open,
            _ => {}
        }
        !namespace && (element || TRICKS.contains(&tag))
    }

    /// The white space an element stands for.
    fn white_space(&mut self, tag: &str) {
        let space = match tag {
            "br" | "div" => "\n",
            "li" | "th" | "td" | "dd" | "dt" | "embed" | "h1" | "h2" | "h3" | "h4" | "h5"
            | "h6" => " ",
            "p" | "hr" | "blockquote" | "pre" | "listing" | "plaintext" | "xmp" | "title" => "\n\n",
            _ => return,
        };
        if let Some(last) = self.pieces.last_mut()
            && !last.white_space
            && !last.unseen
            && self.text.ends_with(' ')
            && last.end == self.text.len()
        {
            // An empty piece has no blank to give up.
            let start = self
                .pieces
                .len()
                .checked_sub(2)
                .and_then(|before| self.pieces.get(before))
                .map_or(0, |piece| piece.end);
            if start < self.text.len() {
                self.text.pop();
            }
            let end = self.text.len();
            if let Some(last) = self.pieces.last_mut() {
                last.end = end;
            }
        }
        self.text.push_str(space);
        self.pieces.push(Piece {
            end: self.text.len(),
            unseen: false,
            white_space: true,
        });
    }

    /// Writes text with its white space collapsed.
    fn write(&mut self, text: &str, unseen: bool) {
        let after_space = self.pieces.last().is_some_and(|piece| piece.white_space);
        let start = self.text.len();
        collapse(text, &mut self.text);
        if after_space
            && !unseen
            && self
                .text
                .get(start..)
                .is_some_and(|text| text.starts_with(' '))
        {
            self.text.remove(start);
        }
        self.pieces.push(Piece {
            end: self.text.len(),
            unseen,
            white_space: false,
        });
    }

    /// Notes words that a tag cuts in two, which is how words are hidden from filters.
    fn note_cut_words(&mut self, text: &str) {
        let start = self
            .pieces
            .len()
            .checked_sub(2)
            .and_then(|before| self.pieces.get(before))
            .map_or(0, |piece| piece.end);
        let Some(before) = self.text.get(start..).filter(|_| !self.pieces.is_empty()) else {
            return;
        };
        let ends_in_letter = before
            .chars()
            .next_back()
            .is_some_and(|letter| is_letter(letter, self.characters));
        if !ends_in_letter {
            return;
        }
        if text
            .chars()
            .next()
            .is_some_and(|letter| is_letter(letter, self.characters))
        {
            self.counts.obfuscation += 1;
        } else {
            return;
        }
        let end = run_length(before.chars().rev(), self.characters);
        let begin = run_length(text.chars(), self.characters);
        if let (Some(end), Some(begin)) = (end, begin) {
            self.cut_words |= 1 << ((end - 1) * CUT_WORD_LENGTH_MAX + begin - 1);
        }
    }

    fn link(&mut self, target: String) -> Option<&mut Link> {
        let index = match self.link_index.get(&target) {
            Some(&index) => index,
            None if self.facts.links.len() < LINKS_MAX => {
                let index = self.facts.links.len();
                self.facts.links.push(Link {
                    target: target.clone(),
                    ..Link::default()
                });
                self.link_index.insert(target, index);
                index
            }
            None => {
                self.facts.link_truncated = true;
                return None;
            }
        };
        self.facts.links.get_mut(index)
    }

    /// Without white space around it and not too long.
    fn trimmed_link<'b>(&mut self, link: &'b str) -> &'b str {
        let link = link.trim_matches(|letter: char| letter.is_whitespace());
        if link.len() <= LINK_LENGTH_MAX {
            return link;
        }
        self.facts.link_truncated = true;
        let mut end = LINK_LENGTH_MAX;
        while !link.is_char_boundary(end) {
            end -= 1;
        }
        link.get(..end).unwrap_or_default()
    }

    fn push_link(&mut self, element: &'static str, link: &str) {
        let link = self.trimmed_link(link);
        if link.is_empty() {
            return;
        }
        let absolute = ["data:", "mailto:", "file:", "cid:", "tel:"]
            .iter()
            .any(|scheme| {
                link.get(..scheme.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            });
        let target = if absolute {
            link.to_owned()
        } else {
            resolve(self.base.as_deref().unwrap_or_default(), link)
        };
        if target.is_empty() {
            return;
        }
        if let Some(link) = self.link(target)
            && !link.elements.contains(&element)
        {
            link.elements.push(element);
        }
    }

    fn push_attribute(&mut self, element: &'static str, attributes: &Attributes<'_>, name: &str) {
        if let Some(value) = attributes.get(name) {
            let value = decode(value, Place::Attribute).0;
            self.push_link(element, &value);
        }
    }

    fn links(&mut self, tag: &str, attributes: &Attributes<'_>) {
        match element_name(tag) {
            Some(tag @ ("body" | "table" | "tr" | "td")) => {
                self.push_attribute(tag, attributes, "background");
            }
            Some(tag @ ("a" | "area" | "link")) => {
                if let Some(value) = sloppy_attribute(attributes, "href") {
                    let value = decode(value, Place::Attribute).0.replace('\u{feff}', "");
                    self.push_link(tag, &value);
                }
                self.push_attribute(tag, attributes, "data-saferedirecturl");
            }
            Some(tag @ ("img" | "frame" | "iframe" | "embed" | "script" | "bgsound")) => {
                if let Some(value) = sloppy_attribute(attributes, "src") {
                    let value = decode(value, Place::Attribute).0;
                    self.push_link(tag, &value);
                }
            }
            Some("form") => self.push_attribute("form", attributes, "action"),
            Some("base") => self.base_link(attributes),
            Some("meta") => self.refresh_link(attributes),
            _ => {}
        }
    }

    /// `<base href>`, from which relative links start.
    fn base_link(&mut self, attributes: &Attributes<'_>) {
        let Some(value) = attributes
            .get("href")
            .filter(|value| !value.is_empty() && *value != "0")
        else {
            return;
        };
        let value = decode(value, Place::Attribute).0;
        let link = self.trimmed_link(&value).to_owned();
        self.push_link("base", &link);
        let lower = link.to_ascii_lowercase();
        let Some(scheme) = ["http:", "https:", "ftp:"]
            .into_iter()
            .find(|scheme| lower.starts_with(scheme))
        else {
            return;
        };
        let mut base = without_file_name(&link, scheme.len()).to_owned();
        if !base.ends_with('/') {
            base.push('/');
        }
        self.base = Some(base);
    }

    /// `<meta http-equiv=refresh content="0; url=…">`.
    fn refresh_link(&mut self, attributes: &Attributes<'_>) {
        let (Some(kind), Some(content)) = (attributes.get("http-equiv"), attributes.get("content"))
        else {
            return;
        };
        if !kind.to_ascii_lowercase().contains("refresh") {
            return;
        }
        let content = decode(content, Place::Attribute).0;
        let lower = content.to_ascii_lowercase();
        let mut found = None;
        for (at, _) in lower.match_indices("url") {
            let boundary = !lower
                .get(..at)
                .unwrap_or_default()
                .ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
            let rest = lower.get(at + 3..).unwrap_or_default().trim_start();
            if boundary && rest.starts_with('=') {
                found = Some(lower.len() - rest.len() + 1);
            }
        }
        if let Some(link) = found.and_then(|start| content.get(start..)) {
            let link = link.trim_start();
            let link = link.split(';').next().unwrap_or_default().trim_end();
            self.push_link("meta", link);
        }
    }

    /// What rules ask about start tags.
    fn facts_of(&mut self, tag: &str, attributes: &Attributes<'_>) {
        match tag {
            "font"
                if attributes
                    .get("face")
                    .is_some_and(|face| !is_plain_face(&decode(face, Place::Attribute).0)) =>
            {
                self.set("font_face_bad");
            }
            "img" => {
                if self.open_anchor
                    && let Some(anchor) = self.facts.anchors.last_mut()
                {
                    anchor.text.push_str("<img>\n");
                }
                self.image(attributes);
            }
            "form"
                if attributes
                    .get("action")
                    .is_some_and(|action| action.to_ascii_lowercase().contains("mailto:")) =>
            {
                self.set("form_action_mailto");
            }
            "object" | "embed" => self.set("embeds"),
            "a" => {
                let link = sloppy_attribute(attributes, "href").unwrap_or_default();
                let link = decode(link, Place::Attribute).0.replace('\u{feff}', "");
                let link = self.trimmed_link(&link).to_owned();
                let anchor = self.facts.anchors.len();
                self.facts.anchors.push(Anchor::default());
                if let Some(link) = self.link(link) {
                    link.anchors.push(anchor);
                }
            }
            "title" => self.facts.titles.push(String::new()),
            "meta" => self.charset(attributes),
            _ => {}
        }
    }

    fn image(&mut self, attributes: &Attributes<'_>) {
        let (Some(width), Some(height)) = (attributes.get("width"), attributes.get("height"))
        else {
            return;
        };
        // Percentages are of a screen of 800 by 600.
        let side = |text: &str, percent: u64| {
            let (digits, factor) = match text.strip_suffix('%') {
                Some(digits) => (digits, percent),
                None => (text, 1),
            };
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let value = if plain {
                digits
                    .parse::<u64>()
                    .unwrap_or(u64::from(u32::MAX))
                    .saturating_mul(factor)
            } else {
                0
            };
            if value == 0 {
                IMAGE_SIDE_DEFAULT
            } else {
                value
            }
        };
        self.image_area = self
            .image_area
            .saturating_add(side(width, 8).saturating_mul(side(height, 6)));
    }

    fn charset(&mut self, attributes: &Attributes<'_>) {
        let (Some(kind), Some(content)) = (attributes.get("http-equiv"), attributes.get("content"))
        else {
            return;
        };
        if !kind.to_ascii_lowercase().contains("content-type") {
            return;
        }
        let content = decode(content, Place::Attribute).0;
        let lower = content.to_ascii_lowercase();
        let Some(at) = lower.find("charset") else {
            return;
        };
        let rest = lower.get(at + 7..).unwrap_or_default().trim_start();
        let Some(rest) = rest.strip_prefix('=') else {
            return;
        };
        let value = rest.trim_start().trim_start_matches(['"', '\'']);
        let value = value.split(['"', '\'']).next().unwrap_or_default();
        if !value.is_empty() {
            if !self.facts.charsets.is_empty() {
                self.facts.charsets.push(' ');
            }
            self.facts.charsets.push_str(value);
        }
    }

    fn finish(mut self, source: &str, length: usize) -> Rendered {
        let counts = &self.counts;
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        let numbers = &mut self.facts.numbers;
        numbers.insert("image_area", self.image_area as f64);
        numbers.insert("length", source.chars().count() as f64);
        numbers.insert("min_size", self.styles.size_min as f64);
        numbers.insert("max_size", self.styles.size_max as f64);
        if counts.tags > 0 {
            numbers.insert(
                "closed_extra_ratio",
                ratio(counts.closed_extra, counts.tags),
            );
            if counts.elements > 0 {
                numbers.insert(
                    "bad_tag_ratio",
                    ratio(counts.tags - counts.elements, counts.tags),
                );
            }
            if counts.elements_seen > 0 {
                numbers.insert(
                    "non_element_ratio",
                    ratio(counts.tags_seen - counts.elements_seen, counts.tags_seen),
                );
            }
            if counts.obfuscation > 0 {
                numbers.insert("obfuscation_ratio", ratio(counts.obfuscation, counts.tags));
            }
        }
        if self.cut_words > 0 {
            numbers.insert("backhair_count", f64::from(self.cut_words.count_ones()));
        }
        let html_length = self.text.chars().count();
        let spaces = if self.characters {
            self.text
                .chars()
                .filter(|letter| letter.is_whitespace())
                .count()
        } else {
            self.text
                .bytes()
                .filter(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b))
                .count()
        };
        numbers.insert("html_length", html_length as f64);
        numbers.insert("non_space_len", html_length.saturating_sub(spaces) as f64);
        if length > 0 {
            numbers.insert(
                "ratio",
                (length as f64 - html_length as f64) / length as f64,
            );
        }
        Rendered {
            text: self.text,
            characters: self.characters,
            pieces: self.pieces,
            facts: self.facts,
        }
    }
}

impl Handler for Renderer {
    fn start(&mut self, tag: &str, attributes: &Attributes<'_>) {
        if !self.tag(tag, 1) {
            return;
        }
        if Styles::concerns(tag) {
            self.styles.open(tag, attributes);
        }
        self.white_space(tag);
        self.links(tag, attributes);
        self.facts_of(tag, attributes);
    }

    fn end(&mut self, tag: &str) {
        if !self.tag(tag, -1) {
            return;
        }
        if Styles::concerns(tag) {
            self.styles.close(tag);
        }
        self.white_space(tag);
    }

    fn text(&mut self, text: &str, literal: bool) {
        let (text, beyond_latin1) = if literal {
            (Cow::Borrowed(text), false)
        } else {
            decode(text, Place::Text)
        };
        if self.open_script {
            self.facts.scripts.push(text.into_owned());
            return;
        }
        if self.open_style {
            return;
        }
        self.characters |= beyond_latin1;
        if self.open_anchor
            && let Some(anchor) = self.facts.anchors.last_mut()
        {
            anchor.text.push_str(&text);
        }
        if self.open_title
            && let Some(title) = self.facts.titles.last_mut()
        {
            title.push_str(&text);
        }
        let unseen = if is_blank(&text) {
            None
        } else {
            self.styles.unseen()
        };
        match unseen {
            Some(Unseen::LowContrast) => self.set("font_low_contrast"),
            Some(Unseen::InvalidColour) => self.set("font_invalid_color"),
            _ => {}
        }
        self.note_cut_words(&text);
        self.write(&text, unseen.is_some());
    }

    fn comment(&mut self, text: &str) {
        self.facts.comments.push(text.to_owned());
    }

    fn declaration(&mut self, text: &str) {
        if text
            .get(..9)
            .is_some_and(|start| start.eq_ignore_ascii_case("<!doctype"))
        {
            self.counts.elements += 1;
            self.counts.tags += 1;
            self.facts.open.count("!doctype", None, 0);
        }
    }

    fn is_open(&self, tag: &str) -> bool {
        self.facts.open.get(tag).is_some_and(|open| open > 0)
    }
}

/// `o:p`, `st1:city`: what an office program writes.
fn is_office_namespace(tag: &str) -> bool {
    let Some((prefix, name)) = tag.split_once(':') else {
        return false;
    };
    let prefix_fits = prefix == "o"
        || prefix.strip_prefix("st").is_some_and(|digit| {
            digit.len() == 1 && digit.bytes().all(|byte| byte.is_ascii_digit())
        });
    let name = name.strip_suffix('/').unwrap_or(name);
    prefix_fits
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| super::super::ascii::is_word(byte) || byte == b'-')
}

/// The constant that is equal to `tag`, for elements that hold links.
fn element_name(tag: &str) -> Option<&'static str> {
    const LINKING: [&str; 17] = [
        "a", "area", "base", "bgsound", "body", "embed", "form", "frame", "iframe", "img", "link",
        "meta", "script", "table", "td", "tr", "th",
    ];
    LINKING.into_iter().find(|known| *known == tag)
}

/// The attribute, also when something is stuck to its name, as in `<a/href=…>`.
fn sloppy_attribute<'a>(attributes: &Attributes<'a>, name: &str) -> Option<&'a str> {
    let sloppy = attributes.iter().find(|(known, _)| {
        let known = known.to_ascii_lowercase();
        known.match_indices(name).any(|(at, _)| {
            let before = known.get(..at).unwrap_or_default();
            before.strip_suffix('/').is_some_and(|before| {
                before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            })
        })
    });
    match sloppy {
        Some((_, value)) => Some(value),
        None => attributes.get(name),
    }
}

/// A base link that ends in a file name with an extension, without that name.
fn without_file_name(link: &str, scheme_length: usize) -> &str {
    let rest = link.get(scheme_length..).unwrap_or_default();
    let host_start = link.len()
        - rest
            .trim_start_matches('/')
            .len()
            .max(rest.len().saturating_sub(2));
    let Some(slash) = link
        .get(host_start..)
        .and_then(|host| host.find('/'))
        .map(|at| at + host_start)
    else {
        return link;
    };
    let Some(dot) = link.rfind('.').filter(|&dot| dot > slash) else {
        return link;
    };
    let extension = link.get(dot + 1..).unwrap_or_default();
    if !(2..=4).contains(&extension.len()) || extension.contains('/') {
        return link;
    }
    let name_start = link
        .get(..dot)
        .and_then(|head| head.rfind(['/', '.']))
        .map_or(0, |at| at + 1);
    if name_start == dot {
        link
    } else {
        link.get(..name_start.max(slash + 1)).unwrap_or(link)
    }
}

/// A list of font names as they are mostly written.
fn is_plain_face(face: &str) -> bool {
    let face = face.strip_suffix('\n').unwrap_or(face);
    let face = face.trim_start_matches(|letter: char| letter.is_ascii_whitespace());
    let face = face.strip_suffix(';').unwrap_or(face);
    face.split(',').enumerate().all(|(index, name)| {
        let name = if index == 0 {
            name
        } else {
            name.trim_start_matches(|letter: char| letter.is_ascii_whitespace())
        };
        let quotes: &[char] = if index == 0 {
            &['"', '\'', '.']
        } else {
            &['"', '\'']
        };
        let name = name.strip_prefix(quotes).unwrap_or(name);
        let name = name.strip_suffix(['"', '\'']).unwrap_or(name);
        let name = name
            .strip_suffix(|letter: char| letter.is_ascii_digit())
            .unwrap_or(name);
        let letters = name.as_bytes();
        letters.len() >= 2
            && letters
                .first()
                .is_some_and(|&byte| byte.is_ascii_alphabetic() || index == 0 && byte == b' ')
            && letters.last().is_some_and(u8::is_ascii_alphabetic)
            && letters
                .iter()
                .all(|&byte| byte.is_ascii_alphabetic() || matches!(byte, b' ' | b'-'))
    })
}

const fn is_html_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(is_html_space) || text.replace("\u{c2}\u{a0}", "").bytes().all(is_html_space)
}

/// Appends `text` with each run of white space as one blank.
fn collapse(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if is_html_space(byte) {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push(' ');
            while bytes.get(at).copied().is_some_and(is_html_space) {
                at += 1;
            }
            from = at;
        } else if byte == 0xc3 && bytes.get(at..at + 4) == Some(&[0xc3, 0x82, 0xc2, 0xa0]) {
            // Undecoded UTF-8 of a no-break space.
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push(' ');
            at += 4;
            from = at;
        } else {
            at += 1;
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
}

/// Neither white space nor ASCII punctuation.
fn is_letter(letter: char, characters: bool) -> bool {
    let space = if characters {
        letter.is_whitespace()
    } else {
        letter.is_ascii() && super::super::ascii::is_space(letter as u8)
    };
    !space && !letter.is_ascii_punctuation()
}

/// How many letters stand in a row, if at most seven of them end at a word boundary.
fn run_length(letters: impl Iterator<Item = char>, characters: bool) -> Option<usize> {
    let is_word = |letter: char| {
        if characters {
            letter.is_alphanumeric() || letter == '_'
        } else {
            letter.is_ascii_alphanumeric() || letter == '_'
        }
    };
    let window: smallvec::SmallVec<[char; 8]> = letters.take(CUT_WORD_LENGTH_MAX + 1).collect();
    let run = window
        .iter()
        .take(CUT_WORD_LENGTH_MAX)
        .take_while(|&&letter| is_letter(letter, characters))
        .count();
    (1..=run).rev().find(|&length| {
        let inside = window.get(length - 1).copied().is_some_and(is_word);
        let outside = window.get(length).copied().is_some_and(is_word);
        inside != outside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> String {
        render(source, true, source.len()).text
    }

    #[test]
    fn white_space_is_that_of_the_elements() {
        assert_eq!(
            text("<p>a  b\nc <br> d<td>e</td></p>"),
            "\n\na b c\nd e \n\n"
        );
        assert_eq!(text("x<br/>y&nbsp;&nbsp;z"), "x\ny z");
    }

    #[test]
    fn unseen_text_is_kept_apart() {
        let rendered = render(
            "a<font color=white>b</font>c<span style='display:none'>d</span>",
            true,
            1,
        );
        assert_eq!(
            (
                rendered.pieces(false).as_str(),
                rendered.pieces(true).as_str()
            ),
            ("ac", "bd")
        );
        assert_eq!(rendered.facts.number("font_low_contrast"), Some(1.0));
    }

    #[test]
    fn links_are_noted_with_their_texts() {
        let rendered = render(
            "<base href=http://a.b/c/d.html><a href=' x '>y<img src=z></a>",
            true,
            1,
        );
        let targets: Vec<&str> = rendered
            .facts
            .links
            .iter()
            .map(|link| link.target.as_str())
            .collect();
        assert_eq!(
            targets,
            [
                "http://a.b/c/d.html",
                "http://a.b/c/x",
                "x",
                "http://a.b/c/z"
            ]
        );
        assert_eq!(
            rendered
                .facts
                .anchors
                .first()
                .map(|anchor| anchor.text.as_str()),
            Some("y<img>\n")
        );
    }

    #[test]
    fn scripts_and_unclosed_styles_show_nothing() {
        assert_eq!(text("a<script>b</script>c<style>d"), "ac");
        assert_eq!(text("a<!-- b --> c<!-- d"), "a c");
    }

    #[test]
    fn elements_are_sorted() {
        assert!(ELEMENTS.is_sorted());
    }
}
