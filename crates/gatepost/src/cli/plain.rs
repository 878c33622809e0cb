//! Untrusted text on a terminal: clients choose their names, senders their subjects.

/// The text without control characters, which could control the terminal.
pub(super) fn plain(text: &str) -> String {
    let shown = |character: char| {
        if character.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(plain("Zoë"), "Zoë");
    }
}
