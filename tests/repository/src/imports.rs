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

#[test]
fn modules_form_no_import_cycle() {
    let mut found = Vec::new();
    for name in crates() {
        for (parent, references) in ModuleTree::of(&name).references() {
            let place = [&[name.clone()][..], &parent].concat().join("::");
            for cycle in cycles(&references) {
                let members: Vec<String> = cycle.into_iter().collect();
                found.push(format!("{place}: {}", members.join(" ")));
            }
        }
    }
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
