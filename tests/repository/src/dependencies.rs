//! Rule: a crate declares only dependencies that its code names.

use crate::files::{below, crates, read};

/// The names in a dependency section of a manifest.
fn declared(manifest: &str, section: &str) -> Vec<String> {
    let heading = format!("\n[{section}]\n");
    let text = manifest.split(&heading).nth(1).unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.starts_with('['));
    let is_entry = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    let names = lines
        .filter(is_entry)
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    names.map(str::to_owned).collect()
}

/// Whether code names a crate: as a path, in a `use`, or in an attribute.
fn names(code: &str, dependency: &str) -> bool {
    let identifier = match dependency {
        "md-5" => "md5".to_owned(),
        name => name.replace('-', "_"),
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(&identifier).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + identifier.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for name in crates() {
        let folder = format!("crates/{name}");
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let code: String = below(&folder, "rs").iter().map(|file| read(file)).collect();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dependency in declared(&manifest, section) {
                if !names(&code, &dependency) {
                    unused.push(format!("{name}: {dependency} ({section})"));
                }
            }
        }
    }
    assert!(
        unused.is_empty(),
        "declared but not named in any code:\n{}",
        unused.join("\n")
    );
}

#[test]
fn the_workspace_declares_only_what_a_crate_uses() {
    let manifest = read("Cargo.toml");
    let used: String = crates()
        .iter()
        .map(|name| read(&format!("crates/{name}/Cargo.toml")))
        .collect();
    let unused: Vec<String> = declared(&manifest, "workspace.dependencies")
        .into_iter()
        .filter(|name| {
            !used.contains(&format!("\n{name}.workspace"))
                && !used.contains(&format!("\n{name} = "))
        })
        .collect();
    assert!(
        unused.is_empty(),
        "no crate uses these workspace dependencies: {unused:?}"
    );
}
