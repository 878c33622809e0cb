//! Every code block of the README and of the user guide, exactly as written: settings and
//! procedures are checked, pages are compiled, and commands are run against a server.
//!
//! The info string of a block says how. After the language, `streams` means that each command runs
//! until it is ended, `keys` that the files and programs that settings name are not here, and `not
//! run: REASON` that a test cannot run it. `text` is output, or the configuration of another
//! program.

#[path = "../support/mod.rs"]
mod support;

mod blocks;
mod documents;
mod shell;

use std::collections::BTreeMap;

use blocks::Block;

/// The languages of blocks that are run.
const RUN: [&str; 5] = ["sh", "toml", "lua", "html", "json"];

/// Pages whose blocks without a language are the configurations of other programs; each has a test
/// that runs the programs with them (`recipes`, `xmail`).
const TESTED_WITH_OTHERS: [&str; 2] = ["docs/recipes.md", "docs/calling.md"];

#[test]
fn every_block_is_run_or_has_a_reason() {
    let blocks = blocks::all();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for block in &blocks {
        let kind = match (block.language.as_str(), block.reason()) {
            ("text", _) => "text".to_owned(),
            ("", _) if TESTED_WITH_OTHERS.contains(&block.page.as_str()) => {
                "with others".to_owned()
            }
            (language, None) if RUN.contains(&language) => language.to_owned(),
            (language, Some(reason)) if !reason.is_empty() => format!("{language}, not run"),
            _ => {
                unexplained.push(block.place());
                continue;
            }
        };
        *counts.entry(kind).or_default() += 1;
    }
    println!("{} blocks: {counts:?}", blocks.len());
    assert!(
        unexplained.is_empty(),
        "neither a language that is run nor `not run: REASON`:\n{}",
        unexplained.join("\n")
    );
}

/// The blocks in this language that can be run.
fn runnable(language: &str) -> Vec<Block> {
    let mut blocks = blocks::all();
    blocks.retain(|block| block.runs_as(language));
    blocks
}
