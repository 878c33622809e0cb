//! Facts about elements: fonts, sizes and colours, images, character sets.

use super::Renderer;
use super::links::sloppy_attribute;
use crate::html::entity::{EntityContext, decode};
use crate::html::tokens::Attributes;

/// The assumed width and height of an image without a size.
const IMAGE_SIDE_DEFAULT: u64 = 200;

impl Renderer {
    /// Records the facts of start tags.
    pub(super) fn facts_of(&mut self, tag: &str, attributes: &Attributes<'_>) {
        match tag {
            "font"
                if attributes.get("face").is_some_and(|face| {
                    !is_plain_face(&decode(face, EntityContext::Attribute).0)
                }) =>
            {
                self.set("font_face_bad");
            }
            "img" => {
                if self.open_anchor {
                    self.facts.anchors.add("<img>\n");
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
                let link = decode(link, EntityContext::Attribute)
                    .0
                    .replace('\u{feff}', "");
                let link = self.trimmed_link(&link).to_owned();
                let anchor = self.facts.anchors.open();
                if let Some(link) = self.link(link) {
                    link.anchors.extend(anchor);
                }
            }
            "title" => self.facts.titles.push(String::new()),
            "meta" => self.charset(attributes),
            _ => {}
        }
    }

    pub(super) fn image(&mut self, attributes: &Attributes<'_>) {
        let (Some(width), Some(height)) = (attributes.get("width"), attributes.get("height"))
        else {
            return;
        };
        // Percentages refer to a screen of 800 by 600.
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

    pub(super) fn charset(&mut self, attributes: &Attributes<'_>) {
        let (Some(kind), Some(content)) = (attributes.get("http-equiv"), attributes.get("content"))
        else {
            return;
        };
        if !kind.to_ascii_lowercase().contains("content-type") {
            return;
        }
        let content = decode(content, EntityContext::Attribute).0;
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
}

/// A list of font names in the usual notation.
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
