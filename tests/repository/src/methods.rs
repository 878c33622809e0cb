//! Rule: the methods of a type stand in its file, or beside or below it in a module that is named
//! after one capability, so that the folder of a type contains all of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{below, crates, read};
use crate::source::code;

/// The name that a declaration of a type introduces.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().peekable();
    words.next_if(|word| word.starts_with("pub"));
    // The rest of `pub(in crate::module)`.
    words.next_if(|word| word.ends_with(')') && !word.contains('('));
    let keyword = words.next()?;
    matches!(keyword, "struct" | "enum" | "union")
        .then(|| words.next())?
        .map(identifier)
}

/// The type whose inherent methods begin with this line.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => after_generics(generics)?,
        None => rest,
    };
    let is_inherent = rest.starts_with(' ') && !rest.contains(" for ");
    let path = rest.trim_start().split(['<', ' ']).next()?;
    is_inherent.then(|| identifier(path.rsplit("::").next().unwrap_or(path)))
}

/// The text after the `>` that ends these generics.
fn after_generics(text: &str) -> Option<&str> {
    let mut depth = 1;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(at + 1..);
        }
    }
    None
}

fn identifier(text: &str) -> &str {
    let is_other = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(is_other).next().unwrap_or_default()
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[test]
fn methods_stand_in_the_folder_of_their_type() {
    let mut strays = Vec::new();
    for name in crates() {
        let mut declarations: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut implementations = Vec::new();
        for file in below(&format!("crates/{name}/src"), "rs") {
            for line in code(&read(&file)).lines() {
                if let Some(declared) = declared(line) {
                    let files = declarations.entry(declared.to_owned()).or_default();
                    files.insert(file.clone());
                }
                if let Some(implemented) = implemented(line) {
                    implementations.push((implemented.to_owned(), file.clone()));
                }
            }
        }
        for (implemented, file) in implementations {
            let Some(declared) = declarations.get(&implemented) else {
                continue;
            };
            let is_below = |declared: &String| folder(&file).starts_with(folder(declared));
            if !declared.iter().any(is_below) {
                strays.push(format!("{file}: methods of {implemented}"));
            }
        }
    }
    assert!(
        strays.is_empty(),
        "to be moved into the folder of the type:\n{}",
        strays.join("\n")
    );
}

#[test]
fn declarations_and_methods_are_recognised() {
    assert_eq!(
        declared("    pub(crate) struct Page<'a>(&'a str);"),
        Some("Page")
    );
    assert_eq!(declared("pub(in crate::http) enum Kind {"), Some("Kind"));
    assert_eq!(declared("use crate::Kind;"), None);
    assert_eq!(implemented("impl<T: Into<u8>> Page<T> {"), Some("Page"));
    assert_eq!(implemented("impl super::Page {"), Some("Page"));
    assert_eq!(implemented("impl Display for Page {"), None);
}
