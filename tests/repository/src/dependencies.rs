//! Rules: a crate declares only dependencies that its code names, and what only tests depend on
//! adds no feature to what the programs are built of.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

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

/// The features of each package of a build: the package and its version, and one set for each way
/// in which it is compiled.
fn features_of(selection: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(["--format", "{p}\t{f}"])
        .args(selection)
        .output()
        .expect("cargo runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let mut packages = BTreeMap::<String, BTreeSet<String>>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (package, features) = line.split_once('\t').unwrap_or((line, ""));
        let features = features.trim_end_matches(" (*)").to_owned();
        packages
            .entry(package.to_owned())
            .or_default()
            .insert(features);
    }
    packages
}

/// Otherwise `make test` would compile the server's crates twice: for the programs, and for the
/// tests of the whole workspace.
#[test]
fn tests_add_no_feature_to_what_programs_are_built_of() {
    let programs = ["-p", "gatepost", "-p", "gatepost-bench"];
    let of_programs = features_of(&[&programs[..], &["--edges", "normal,build"]].concat());
    let of_tests = features_of(&["--workspace", "--edges", "normal,build,dev"]);
    assert!(of_programs.len() > 100, "{of_programs:?}");
    let added: Vec<String> = of_programs
        .iter()
        .filter(|(package, features)| of_tests.get(*package) != Some(features))
        .map(|(package, features)| format!("{package}: {features:?}, {:?}", of_tests.get(package)))
        .collect();
    assert!(
        added.is_empty(),
        "with other features in tests:\n{}",
        added.join("\n")
    );
}
