//! The appearance of text: a stack of open elements that change colour, size or visibility.

use super::colour::Colour;
use super::entity::{EntityContext, decode};
use super::tokens::Attributes;

/// The initial font size of a document.
const SIZE_DEFAULT: i64 = 3;
/// Text of this size or less is invisible.
const SIZE_INVISIBLE_MAX: i64 = 1;

/// Elements that change the appearance of text. `th` counts as `td`.
const STYLED: [&str; 11] = [
    "body", "font", "table", "tr", "td", "big", "small", "basefont", "marquee", "span", "p",
];
/// Two further elements, separate only to keep the lines short.
const STYLED_MORE: [&str; 2] = ["div", "a"];
const STYLED_COUNT: usize = STYLED.len() + STYLED_MORE.len();

/// The index of an element in the two lists above.
fn styled_index(tag: &str) -> Option<usize> {
    let tag = if tag == "th" { "td" } else { tag };
    STYLED
        .iter()
        .chain(&STYLED_MORE)
        .position(|known| *known == tag)
}

/// The most open elements that are kept; deeper ones have no effect.
const DEPTH_MAX: usize = 100_000;

/// The reason why text is invisible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvisibleCause {
    /// Its colour equals or resembles its background's.
    LowContrast,
    /// Its colour is invalid.
    InvalidColour,
    /// It is too small, or hidden.
    Hidden,
}

#[derive(Clone, Copy, Debug)]
struct Style {
    /// The index of the element; `None` for the document.
    tag: Option<u8>,
    foreground: Colour,
    background: Colour,
    size: i64,
    display_none: bool,
    hidden: bool,
}

/// The stack of open elements.
#[derive(Debug)]
pub(super) struct Styles {
    stack: Vec<Style>,
    open: [u32; STYLED_COUNT],
    base_size: i64,
    /// The largest size in an attribute.
    pub(super) size_max: i64,
    /// The smallest size in an attribute.
    pub(super) size_min: i64,
}

impl Styles {
    pub(super) fn new() -> Self {
        let document = Style {
            tag: None,
            foreground: Colour::BLACK,
            background: Colour::WHITE,
            size: SIZE_DEFAULT,
            display_none: false,
            hidden: false,
        };
        Self {
            stack: vec![document],
            open: [0; STYLED_COUNT],
            base_size: SIZE_DEFAULT,
            size_max: SIZE_DEFAULT,
            size_min: SIZE_DEFAULT,
        }
    }

    /// Whether elements of this name change the appearance of text.
    pub(super) fn concerns(tag: &str) -> bool {
        styled_index(tag).is_some()
    }

    fn top(&self) -> Style {
        self.stack.last().copied().unwrap_or(Style {
            tag: None,
            foreground: Colour::BLACK,
            background: Colour::WHITE,
            size: SIZE_DEFAULT,
            display_none: false,
            hidden: false,
        })
    }

    fn push(&mut self, style: Style) {
        if self.stack.len() < DEPTH_MAX {
            if let Some(open) = style
                .tag
                .and_then(|tag| self.open.get_mut(usize::from(tag)))
            {
                *open += 1;
            }
            self.stack.push(style);
        }
    }

    fn pop(&mut self) {
        if self.stack.len() > 1
            && let Some(style) = self.stack.pop()
            && let Some(open) = style
                .tag
                .and_then(|tag| self.open.get_mut(usize::from(tag)))
        {
            *open -= 1;
        }
    }

    fn is_innermost(&self, names: &[&str]) -> bool {
        let top = self.top().tag;
        names
            .iter()
            .any(|name| styled_index(name).map(|index| index as u8) == top && top.is_some())
    }

    /// An end tag.
    pub(super) fn close(&mut self, tag: &str) {
        // Text after the end of the body is displayed as part of the body.
        let Some(index) = styled_index(tag).filter(|_| tag != "body") else {
            return;
        };
        while self.open.get(index).is_some_and(|&open| open > 0) {
            let found = self.top().tag == Some(index as u8);
            self.pop();
            if found {
                break;
            }
        }
    }

    /// A start tag.
    pub(super) fn open(&mut self, tag: &str, attributes: &Attributes<'_>) {
        let Some(index) = styled_index(tag) else {
            return;
        };
        let tag = if tag == "th" { "td" } else { tag };
        if tag == "basefont"
            && let Some(size) = attributes.get("size").and_then(leading_number)
        {
            self.base_size = size;
            return;
        }
        self.close_table_parts(tag, index);
        let mut style = Style {
            tag: Some(index as u8),
            ..self.top()
        };
        match tag {
            "big" => style.size = style.size.saturating_add(1),
            "small" => style.size = style.size.saturating_sub(1),
            _ => self.apply(&mut style, tag, attributes),
        }
        self.push(style);
    }

    /// Cells and rows end the previous ones.
    fn close_table_parts(&mut self, tag: &str, index: usize) {
        let closes: &[&str] = match tag {
            "td" => &["font", "td"],
            "tr" => &["font", "td", "tr"],
            _ => return,
        };
        if self.open.get(index).is_some_and(|&open| open > 0) {
            while self.is_innermost(closes) {
                self.pop();
            }
        }
    }

