//! Storing results: a folder to which every run is added, its trend, and documents made from it.
//!
//! The folder contains one report for each series, `SCENARIO/TIME-COMMIT.json`, so that it can be
//! kept in a repository and merged without conflicts: no file in it is ever written twice.

mod folder;
mod ratios;
mod tables;
mod trend;

pub use folder::{RecordArguments, keep, record};
pub use tables::{TablesArguments, renew_tables};
pub use trend::{TrendArguments, trend};
