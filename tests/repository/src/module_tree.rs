//! The modules of a crate and which of them refer to which.
//!
//! A path is resolved as the compiler would: through child modules, and through the re-exports of
//! the modules on its way, so an item that the crate root re-exports counts as an item of the
//! module that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::files;
use crate::source::{code, paths};

/// A module's path within its crate; the crate root is empty.
pub(crate) type ModulePath = Vec<String>;

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
    /// The library and the binary of a crate in `crates/`, without test modules.
    pub(crate) fn of(crate_name: &str) -> Self {
        let folder = format!("crates/{crate_name}/src/");
        let mut modules = BTreeMap::new();
        let mut test_modules = Vec::new();
        for file in files::below(&folder, "rs") {
            let path = module_path(file.strip_prefix(&folder).unwrap_or(&file));
            let text = files::read(&file);
            test_modules.extend(declared_for_tests(&text).map(|name| child(&path, name)));
            let module = Module::parse(&code(&text));
            let entry = modules.entry(path).or_insert(Module {
                named: Vec::new(),
                exported: BTreeMap::new(),
            });
            // `lib.rs` and `main.rs` of one crate both are its root.
            entry.named.extend(module.named);
            entry.exported.extend(module.exported);
        }
        let is_test = |path: &ModulePath| test_modules.iter().any(|test| path.starts_with(test));
        modules.retain(|path, _| !is_test(path));
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

fn child(parent: &[String], name: &str) -> ModulePath {
    [parent, &[name.to_owned()]].concat()
}

/// `http/mod.rs` and `http.rs` are `http`; `lib.rs` and `main.rs` are the root.
fn module_path(file: &str) -> ModulePath {
    let file = file.trim_end_matches(".rs");
    let mut path: ModulePath = file.split('/').map(str::to_owned).collect();
    let is_root = matches!(file, "lib" | "main");
    if is_root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Modules in files of their own that are compiled for tests only.
fn declared_for_tests(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let declaration = rest.lines().find(|line| !line.starts_with("#["))?;
        let declaration = declaration.trim_start_matches("pub(crate) ");
        declaration.strip_prefix("mod ")?.strip_suffix(';')
    })
}

#[test]
fn files_are_modules() {
    assert_eq!(module_path("lib.rs"), Vec::<String>::new());
    assert_eq!(module_path("http/mod.rs"), ["http"]);
    assert_eq!(module_path("http/parser.rs"), ["http", "parser"]);
}
