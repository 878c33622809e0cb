//! Folding of long lines.

/// Folds `text` at blanks so that no line is longer than `width` where that can be. The first
/// line has `first_column` bytes before it; later ones begin with `indent`.
pub(super) fn wrap(text: &str, first_column: usize, indent: &str, width: usize) -> String {
    let mut folded = String::with_capacity(text.len() + 16);
    let mut column = first_column;
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 {
            if column + 1 + length > width {
                folded.push('\n');
                folded.push_str(indent);
                column = indent.len();
            } else {
                folded.push(' ');
                column += 1;
            }
        }
        folded.push_str(word);
        column += length;
    }
    folded
}

/// Folds a header field's value after blanks and commas, with a tab before each later line.
pub(super) fn fold_field(name: &str, value: &str, width: usize) -> String {
    let mut folded = String::with_capacity(value.len() + 16);
    let mut column = name.len() + 2;
    for piece in value.split_inclusive([' ', ',']) {
        let length = piece.trim_end().chars().count();
        if column + length > width && !folded.is_empty() {
            folded.truncate(folded.trim_end().len());
            folded.push_str("\n\t");
            column = 8;
        }
        folded.push_str(piece);
        column += piece.chars().count();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap("aa bb  cc", 2, "  ", 8), "aa bb\n  cc");
        assert_eq!(
            wrap("a-word-longer-than-all", 2, "  ", 8),
            "a-word-longer-than-all"
        );
        assert_eq!(
            fold_field("N", "tests=AAAA,BBBB,CCCC x", 20),
            "tests=AAAA,BBBB,\n\tCCCC x"
        );
    }
}
