//! Folding of long lines, at the places where SpamAssassin folds them.

/// The places at which a text may be folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldingPoint {
    /// At white space, which the fold replaces.
    AtBlanks,
    /// After white space and commas.
    AfterBlanksAndCommas,
}

/// The layout of a folded text.
pub(super) struct LineLayout<'a> {
    /// The text before the first line's text; not part of the result where the caller drops it.
    pub(super) first: &'a str,
    /// The prefix of later lines.
    pub(super) indent: &'a str,
    /// The length that no line exceeds where that can be; a tab counts as eight.
    pub(super) length_max: usize,
    /// A line may exceed the length by its last word.
    pub(super) overflows: bool,
}

impl LineLayout<'_> {
    /// Folds a text.
    pub(super) fn fold(&self, text: &str, fold: FoldingPoint) -> String {
        let mut out = String::with_capacity(text.len() + self.first.len() + 16);
        let mut pieces = pieces(text, fold);
        let mut line = if self.first.is_empty() {
            pieces.next().unwrap_or_default().to_owned()
        } else {
            self.first.to_owned()
        };
        let mut length = width(&line);
        // Whether the line contains more than its beginning.
        let mut is_begun = false;
        let mut is_first = true;
        for piece in pieces {
            let longer = length + width(piece);
            let compared = if is_begun && !self.overflows {
                longer
            } else {
                length
            };
            // A line with nothing but its indentation takes any piece.
            let takes = compared <= self.length_max || (!is_begun && !is_first);
            if !takes {
                out.push_str(line.trim_end());
                out.push('\n');
                line.clear();
                line.push_str(self.indent);
                length = width(&line);
                is_first = false;
            }
            line.push_str(piece);
            length += width(piece);
            is_begun = true;
        }
        out.push_str(&line);
        out
    }
}

/// The columns of a text.
fn width(text: &str) -> usize {
    text.len() + 7 * text.bytes().filter(|&byte| byte == b'\t').count()
}

/// The pieces between which a text is folded: words and the single white spaces between them, or
/// pieces that end in one.
fn pieces(text: &str, fold: FoldingPoint) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |character: char| {
            character.is_ascii_whitespace()
                || fold == FoldingPoint::AfterBlanksAndCommas && character == ','
        };
        let end = match (rest.find(is_end), fold) {
            (None, _) => rest.len(),
            (Some(0), _) => 1,
            (Some(end), FoldingPoint::AtBlanks) => end,
            (Some(end), FoldingPoint::AfterBlanksAndCommas) => end + 1,
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_lines_end_in_no_blank() {
        let lines = LineLayout {
            first: "  ",
            indent: "  ",
            length_max: 8,
            overflows: false,
        };
        assert_eq!(
            lines.fold("aa bb cc", FoldingPoint::AtBlanks),
            "  aa bb\n  cc"
        );
        assert_eq!(
            lines.fold("a-word-longer-than-all", FoldingPoint::AtBlanks),
            "  a-word-longer-than-all"
        );
        let lines = LineLayout {
            first: "",
            indent: "\t",
            length_max: 20,
            overflows: false,
        };
        assert_eq!(
            lines.fold(
                "N!!tests=AAAA,BBBB,CCCC x",
                FoldingPoint::AfterBlanksAndCommas
            ),
            "N!!tests=AAAA,BBBB,\n\tCCCC x"
        );
    }

    #[test]
    fn an_indentation_longer_than_a_line_ends() {
        let lines = LineLayout {
            first: "",
            indent: "          ",
            length_max: 4,
            overflows: false,
        };
        assert_eq!(lines.fold("a b", FoldingPoint::AtBlanks), "a b");
        assert_eq!(
            lines
                .fold("aaaaa b", FoldingPoint::AtBlanks)
                .lines()
                .count(),
            3
        );
    }
}
