//! Tests of the rules that the repository sets itself: CONTRIBUTING.md states them, and each
//! module here enforces one.
//!
//! The crate has no dependencies and ships nothing. It reads the source tree as text, so it also
//! covers crates and files that are not compiled on this platform.
//!
//! A rule that the tree does not satisfy everywhere yet has a list of exceptions in `ratchet/`.
//! The tests permit what is listed and nothing else, so the lists can only become shorter.

#![cfg(test)]

mod dependencies;
mod documents;
mod files;
mod imports;
mod layout;
mod lengths;
mod methods;
mod module_tree;
mod public_items;
mod source;
mod style;
mod words;
