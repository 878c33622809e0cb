//! Rule: a type's name stands for one thing. A crate declares it once, and no two crates declare
//! the name of a public type, so a search for a name finds one declaration.

use std::collections::BTreeMap;

use crate::crate_sources::all_crate_sources;
use crate::source::code;

/// The type that a line at the top level of a file declares, and whether other crates see it.
fn declared(line: &str) -> Option<(&str, bool)> {
    let (rest, is_public) = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (rest.split_once(") ")?.1, false),
        Some(rest) => (rest.strip_prefix(' ')?, true),
        None => (line, false),
    };
    let (keyword, rest) = rest.split_once(' ')?;
    let is_other = |c: char| !(c.is_alphanumeric() || c == '_');
    let name = rest.split(is_other).next()?;
    matches!(keyword, "struct" | "enum" | "union" | "trait" | "type").then_some((name, is_public))
}

#[test]
fn a_type_name_stands_for_one_thing() {
    let mut declarations: BTreeMap<String, Vec<(String, bool, String)>> = BTreeMap::new();
    // Unit tests have worlds and sockets that never meet.
    for (name, (file, text)) in all_crate_sources() {
        for (declared, is_public) in code(&text).lines().filter_map(declared) {
            let places = declarations.entry(declared.to_owned()).or_default();
            places.push((name.clone(), is_public, file.clone()));
        }
    }
    let mut shared = Vec::new();
    for (name, places) in declarations {
        let is_public = places.iter().any(|(_, is_public, _)| *is_public);
        let mut of_crate: Vec<&str> = places.iter().map(|(place, ..)| place.as_str()).collect();
        of_crate.dedup();
        let is_twice_in_a_crate = of_crate.len() < places.len();
        if places.len() > 1 && (is_public || is_twice_in_a_crate) {
            let files: Vec<&str> = places.iter().map(|(.., file)| file.as_str()).collect();
            shared.push(format!("{name}: {}", files.join(" ")));
        }
    }
    assert!(
        shared.is_empty(),
        "types to be given different names:\n{}",
        shared.join("\n")
    );
}

#[test]
fn declared_types_are_recognised() {
    for (line, expected) in [
        ("pub struct Page<'a>(&'a str);", Some(("Page", true))),
        ("pub(in crate::http) enum Kind {", Some(("Kind", false))),
        (
            "type Outcome = Result<(), Error>;",
            Some(("Outcome", false)),
        ),
        ("    type Output = u8;", None),
        ("pub fn page() {}", None),
    ] {
        assert_eq!(declared(line), expected, "{line}");
    }
}
