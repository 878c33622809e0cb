//! Rule: the methods of a type stand in its file. Those of `ratchet/methods.txt` stand beside or
//! below it, in a module that is one capability and says so, for the reason that the list states.

use std::collections::{BTreeMap, BTreeSet};

use crate::crate_sources::crate_sources;
use crate::files::{crates, exceptions};
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

/// The types of a crate with the files that declare them, and with those that have their methods.
#[derive(Default)]
struct TypeFiles {
    declaring: BTreeSet<String>,
    implementing: BTreeSet<String>,
}

/// The types of a crate that have methods, by their names.
fn types_of(name: &str) -> BTreeMap<String, TypeFiles> {
    let mut types: BTreeMap<String, TypeFiles> = BTreeMap::new();
    for (file, text) in crate_sources(name) {
        for line in code(&text).lines() {
            if let Some(declared) = declared(line) {
                let files = types.entry(declared.to_owned()).or_default();
                files.declaring.insert(file.clone());
            }
            if let Some(implemented) = implemented(line) {
                let files = types.entry(implemented.to_owned()).or_default();
                files.implementing.insert(file.clone());
            }
        }
    }
    // A type of another crate or of a macro has no declaration here.
    types.retain(|_, files| !files.declaring.is_empty());
    types
}

#[test]
fn methods_stand_in_the_folder_of_their_type() {
    let mut strays = Vec::new();
    for name in crates() {
        for (implemented, files) in types_of(&name) {
            for file in files.implementing {
                let is_below = |declared: &String| folder(&file).starts_with(folder(declared));
                if !files.declaring.iter().any(is_below) {
                    strays.push(format!("{file}: methods of {implemented}"));
                }
            }
        }
    }
    assert!(
        strays.is_empty(),
        "to be moved into the folder of the type:\n{}",
        strays.join("\n")
    );
}

/// The types with methods in other files, as `ratchet/methods.txt` names them.
fn types_with_methods_elsewhere() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in crates() {
        let source = format!("crates/{name}/src/");
        for (implemented, files) in types_of(&name) {
            let elsewhere: Vec<&str> = files
                .implementing
                .difference(&files.declaring)
                .filter_map(|file| file.strip_prefix(&source))
                .collect();
            if !elsewhere.is_empty() {
                found.insert(format!("{name} {implemented}: {}", elsewhere.join(", ")));
            }
        }
    }
    found
}

#[test]
fn methods_in_other_files_have_a_reason() {
    let mut permitted = BTreeSet::new();
    for line in exceptions("methods.txt") {
        let (place, reason) = line.split_once(" | ").unwrap_or((&line, ""));
        assert!(!reason.trim().is_empty(), "{place}: the reason is missing");
        permitted.insert(place.to_owned());
    }
    let found = types_with_methods_elsewhere();
    let unlisted: Vec<&String> = found.difference(&permitted).collect();
    let outdated: Vec<&String> = permitted.difference(&found).collect();
    assert!(
        unlisted.is_empty() && outdated.is_empty(),
        "move the methods beside their type, or name the capability in ratchet/methods.txt: \
         {unlisted:#?}\nno longer so: {outdated:#?}"
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
