//! The procedures that Gatepost brings along, one file each.

mod noop;
mod sizecheck;
mod spamcheck;
mod status;

pub(crate) use noop::Noop;
pub(crate) use sizecheck::Sizecheck;
pub use sizecheck::SizecheckSettings;
pub use spamcheck::SpamcheckSettings;
pub(crate) use spamcheck::{Spamcheck, scan, verdict};
pub(crate) use status::StatusReport;

/// The paths.
pub(crate) mod names {
    pub(crate) const NOOP: &str = "/noop";
    pub(crate) const SIZECHECK: &str = "/sizecheck";
    pub(crate) const SPAMCHECK: &str = "/spamcheck";
    pub(crate) const STATUS: &str = "/status";
    pub(crate) const ALL: [&str; 4] = [NOOP, SIZECHECK, SPAMCHECK, STATUS];
}
