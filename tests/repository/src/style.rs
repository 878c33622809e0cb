//! Rules of style that rustfmt's stable version cannot check: lines have at most [`COLUMNS_MAX`]
//! columns; imports stand in three groups, the standard library's, other crates' and this crate's;
//! a section of a standard is written "section 4.2".

use crate::files::{below, read};

/// As rustfmt's `max_width`, which leaves comments, long strings and macros as they are.
const COLUMNS_MAX: usize = 100;

fn sources() -> impl Iterator<Item = (String, String)> {
    let files = ["crates", "tests", "fuzz"].map(|folder| below(folder, "rs"));
    files.into_iter().flatten().map(|file| {
        let text = read(&file);
        (file, text)
    })
}

/// The group of an import: 0 for the standard library, 1 for other crates, 2 for this crate.
/// `children` are the modules that the file declares.
fn group(path: &str, children: &[&str]) -> u8 {
    let root = path.trim_start_matches("::");
    let end = root.find(|c: char| !c.is_alphanumeric() && c != '_');
    match &root[..end.unwrap_or(root.len())] {
        "std" | "core" | "alloc" => 0,
        "crate" | "super" | "self" => 2,
        root if children.contains(&root) => 2,
        _ => 1,
    }
}

/// The modules that `text` declares.
fn children(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let (_, name) = line
            .split_once("mod ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?;
        name.strip_suffix(';').or_else(|| name.strip_suffix(" {"))
    });
    declared.collect()
}

/// The first line of `text` whose import stands in a wrong place: before a group's end, or without
/// the empty line that parts two groups.
fn misplaced_import(text: &str) -> Option<usize> {
    let children = children(text);
    let mut last: Option<(u8, bool)> = None;
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        if is_inside {
            is_inside = !line.ends_with(';');
        } else if let Some(path) = line.strip_prefix("use ") {
            let group = group(path, &children);
            if let Some((before, is_parted)) = last {
                let is_in_order = if is_parted {
                    before < group
                } else {
                    before == group
                };
                if !is_in_order {
                    return Some(number + 1);
                }
            }
            last = Some((group, false));
            is_inside = !line.ends_with(';');
        } else if line.is_empty() {
            last = last.map(|(group, _)| (group, true));
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            last = None;
        }
    }
    None
}

#[test]
fn imports_stand_in_their_groups() {
    let misplaced: Vec<String> = sources()
        .filter_map(|(file, text)| Some(format!("{file}:{}", misplaced_import(&text)?)))
        .collect();
    assert!(
        misplaced.is_empty(),
        "imports: std, other crates, this crate, each group sorted, an empty line between:\n{}",
        misplaced.join("\n")
    );
}

#[test]
fn no_line_is_too_long() {
    let long: Vec<String> = sources()
        .flat_map(|(file, text)| {
            let lines = text.lines().enumerate();
            let long = lines.filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
            let named: Vec<String> = long.map(|(at, _)| format!("{file}:{}", at + 1)).collect();
            named
        })
        .collect();
    assert!(
        long.is_empty(),
        "over {COLUMNS_MAX} columns:\n{}",
        long.join("\n")
    );
}

#[test]
fn sections_are_written_in_words() {
    let sign = '\u{a7}';
    let signed: Vec<String> = sources()
        .filter(|(_, text)| text.contains(sign))
        .map(|(file, _)| file)
        .collect();
    assert!(
        signed.is_empty(),
        "write \"section 4.2\":\n{}",
        signed.join("\n")
    );
}

#[test]
fn a_misplaced_import_is_found() {
    let right =
        "mod own;\n\nuse std::fmt;\n\nuse serde::Serialize;\n\nuse crate::One;\nuse own::Two;\n";
    assert_eq!(misplaced_import(right), None);
    let unparted = "use std::fmt;\nuse serde::Serialize;\n";
    assert_eq!(misplaced_import(unparted), Some(2));
    let twice = "use std::fmt;\n\nuse serde::{\n    Serialize,\n};\n\nuse std::io;\n";
    assert_eq!(misplaced_import(twice), Some(7));
}
