//! The SpamAssassin rule language: parse, compile, scan.
