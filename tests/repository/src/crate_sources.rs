//! The source files of a crate as modules, without those that contain unit tests only.
//!
//! A module is for tests if its declaration says so (`#[cfg(test)] mod name;`), not if its file is
//! named after tests: `dns_tests.rs` is about SpamAssassin's DNS tests.

use crate::files::{below, crates, read};

/// A module's path within its crate; the crate root is empty.
pub(crate) type ModulePath = Vec<String>;

/// A file's path and its text.
pub(crate) type Source = (String, String);

/// The library and the binary of a crate in `crates/`, without test modules.
pub(crate) fn crate_sources(crate_name: &str) -> Vec<Source> {
    let files = below(&format!("crates/{crate_name}/src"), "rs");
    let sources = files.into_iter().map(|file| {
        let text = read(&file);
        (file, text)
    });
    without_test_modules(sources.collect())
}

/// The crate sources of the workspace, with the names of the crates.
pub(crate) fn all_crate_sources() -> impl Iterator<Item = (String, Source)> {
    crates().into_iter().flat_map(|name| {
        let sources = crate_sources(&name).into_iter();
        sources.map(move |source| (name.clone(), source))
    })
}

/// The files of one crate without those of modules that are compiled for tests only.
pub(crate) fn without_test_modules(mut sources: Vec<Source>) -> Vec<Source> {
    let mut test_modules: Vec<ModulePath> = Vec::new();
    for (file, text) in &sources {
        let path = module_path(file);
        test_modules.extend(declared_for_tests(text).map(|name| child(&path, name)));
    }
    sources.retain(|(file, _)| {
        let path = module_path(file);
        !test_modules.iter().any(|test| path.starts_with(test))
    });
    sources
}

pub(crate) fn child(parent: &[String], name: &str) -> ModulePath {
    [parent, &[name.to_owned()]].concat()
}

/// The module of a file in `src`: that of `http/mod.rs` and `http.rs` is `http`, that of `lib.rs`
/// and `main.rs` is the root.
pub(crate) fn module_path(file: &str) -> ModulePath {
    let (_, file) = file.split_once("/src/").unwrap_or(("", file));
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
        let (visibility, name) = declaration.split_once("mod ")?;
        let is_declaration = visibility.is_empty() || visibility.starts_with("pub");
        name.strip_suffix(';').filter(|_| is_declaration)
    })
}

#[test]
fn files_are_modules() {
    assert_eq!(module_path("crates/a/src/lib.rs"), Vec::<String>::new());
    assert_eq!(module_path("crates/a/src/http/mod.rs"), ["http"]);
    let parser = module_path("crates/a/src/http/parser.rs");
    assert_eq!(parser, ["http", "parser"]);
}

#[test]
fn files_of_test_modules_are_left_out() {
    let root = "mod dns_tests;\n#[cfg(test)]\n#[allow(dead_code)]\npub(crate) mod fixtures;\n\
        #[cfg(test)]\nmod tests {\n}\n";
    let sources = [
        ("crates/a/src/dns_tests.rs", "#[cfg(test)]\nmod cases;\n"),
        ("crates/a/src/dns_tests/cases.rs", ""),
        ("crates/a/src/fixtures/mod.rs", "mod inner;\n"),
        ("crates/a/src/fixtures/inner.rs", ""),
        ("crates/a/src/lib.rs", root),
    ];
    let sources = sources.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let kept = without_test_modules(sources.to_vec());
    let kept: Vec<&str> = kept.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(kept, ["crates/a/src/dns_tests.rs", "crates/a/src/lib.rs"]);
}
