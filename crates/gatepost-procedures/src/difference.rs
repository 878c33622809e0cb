//! The changes of a reload: added, removed and changed procedures and scopes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::Serialize;

use crate::ProceduresConfiguration;
use crate::luau::ProcedureFolder;
use crate::set::ProcedureSet;

/// Names that were added, removed or changed; each list is sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NameChanges {
    /// The added names.
    pub added: Vec<String>,
    /// The removed names.
    pub removed: Vec<String>,
    /// The names with a changed meaning.
    pub changed: Vec<String>,
}

impl NameChanges {
    /// Compares the values of names.
    pub fn between<V: PartialEq>(
        before: &BTreeMap<String, V>,
        after: &BTreeMap<String, V>,
    ) -> Self {
        let missing_in = |names: &BTreeMap<String, V>, others: &BTreeMap<String, V>| {
            let names = names.keys().filter(|name| !others.contains_key(*name));
            names.cloned().collect()
        };
        let is_other = |(name, value): &(&String, &V)| {
            before.get(*name).is_some_and(|before| before != *value)
        };
        Self {
            added: missing_in(after, before),
            removed: missing_in(before, after),
            changed: after
                .iter()
                .filter(is_other)
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// The changes of another configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Procedures by path: their files and their settings.
    pub procedures: NameChanges,
    /// Scopes by path: their conditions, their procedures, and their order.
    pub scopes: NameChanges,
}

impl Difference {
    pub(crate) fn between(before: &ProcedureSet, after: &ProcedureSet) -> Self {
        Self {
            procedures: NameChanges::between(&procedures(before), &procedures(after)),
            scopes: NameChanges::between(&scopes(before), &scopes(after)),
        }
    }
}

fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// The parts of each procedure, as text that changes when any of them does.
fn procedures(set: &ProcedureSet) -> BTreeMap<String, String> {
    let ProceduresConfiguration {
        procedures, table, ..
    } = &*set.configuration;
    let file = |path: &str| ProcedureFolder::stamp(&set.folder, path);
    let made_of = |path: &str| {
        let own = table.luau.get(path).unwrap_or(&procedures.luau);
        let builtin = match path {
            "/spamcheck" => text(&table.spamcheck),
            _ => String::new(),
        };
        format!("{} {builtin} {}", file(path), text(own))
    };
    let paths: BTreeSet<&str> = set.paths().collect();
    let paths = paths.into_iter();
    paths.map(|path| (path.to_owned(), made_of(path))).collect()
}

fn scopes(set: &ProcedureSet) -> BTreeMap<String, String> {
    let scopes = set.configuration.scopes.iter().enumerate();
    // The first matching scope judges, so the order is part of a scope's meaning.
    scopes
        .map(|(place, scope)| (scope.path.clone(), format!("{place} {}", text(scope))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_go_and_change() {
        let of = |pairs: &[(&str, u8)]| -> BTreeMap<String, u8> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let changed = NameChanges::between(
            &of(&[("a", 1), ("b", 1), ("c", 1)]),
            &of(&[("b", 2), ("c", 1), ("d", 1)]),
        );
        assert_eq!(changed.added, ["d"]);
        assert_eq!(changed.removed, ["a"]);
        assert_eq!(changed.changed, ["b"]);
        assert!(NameChanges::between(&of(&[("a", 1)]), &of(&[("a", 1)])).is_empty());
    }
}
