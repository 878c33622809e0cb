//! Rule: within a crate, modules with the same parent form no import cycle, so that each can be
//! read after those that it uses.
//!
//! A child may use items of its parent: that is how Rust shares a folder's types.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::crates;
use crate::module_tree::ModuleTree;

type References = BTreeSet<(String, String)>;

/// Sets of modules each of which reaches every other.
fn cycles(references: &References) -> Vec<BTreeSet<String>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in references {
        reached.entry(from).or_default().insert(to);
    }
    loop {
        let known = reached.clone();
        for targets in reached.values_mut() {
            let further = targets.iter().filter_map(|target| known.get(target));
            let further: BTreeSet<&str> = further.flatten().copied().collect();
            targets.extend(further);
        }
        if reached == known {
            break;
        }
    }
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for from in reached.keys().filter(|one| reaches(one, one)) {
        if !cycles.iter().any(|cycle| cycle.contains(*from)) {
            let members = reached
                .keys()
                .filter(|to| reaches(from, to) && reaches(to, from));
            cycles.push(members.map(|member| (*member).to_owned()).collect());
        }
    }
    cycles
}

/// The cycles of a crate as texts: "crate::parent: children".
fn cycles_of(crate_name: &str, modules: &ModuleTree) -> Vec<String> {
    let mut found = Vec::new();
    for (parent, references) in modules.references() {
        let place = [&[crate_name.to_owned()][..], &parent].concat().join("::");
        for cycle in cycles(&references) {
            let members: Vec<String> = cycle.into_iter().collect();
            found.push(format!("{place}: {}", members.join(" ")));
        }
    }
    found
}

#[test]
fn modules_form_no_import_cycle() {
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|name| cycles_of(name, &ModuleTree::of(name)))
        .collect();
    assert!(
        found.is_empty(),
        "modules that import each other:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_cycle_is_found_and_a_chain_is_none() {
    let pairs = |pairs: &[(&str, &str)]| -> References {
        let owned = pairs
            .iter()
            .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        owned.collect()
    };
    assert_eq!(
        cycles(&pairs(&[("a", "b"), ("b", "c")])),
        Vec::<BTreeSet<String>>::new()
    );
    let found = cycles(&pairs(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}

#[test]
fn a_cycle_is_found_in_source_text() {
    let chain = [
        ("lib.rs", "mod one;\nmod two;\npub use one::First;\n"),
        (
            "one.rs",
            "pub struct First;\n#[cfg(test)]\nmod tests {\n    use crate::two::b;\n}\n",
        ),
        ("two/mod.rs", "mod a;\nmod b;\nuse crate::First;\n"),
        ("two/a.rs", "use super::b::B;\n"),
        ("two/b.rs", "pub struct B;\n"),
    ];
    // A name in the code, a group of imports, and a path through a re-export of the crate root.
    for (file, added, expected) in [
        ("lib.rs", "fn main() { two::a::run() }", None),
        ("two/b.rs", "fn up(a: super::a::A) {}", Some("x::two: a b")),
        (
            "two/b.rs",
            "pub(crate) use super::{C, a::{A}};",
            Some("x::two: a b"),
        ),
        ("one.rs", "use crate::two;", Some("x: one two")),
        ("two/b.rs", "use crate::First;", None),
        ("one.rs", "// use crate::two;", None),
    ] {
        let sources = chain.map(|(name, text)| {
            let added = if name == file { added } else { "" };
            (format!("crates/x/src/{name}"), format!("{text}{added}\n"))
        });
        let found = cycles_of("x", &ModuleTree::parse(&sources));
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(found, expected, "{file}: {added}");
    }
}
