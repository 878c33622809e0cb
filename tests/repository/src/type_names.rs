//! Rule: a type's name stands for one thing: it is declared once in the workspace, so a search for
//! the name finds one declaration.

use std::collections::BTreeMap;

use crate::crate_sources::{Source, all_crate_sources};
use crate::source::code;

/// The type that a line at the top level of a file declares.
fn declared(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (keyword, rest) = rest.split_once(' ')?;
    let is_other = |c: char| !(c.is_alphanumeric() || c == '_');
    let name = rest.split(is_other).next()?;
    matches!(keyword, "struct" | "enum" | "union" | "trait" | "type").then_some(name)
}

/// The names of types that are declared more than once, each with the files.
fn declared_twice(sources: &[Source]) -> Vec<String> {
    let mut declarations: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (file, text) in sources {
        for name in code(text).lines().filter_map(declared) {
            declarations.entry(name.to_owned()).or_default().push(file);
        }
    }
    declarations
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", files.join(" ")))
        .collect()
}

#[test]
fn a_type_name_stands_for_one_thing() {
    // Types of unit tests do not count: nothing else can name them.
    let sources: Vec<Source> = all_crate_sources().map(|(_, source)| source).collect();
    let shared = declared_twice(&sources);
    assert!(
        shared.is_empty(),
        "types to be given different names:\n{}",
        shared.join("\n")
    );
}

#[test]
fn names_that_are_declared_twice_are_found() {
    let sources = [
        (
            "crates/a/src/lib.rs",
            "pub struct One;\nenum Two {}\nfn f() {\n    struct Three;\n}\n",
        ),
        (
            "crates/a/src/b.rs",
            "type Two<'a> = &'a u8;\n#[cfg(test)]\nstruct One;\n",
        ),
        (
            "crates/b/src/lib.rs",
            "// struct One;\npub(crate) struct One(u8);\nstruct Three;\n",
        ),
    ];
    let sources = sources.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let expected = [
        "One: crates/a/src/lib.rs crates/b/src/lib.rs",
        "Two: crates/a/src/lib.rs crates/a/src/b.rs",
    ];
    assert_eq!(declared_twice(&sources), expected);
}

#[test]
fn declared_types_are_recognised() {
    for (line, expected) in [
        ("pub struct Page<'a>(&'a str);", Some("Page")),
        ("pub(in crate::http) enum Kind {", Some("Kind")),
        ("type Outcome = Result<(), Error>;", Some("Outcome")),
        ("    type Output = u8;", None),
        ("pub fn page() {}", None),
    ] {
        assert_eq!(declared(line), expected, "{line}");
    }
}
