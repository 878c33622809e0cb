//! Rules: paths and links in the documentation lead to files that exist, and ARCHITECTURE.md lists
//! every crate.

use std::path::Path;

use crate::files::{below, crates, read, root};

/// Documents outside `docs/` that name files.
const DOCUMENTS: [&str; 6] = [
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "crates/gatepost-bench/README.md",
];

fn documents() -> Vec<String> {
    let others = DOCUMENTS.iter().map(|name| (*name).to_owned());
    others.chain(below("docs", "md")).collect()
}

/// The text outside fenced code blocks.
fn prose(text: &str) -> String {
    let parts = text.split("\n```").step_by(2);
    parts.collect::<Vec<_>>().join("\n")
}

/// The contents of all `inline code`.
fn inline_code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether inline code names a file of the sources: `smtp/session.rs`.
fn is_source_path(code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    let is_rust = Path::new(code).extension().is_some_and(|one| one == "rs");
    is_rust && code.chars().all(is_plain)
}

/// The targets of all Markdown links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    targets.filter_map(|rest| rest.split([')', ' ']).next())
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn descriptions_of_settings_are_those_of_the_code() {
    let script = root().join("packaging/describe-settings");
    let output = std::process::Command::new("python3")
        .arg(script)
        .arg("--check")
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// The source files that a document names and that are not among `sources`.
fn missing_sources(text: &str, sources: &[String]) -> Vec<String> {
    // Documents leave out `crates/gatepost-` and the crate's `src`, where what is left is unique.
    let exists = |path: &&str| {
        let suffix = format!("/{path}");
        let in_crate = format!("/gatepost-{path}");
        sources
            .iter()
            .any(|file| file == path || file.ends_with(&suffix) || file.ends_with(&in_crate))
    };
    let text = prose(text);
    let paths = inline_code(&text).filter(|code| is_source_path(code));
    paths
        .filter(|path| !exists(path))
        .map(str::to_owned)
        .collect()
}

#[test]
fn source_files_named_in_documents_exist() {
    let sources = [
        below("crates", "rs"),
        below("fuzz", "rs"),
        below("tests", "rs"),
    ]
    .concat();
    let mut missing = Vec::new();
    for document in documents() {
        for path in missing_sources(&read(&document), &sources) {
            missing.push(format!("{document}: {path}"));
        }
    }
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}

/// The folders that a document names and that are neither in the root nor in a crate.
fn missing_folders(text: &str) -> Vec<String> {
    let is_missing = |code: &&str| {
        let is_folder = |base: &str| root().join(base).join(code).is_dir();
        let in_crate = |name: &String| {
            is_folder(&format!("crates/{name}/src")) || is_folder(&format!("crates/{name}"))
        };
        let (first, rest) = code.split_once('/').unwrap_or((code, ""));
        let named_crate = root().join(format!("crates/gatepost-{first}")).join(rest);
        !is_folder("") && !named_crate.is_dir() && !crates().iter().any(in_crate)
    };
    let text = prose(text);
    let folders = inline_code(&text).filter(|code| code.ends_with('/'));
    folders.filter(is_missing).map(str::to_owned).collect()
}

#[test]
fn folders_named_in_the_architecture_exist() {
    let missing = missing_folders(&read("ARCHITECTURE.md"));
    assert!(missing.is_empty(), "no such folder: {missing:?}");
}

/// The links of a document that lead to no file, or to no heading of it.
fn broken_links(document: &str, text: &str) -> Vec<String> {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let leads = |link: &&str| {
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let target = root().join(folder).join(file);
        if fragment.is_empty() {
            return target.exists();
        }
        let of_file = std::fs::read_to_string(&target).unwrap_or_default();
        let text = if file.is_empty() { text } else { &of_file };
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        headings.any(|heading| anchor(heading) == fragment)
    };
    let prose = prose(text);
    let links = links(&prose).filter(|link| !link.contains("://"));
    let broken = links.filter(|link| !leads(link));
    broken.map(str::to_owned).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in broken_links(&document, &read(&document)) {
            broken.push(format!("{document}: {link}"));
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn paths_that_do_not_exist_are_found() {
    let sources = ["crates/gatepost-store/src/writer.rs".to_owned()];
    let text = "`writer.rs` `store/src/writer.rs` `riter.rs` `store/writer.rs` `x.rs y`\n\
        ```\n`fenced.rs`\n```\n`gone/after.rs`\n";
    let missing = missing_sources(text, &sources);
    assert_eq!(missing, ["riter.rs", "store/writer.rs", "gone/after.rs"]);

    let text = "`docs/` `rules/src/scan/` `scan/` `rules/src/none/` `no-folder/`";
    assert_eq!(missing_folders(text), ["rules/src/none/", "no-folder/"]);

    let text = "# One & two\n[a](#one--two) [b](#three) [c](../README.md) [d](README.md)\n\
        [e](../docs/README.md#none) [f](https://example.com/) [g](none.md)\n";
    let broken = broken_links("docs/page.md", text);
    assert_eq!(broken, ["#three", "../docs/README.md#none", "none.md"]);
}

/// The crates of this workspace that a crate depends on, without the prefix, sorted.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = read(&format!("crates/{name}/Cargo.toml"));
    let section = manifest
        .split("\n[dependencies]\n")
        .nth(1)
        .unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.strip_prefix("gatepost-")?.split(['.', ' ']).next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

/// The cells of a crate's row: name, question, dependencies.
fn rows(text: &str) -> Vec<(String, String)> {
    let rows = text.lines().filter(|line| line.starts_with("| `gatepost"));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        Some((
            cells.get(1)?.trim_matches('`').to_owned(),
            (*cells.get(3)?).to_owned(),
        ))
    })
    .collect()
}

#[test]
fn the_architecture_lists_every_crate_and_what_it_uses() {
    let mut rows = rows(&read("ARCHITECTURE.md"));
    rows.sort();
    let expected: Vec<(String, String)> = crates()
        .into_iter()
        .map(|name| {
            let uses = match dependencies(&name) {
                names if names.is_empty() => "none".to_owned(),
                names => names.join(", "),
            };
            (name, uses)
        })
        .collect();
    assert_eq!(rows, expected, "ARCHITECTURE.md's table is on the left");
}

#[test]
fn every_page_is_listed_in_the_guide() {
    let guide = read("docs/README.md");
    for page in below("docs", "md") {
        let name = page.trim_start_matches("docs/");
        let is_page = !name.contains('/') && name != "README.md";
        let is_linked = guide.contains(&format!("({name})")) || name.ends_with("-conformance.md");
        assert!(!is_page || is_linked, "docs/README.md does not list {name}");
    }
}
