//! Blocks that are not commands: settings, procedures, pages, JSON.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::runnable;
use crate::support::{root, text_of};

fn gatepost(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
    command.args(arguments).current_dir(folder);
    command.output().expect("gatepost runs")
}

/// Procedures that settings of the guide name.
fn write_procedures(folder: &Path) {
    for (name, source) in [
        ("mail/night", "return function() return 'accept' end"),
        ("mail/large", "return function() return 'accept' end"),
        ("move", "return function() return 'accept' end"),
        ("mail-to-home", "return function() return 'accept' end"),
    ] {
        let file = folder.join("procedures").join(name).with_extension("luau");
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, source).expect("written");
    }
    let schema = folder.join("reading.json");
    fs::write(schema, "{\"type\": \"object\"}").expect("written");
}

/// Every setting exists and has a valid value; and the files that it names exist, unless the block
/// is marked `keys`.
#[test]
fn settings_are_accepted() {
    let mut refused = Vec::new();
    for block in runnable("toml") {
        let folder = tempfile::tempdir().expect("a folder");
        write_procedures(folder.path());
        fs::write(folder.path().join("gatepost.toml"), &block.text).expect("written");
        let command = match block.note.as_str() {
            "" => "check",
            "keys" => "config",
            note => panic!("{}: unknown note {note:?}", block.place()),
        };
        // The rules of the system take seconds to compile, and are not tested here.
        let arguments = ["--config", "gatepost.toml", "--set", "rules.paths=[]"];
        let output = gatepost(folder.path(), &[&[command], &arguments[..]].concat());
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            refused.push(format!("{} ({command}): {said}", block.place()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn procedures_and_pages_are_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    for (language, below, extension) in [("lua", "procedures", "luau"), ("html", "pages", "html")] {
        let below = folder.path().join(below);
        fs::create_dir_all(&below).expect("a folder");
        for block in runnable(language) {
            assert_eq!(block.note, "", "{}", block.place());
            let file = below.join(block.file_stem()).with_extension(extension);
            fs::write(file, block.text).expect("written");
        }
    }
    for example in fs::read_dir(root().join("docs/examples")).expect("the examples") {
        let example = example.expect("an entry").path();
        let name = example.file_name().expect("a name").to_owned();
        fs::copy(&example, folder.path().join("procedures").join(name)).expect("copied");
    }
    let output = gatepost(folder.path(), &["check", "--set", "rules.paths=[]"]);
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn json_is_json() {
    for block in runnable("json") {
        let values = serde_json::Deserializer::from_str(&block.text);
        for value in values.into_iter::<serde_json::Value>() {
            assert!(value.is_ok(), "{}: {value:?}", block.place());
        }
    }
}

#[test]
fn limits_are_the_defaults() {
    let defaults = fs::read_to_string(root().join("docs/defaults.toml")).expect("the defaults");
    let default = |key: &str| {
        let line = defaults
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let page = fs::read_to_string(root().join("docs/limits.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`'));
        Some((cells.nth(1)?, cells.next()?))
    });
    let wrong: Vec<_> = cells
        .filter(|(key, value)| default(key).as_deref() != Some(*value))
        .collect();
    assert!(wrong.is_empty(), "not the defaults: {wrong:?}");
}
