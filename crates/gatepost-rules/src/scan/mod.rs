//! One message through all rules.

mod context;

pub use context::ScanContext;
