//! Tests of the rules that the repository sets itself: CONTRIBUTING.md states them, and each
//! module here enforces one.
//!
//! The crate has no dependencies and ships nothing. It reads the source tree as text, so it also
//! covers crates and files that are not compiled on this platform.
//!
//! Two rules have exceptions: `ratchet/words.txt` says how often each unclear word may occur, and
//! `ratchet/methods.txt` which types have methods in other files, and why.

#![cfg(test)]

mod crate_sources;
mod dependencies;
mod documents;
mod files;
mod imports;
mod layout;
mod lengths;
mod methods;
mod module_tree;
mod public_items;
mod settings;
mod source;
mod style;
mod type_names;
mod words;
