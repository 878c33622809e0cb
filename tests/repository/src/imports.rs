//! Rule: within a crate, modules with the same parent form no import cycle, so that each can be
//! read after those that it uses.
//!
//! A child may use items of its parent: that is how Rust shares a folder's types.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{crates, exceptions};
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

/// The listed cycles: `crate::parent: module module …`.
fn known() -> Vec<(String, BTreeSet<String>)> {
    let parse = |line: &String| {
        let (place, members) = line.split_once(": ").expect("PLACE: MODULES");
        let members = members.split_whitespace().map(str::to_owned);
        (place.to_owned(), members.collect())
    };
    exceptions("import-cycles.txt").iter().map(parse).collect()
}

#[test]
fn modules_form_no_new_import_cycle() {
    let known = known();
    let mut new = Vec::new();
    for name in crates() {
        for (parent, references) in ModuleTree::of(&name).references() {
            let place = [&[name.clone()][..], &parent].concat().join("::");
            for cycle in cycles(&references) {
                let is_known = known
                    .iter()
                    .any(|(listed, members)| *listed == place && cycle.is_subset(members));
                if !is_known {
                    let members: Vec<String> = cycle.into_iter().collect();
                    new.push(format!("{place}: {}", members.join(" ")));
                }
            }
        }
    }
    assert!(
        new.is_empty(),
        "import cycles that tests/repository/ratchet/import-cycles.txt does not list:\n{}",
        new.join("\n")
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
