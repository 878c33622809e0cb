//! Rule: a public item is used: code other than its declaration and its own unit tests names it.
//!
//! The compiler reports unused private items only. An import or a re-export is no use, except of a
//! trait, whose methods need no name. An item that shares its name with another that is used is not
//! found.

use std::collections::{BTreeMap, BTreeSet};

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

#[test]
fn public_items_are_used() {
    let mut declarations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let files = ["crates", "fuzz"].iter();
    let files = files.flat_map(|folder| below(folder, "rs"));
    let sources: Vec<(String, String)> = files
        .map(|file| {
            let code = code(&read(&file));
            (file, code)
        })
        .collect();
    let lines = sources.iter().flat_map(|(_, code)| code.lines());
    let traits = lines.filter_map(declared_trait).map(str::to_owned);
    let traits: BTreeSet<String> = traits.collect();
    for (file, code) in sources {
        for name in names(&without_imports(&code, &traits)) {
            *uses.entry(name.to_owned()).or_default() += 1;
        }
        if file.contains("/src/") {
            let lines: Vec<&str> = code.lines().collect();
            for pair in lines.windows(2) {
                // Helpers of unit tests are no part of the crate.
                let [before, line] = pair else { continue };
                if before.trim() == "#[cfg(test)]" {
                    continue;
                }
                if let Some(name) = declared(line) {
                    let files = declarations.entry(name.to_owned()).or_default();
                    files.push(file.clone());
                }
            }
        }
    }
    let is_unused = |(name, files): &(&String, &Vec<String>)| uses[*name] <= files.len();
    let unused: Vec<String> = declarations
        .iter()
        .filter(is_unused)
        .map(|(name, files)| format!("{name}: {}", files.join(" ")))
        .collect();
    assert!(unused.is_empty(), "never used:\n{}", unused.join("\n"));
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
