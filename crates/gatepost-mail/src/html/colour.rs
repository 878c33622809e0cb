//! Colours in attributes and styles, for the detection of invisible text.

use std::fmt::Write as _;

use super::colour_table::COLOURS;

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    /// Red, green, blue.
    Rgb(u8, u8, u8),
    /// A single `#`.
    Empty,
    /// Not a colour.
    Invalid,
}

/// Text whose distance from its background is below this is hardly legible. The maximum is 191.
const DISTANCE_READABLE_MIN: f64 = 12.0;

impl Colour {
    pub(super) const BLACK: Self = Self::Rgb(0, 0, 0);
    pub(super) const WHITE: Self = Self::Rgb(255, 255, 255);

    /// Parses a name, `#rgb`, `#rrggbb` or `rgb(…)`.
    pub(super) fn parse(text: &str) -> Self {
        let text = text
            .trim_matches(|letter: char| letter.is_ascii_whitespace())
            .to_ascii_lowercase();
        if let Ok(index) = COLOURS.binary_search_by(|(name, _)| (*name).cmp(text.as_str())) {
            return COLOURS.get(index).map_or(Self::Invalid, |&(_, value)| {
                let [_, red, green, blue] = value.to_be_bytes();
                Self::Rgb(red, green, blue)
            });
        }
        if let Some(hexadecimal) = functional(&text) {
            return Self::from_hexadecimal(&hexadecimal);
        }
        if text.starts_with('#')
            && text
                .bytes()
                .all(|byte| byte == b'#' || byte.is_ascii_hexdigit())
        {
            return Self::from_hexadecimal(&text);
        }
        Self::Invalid
    }

    /// Red, green and blue of a style: all digits between the commas.
    pub(super) fn from_style_rgb(value: &str) -> Self {
        let digits: String = value
            .chars()
            .filter(|letter| letter.is_ascii_digit() || *letter == ',')
            .collect();
        let mut values = digits.split(',').map(|number| match number {
            "" => 0,
            number => u8::try_from(number.parse::<u64>().unwrap_or(u64::MAX)).unwrap_or(255),
        });
        let mut next = || values.next().unwrap_or(0);
        Self::Rgb(next(), next(), next())
    }

    fn from_hexadecimal(text: &str) -> Self {
        let mut digits: Vec<u8> = text
            .chars()
            .filter_map(|letter| letter.to_digit(16))
            .map(|digit| digit as u8)
            .take(6)
            .collect();
        if matches!(digits.len(), 4 | 5) {
            digits.truncate(3);
        }
        while !digits.len().is_multiple_of(3) {
            digits.push(0);
        }
        match digits[..] {
            [red, green, blue] => Self::Rgb(red * 17, green * 17, blue * 17),
            [r1, r2, g1, g2, b1, b2] => Self::Rgb(r1 * 16 + r2, g1 * 16 + g2, b1 * 16 + b2),
            _ => Self::Empty,
        }
    }

    /// Whether text of this colour is indistinguishable from the background.
    pub(super) fn is_lost_on(self, background: Self) -> bool {
        if self == background {
            return true;
        }
        let (Self::Rgb(r1, g1, b1), Self::Rgb(r2, g2, b2)) = (self, background) else {
            return false;
        };
        // Weighted by brightness: Rec. ITU-R BT.709, item 3.2.
        let red = 0.2126 * (f64::from(r1) - f64::from(r2));
        let green = 0.7152 * (f64::from(g1) - f64::from(g2));
        let blue = 0.0722 * (f64::from(b1) - f64::from(b2));
        (red * red + green * green + blue * blue).sqrt() < DISTANCE_READABLE_MIN
    }
}

/// `rgb(1, 2, 3)` or `rgb(1%, 2%, 3%)` anywhere in `text`, as hexadecimal digits.
fn functional(text: &str) -> Option<String> {
    let (_, inner) = text.split_once("rgb(")?;
    let (inner, _) = inner.split_once(')')?;
    let percent = inner.contains('%');
    let mut out = String::from("#");
    let mut count = 0;
    for (index, piece) in inner.split(',').enumerate() {
        let piece = if index == 0 {
            piece
        } else {
            piece.trim_start()
        };
        let piece = if index == 2 { piece.trim_end() } else { piece };
        let number = if percent {
            piece.strip_suffix('%')?
        } else {
            piece
        };
        let mut value = number.parse::<u64>().ok()?;
        if percent {
            value = value.saturating_mul(255) / 100;
        }
        let _ = write!(out, "{value:02x}");
        count += 1;
    }
    (count == 3).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_every_notation() {
        assert_eq!(Colour::parse(" Red"), Colour::Rgb(255, 0, 0));
        assert_eq!(Colour::parse("#FfF"), Colour::WHITE);
        assert_eq!(Colour::parse("#12345678"), Colour::Rgb(0x12, 0x34, 0x56));
        assert_eq!(Colour::parse("#1"), Colour::Rgb(0x11, 0, 0));
        assert_eq!(Colour::parse("rgb(1, 2,3)"), Colour::Rgb(1, 2, 3));
        assert_eq!(Colour::parse("rgb(100%,0%,50%)"), Colour::Rgb(255, 0, 127));
        assert_eq!(Colour::parse("ffffff"), Colour::Invalid);
        assert_eq!(Colour::parse("#"), Colour::Empty);
    }

    #[test]
    fn near_colours_are_lost() {
        assert!(Colour::parse("#fffffe").is_lost_on(Colour::WHITE));
        assert!(!Colour::BLACK.is_lost_on(Colour::WHITE));
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(COLOURS.is_sorted_by_key(|(name, _)| *name));
    }
}
