//! The modules of a crate and which of them refer to which.
//!
//! A path is resolved as the compiler would: through child modules, and through the re-exports of
//! the modules on its way, so an item that the crate root re-exports counts as an item of the
//! module that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::crate_sources::{ModulePath, Source, child, crate_sources, module_path};
use crate::source::{code, paths};

/// A crate's modules with their code.
pub(crate) struct ModuleTree {
    modules: BTreeMap<ModulePath, Module>,
}

struct Module {
    /// Every path that the module's code names, as written.
    named: Vec<Vec<String>>,
    /// Names that it re-exports, and the paths behind them.
    exported: BTreeMap<String, Vec<String>>,
}

impl ModuleTree {
    /// The modules of a crate in `crates/`, without test modules.
    pub(crate) fn of(crate_name: &str) -> Self {
        Self::parse(&crate_sources(crate_name))
    }

    pub(crate) fn parse(sources: &[Source]) -> Self {
        let mut modules = BTreeMap::new();
        for (file, text) in sources {
            let module = Module::parse(&code(text));
            let entry = modules.entry(module_path(file)).or_insert(Module {
                named: Vec::new(),
                exported: BTreeMap::new(),
            });
            // `lib.rs` and `main.rs` of one crate both are its root.
            entry.named.extend(module.named);
            entry.exported.extend(module.exported);
        }
        Self { modules }
    }

    /// For each parent, the references between its children: from one child's subtree into
    /// another's.
    pub(crate) fn references(&self) -> BTreeMap<ModulePath, BTreeSet<(String, String)>> {
        let mut references: BTreeMap<ModulePath, BTreeSet<(String, String)>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in &module.named {
                let Some(to) = self.resolve(from, path, 0) else {
                    continue;
                };
                let shared = from.iter().zip(&to).take_while(|(one, other)| one == other);
                let shared = shared.count();
                if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
                    let pair = (one.clone(), other.clone());
                    references
                        .entry(from[..shared].to_vec())
                        .or_default()
                        .insert(pair);
                }
            }
        }
        references
    }

    /// The module that defines what a path in `from` names; `None` for other crates.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        // Re-exports that name each other would never end.
        const DEPTH_MAX: usize = 8;
        let mut at: ModulePath = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            name if self.modules.contains_key(&child(from, name)) => child(from, name),
            _ => return None,
        };
        for (index, name) in path.iter().enumerate().skip(1) {
            if name == "super" {
                at.pop();
            } else if self.modules.contains_key(&child(&at, name)) {
                at = child(&at, name);
            } else {
                let behind = self
                    .modules
                    .get(&at)
                    .and_then(|module| module.exported.get(name));
                return match behind {
                    Some(behind) if depth < DEPTH_MAX => {
                        let path = [behind, &path[index + 1..]].concat();
                        self.resolve(&at, &path, depth + 1).or(Some(at))
                    }
                    _ => Some(at),
                };
            }
        }
        Some(at)
    }
}

impl Module {
    fn parse(code: &str) -> Self {
        let mut exported = BTreeMap::new();
        for declaration in code.split(';') {
            let Some(at) = declaration.find("use ") else {
                continue;
            };
            if declaration[..at]
                .trim_end()
                .lines()
                .last()
                .is_some_and(is_visibility)
            {
                for path in paths(&format!("{};", &declaration[at..])) {
                    if let Some(name) = path.last() {
                        exported.insert(name.clone(), path.clone());
                    }
                }
            }
        }
        Self {
            named: paths(code),
            exported,
        }
    }
}

fn is_visibility(line: &str) -> bool {
    line.trim_start().starts_with("pub")
}
