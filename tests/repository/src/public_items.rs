//! Rule: a public item is used: code other than its declaration and its own unit tests names it.
//!
//! The compiler reports unused private items only. An import or a re-export is no use, except of a
//! trait, whose methods need no name. An item that shares its name with another that is used is not
//! found.

use std::collections::{BTreeMap, BTreeSet};

use crate::crate_sources::{Source, all_crate_sources};
use crate::files::{below, read};
use crate::source::code;

/// The name of the public item that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let is_modifier = |word: &&str| matches!(*word, "async" | "unsafe" | "const");
    let words: Vec<&str> = rest.split_whitespace().collect();
    let keyword = words.iter().position(|word| !is_modifier(word))?;
    let name = match words.get(keyword).copied()? {
        "fn" | "struct" | "enum" | "trait" | "type" | "static" => words.get(keyword + 1)?,
        name if words.first() == Some(&"const") => name,
        _ => return None,
    };
    names(name).next()
}

/// The code without its imports and re-exports of items other than traits. The names of traits are
/// those of `traits`.
fn without_imports(code: &str, traits: &BTreeSet<String>) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut is_import = false;
    for line in code.lines() {
        let statement = line.trim_start();
        let statement = match statement.strip_prefix("pub") {
            Some(rest) => rest.trim_start_matches(|c: char| c != ' ').trim_start(),
            None => statement,
        };
        is_import |= statement.starts_with("use ");
        for name in names(line) {
            if !is_import || traits.contains(name) {
                kept.push_str(name);
                kept.push(' ');
            }
        }
        is_import &= !line.ends_with(';');
    }
    kept
}

/// The name of the trait that a line declares.
fn declared_trait(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("trait ")?;
    declared(line).filter(|name| names(rest).next() == Some(name))
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_other = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(is_other).filter(|name| !name.is_empty())
}

/// The public items of `crates/*/src` that no code names, with the files that declare them.
/// `sources` are pairs of a file's path and its text.
fn unused(sources: &[Source]) -> Vec<String> {
    let sources: Vec<(&str, String)> = sources
        .iter()
        .map(|(file, text)| (file.as_str(), code(text)))
        .collect();
    let lines = sources.iter().flat_map(|(_, code)| code.lines());
    let traits = lines.filter_map(declared_trait).map(str::to_owned);
    let traits: BTreeSet<String> = traits.collect();
    let mut declarations: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (file, code) in &sources {
        for name in names(&without_imports(code, &traits)) {
            *uses.entry(name.to_owned()).or_default() += 1;
        }
        if file.contains("/src/") {
            for name in code.lines().filter_map(declared) {
                declarations.entry(name).or_default().push(file);
            }
        }
    }
    declarations
        .into_iter()
        .filter(|(name, files)| uses.get(*name).is_none_or(|count| *count <= files.len()))
        .map(|(name, files)| format!("{name}: {}", files.join(" ")))
        .collect()
}

#[test]
fn public_items_are_used() {
    let outside = ["crates", "fuzz"].into_iter();
    let outside = outside.flat_map(|folder| below(folder, "rs"));
    let outside = outside.filter(|file| !file.contains("/src/"));
    let outside = outside.map(|file| {
        let text = read(&file);
        (file, text)
    });
    let inside = all_crate_sources().map(|(_, source)| source);
    let sources: Vec<Source> = inside.chain(outside).collect();
    let unused = unused(&sources);
    assert!(unused.is_empty(), "never used:\n{}", unused.join("\n"));
}

#[test]
fn unused_public_items_are_found() {
    let first_line = "pub fn first_line() {}\n";
    let around_tests = "#[cfg(test)]\nmod tests {\n    fn a() { super::in_tests_only() }\n}\n\
        pub fn after_tests() {}\npub(crate) fn in_tests_only() {}\n\
        #[cfg(test)]\npub fn helper() {}\n";
    let imported = "use a::{\n    imported_only,\n    Used,\n};\npub use b::imported_only;\n\
        pub async fn imported_only() {}\nimpl Used for u8 {}\nfn main() { called() }\n";
    let used = "pub trait Used {}\npub const fn called() {}\n";
    let sources = [
        ("crates/a/src/a.rs", first_line),
        ("crates/a/src/b.rs", around_tests),
        ("crates/a/src/main.rs", imported),
        ("crates/b/src/lib.rs", used),
        ("crates/b/tests/b.rs", "pub fn of_no_crate() {}"),
    ];
    let sources = sources.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let expected = [
        "after_tests: crates/a/src/b.rs",
        "first_line: crates/a/src/a.rs",
        "imported_only: crates/a/src/main.rs",
        "in_tests_only: crates/a/src/b.rs",
    ];
    assert_eq!(unused(&sources), expected);
}

#[test]
fn public_declarations_are_recognised() {
    for (line, expected) in [
        ("    pub const fn new(text: &str) -> Self {", Some("new")),
        ("pub(in crate::http) async fn respond(", Some("respond")),
        ("pub const LIMIT_BYTES: usize = 3;", Some("LIMIT_BYTES")),
        ("pub struct Page<'a>(&'a str);", Some("Page")),
        ("pub use page::Page;", None),
        ("    pub name: String,", None),
        ("fn private() {", None),
    ] {
        assert_eq!(declared(line), expected, "{line}");
    }
}
