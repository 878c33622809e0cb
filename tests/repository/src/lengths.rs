//! Rules: a source file has one purpose and at most [`LINES_MAX`] lines; a function outside of
//! tests has at most [`FUNCTION_LINES_MAX`].

use crate::crate_sources::all_crate_sources;
use crate::files::{below, read};
use crate::source::code;

/// The longest that a Rust file may be. The median is near 200.
const LINES_MAX: usize = 450;

/// The longest that a function may be. Nine in ten have fewer than 40 lines.
const FUNCTION_LINES_MAX: usize = 70;

/// The functions of a file, with their lengths in lines. rustfmt puts the brace that ends a
/// function below the first letter of its declaration.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = declared(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let length = lines[at..].iter().position(|line| **line == end);
        found.extend(length.map(|length| (name, length + 1)));
    }
    found
}

/// The name of the function with a body that this line begins.
fn declared(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_modifier = |word: &str| {
        word.starts_with("pub")
            || word.ends_with(')')
            || matches!(
                word,
                "const" | "async" | "unsafe" | "extern" | "\"\"" | "in"
            )
    };
    let is_other = |c: char| !(c.is_alphanumeric() || c == '_');
    let is_declaration = before.split_whitespace().all(is_modifier);
    (is_declaration && !line.ends_with(['}', ';'])).then(|| after.split(is_other).next())?
}

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

#[test]
fn no_function_is_too_long() {
    let mut long = Vec::new();
    for (_, (file, text)) in all_crate_sources() {
        for (name, lines) in functions(&code(&text)) {
            if lines > FUNCTION_LINES_MAX {
                long.push(format!("{file}: {name} has {lines} lines"));
            }
        }
    }
    assert!(
        long.is_empty(),
        "over {FUNCTION_LINES_MAX} lines:\n{}",
        long.join("\n")
    );
}

#[test]
fn functions_are_measured() {
    let code = [
        "impl A {",
        "    pub(crate) async fn one(",
        "        self,",
        "    ) {",
        "        if x {",
        "        }",
        "    }",
        "}",
        "fn two() {}",
        "unsafe extern \"\" fn three() {",
        "}",
        "trait B {",
        "    fn four();",
        "}",
    ];
    assert_eq!(functions(&code.join("\n")), [("one", 6), ("three", 2)]);
}
