//! Rule: a module with child modules is a folder with `mod.rs`, so that a folder contains all of
//! its module.

use std::collections::BTreeSet;

use crate::files::below;

#[test]
fn a_module_with_children_is_a_folder_with_mod_rs() {
    let files: Vec<String> = ["crates", "tests"]
        .iter()
        .flat_map(|folder| below(folder, "rs"))
        .filter(|file| file.contains("/src/"))
        .collect();
    let folders: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| Some(file.rsplit_once('/')?.0))
        .collect();
    let beside: Vec<&str> = files
        .iter()
        .filter(|file| folders.contains(file.trim_end_matches(".rs")))
        .map(String::as_str)
        .collect();
    assert!(
        beside.is_empty(),
        "to be moved into their folder as `mod.rs`:\n{}",
        beside.join("\n")
    );
}