    fn apply(&mut self, style: &mut Style, tag: &str, attributes: &Attributes<'_>) {
        let allowed: &[&str] = match tag {
            "basefont" | "font" => &["color", "face", "size"],
            "body" => &["text", "bgcolor", "link", "alink", "vlink", "background"],
            "marquee" => &["bgcolor", "background"],
            "table" | "td" | "tr" => &["bgcolor", "style"],
            _ => &["style"],
        };
        for name in allowed {
            let Some(value) = attributes.get(name) else {
                continue;
            };
            let value = decode(value, EntityContext::Attribute).0;
            match *name {
                "text" | "color" => style.foreground = Colour::parse(&value),
                "size" => self.apply_size(style, &value),
                "style" => self.apply_declarations(style, &value),
                _ => {}
            }
            if style.size > self.size_max {
                self.size_max = style.size;
            } else if style.size < self.size_min {
                self.size_min = style.size;
            }
        }
    }

    fn apply_size(&self, style: &mut Style, value: &str) {
        let value = value.trim_start_matches(|letter: char| letter.is_ascii_whitespace());
        if let Some(number) = leading_number(value) {
            style.size = match value.as_bytes().first() {
                Some(b'+' | b'-') => self.base_size.saturating_add(number),
                _ => number,
            };
        }
    }

    /// The declarations of a `style` attribute.
    fn apply_declarations(&self, style: &mut Style, value: &str) {
        let parent = self.top();
        let (mut background_transparent, mut foreground_transparent) = (false, false);
        for declaration in value.split(';') {
            let Some((name, value)) = declaration.split_once(':') else {
                continue;
            };
            let name = name.trim_start();
            let value = value.trim();
            if value.is_empty() || value.contains('\n') {
                continue;
            }
            let (color, background) = (
                name.eq_ignore_ascii_case("color"),
                name.eq_ignore_ascii_case("background-color"),
            );
            if color || background {
                let (target, transparent) = if color {
                    (&mut style.foreground, &mut foreground_transparent)
                } else {
                    (&mut style.background, &mut background_transparent)
                };
                let value = value.to_ascii_lowercase();
                let value = without_important(&value);
                match value {
                    _ if value.contains("rgb") => *target = Colour::from_style_rgb(value),
                    "inherit" => continue,
                    "transparent" => {
                        *transparent = true;
                        continue;
                    }
                    _ => *target = Colour::parse(value),
                }
                *transparent = false;
            } else if name == "background" {
                if let Some(colour) = background_colour(&value.to_ascii_lowercase()) {
                    style.background = colour;
                    background_transparent = false;
                }
            } else {
                match name.trim_end() {
                    "display" => style.display_none = value.eq_ignore_ascii_case("none"),
                    "visibility" => style.hidden = value.eq_ignore_ascii_case("hidden"),
                    _ => {}
                }
            }
        }
        if background_transparent {
            style.background = parent.background;
        }
        if foreground_transparent {
            style.foreground = style.background;
        }
    }

    /// The reason why text at this position is invisible, if it is.
    pub(super) fn unseen(&self) -> Option<InvisibleCause> {
        let style = self.top();
        if style.foreground.is_lost_on(style.background) {
            return Some(InvisibleCause::LowContrast);
        }
        if style.foreground == Colour::Invalid || style.background == Colour::Invalid {
            return Some(InvisibleCause::InvalidColour);
        }
        let hidden = style.size <= SIZE_INVISIBLE_MAX || style.display_none || style.hidden;
        hidden.then_some(InvisibleCause::Hidden)
    }
}

fn without_important(value: &str) -> &str {
    match value
        .strip_suffix("important")
        .map(str::trim_end)
        .and_then(|value| value.strip_suffix('!'))
    {
        Some(value) => value.trim_end(),
        None => value,
    }
}

/// The number `text` begins with, with its sign.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(|letter: char| letter.is_ascii_whitespace());
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => (1, text),
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits.get(..length).filter(|digits| !digits.is_empty())?;
    Some(sign * number.parse::<i64>().unwrap_or(i64::from(i32::MAX)))
}

/// The colour of the bottom layer of a `background` shorthand.
fn background_colour(value: &str) -> Option<Colour> {
    let mut layer: Vec<&str> = Vec::new();
    let (mut layers_end, mut start, mut depth) = (false, 0, 0_usize);
    let mut quote = None;
    for (at, &byte) in value.as_bytes().iter().enumerate() {
        match (byte, quote) {
            (_, Some(open)) => quote = (byte != open).then_some(open),
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'(', None) => depth = 1,
            (b')', None) if depth > 0 => depth = 0,
            (b' ' | b',', None) if depth == 0 => {
                if layers_end {
                    layer.clear();
                }
                layer.extend(value.get(start..at));
                start = at + 1;
                layers_end = byte == b',';
            }
            _ => {}
        }
    }
    let last = value.get(start..).unwrap_or_default();
    if layers_end && !last.is_empty() {
        layer.clear();
    }
    layer.push(last);
    layer
        .into_iter()
        .filter(|token| !token.is_empty())
        .map(Colour::parse)
        .find(|colour| *colour != Colour::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backgrounds_give_their_lowest_layer() {
        assert_eq!(
            background_colour("url(\"a b\") no-repeat, #fff"),
            Some(Colour::WHITE)
        );
        assert_eq!(
            background_colour("rgb(1, 2, 3) url(x)"),
            Some(Colour::Rgb(1, 2, 3))
        );
        assert_eq!(background_colour("none"), None);
    }

    #[test]
    fn numbers_may_have_signs() {
        assert_eq!(leading_number(" +2x"), Some(2));
        assert_eq!(leading_number("-1"), Some(-1));
        assert_eq!(leading_number("x"), None);
    }
}
