//! The SpamAssassin rule language: parse, compile, scan.

pub mod eval;
pub mod mail;
