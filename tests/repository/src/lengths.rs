//! Rule: a source file has one purpose and at most [`LINES_MAX`] lines.

use crate::files::{below, read};

/// The longest that a Rust file may be. The median is near 200.
const LINES_MAX: usize = 455;

#[test]
fn no_source_file_is_too_long() {
    let mut long = Vec::new();
    for folder in ["crates", "tests", "fuzz"] {
        for file in below(folder, "rs") {
            let lines = read(&file).lines().count();
            if lines > LINES_MAX {
                long.push(format!("{file}: {lines} lines"));
            }
        }
    }
    assert!(
        long.is_empty(),
        "over {LINES_MAX} lines:\n{}",
        long.join("\n")
    );
}
