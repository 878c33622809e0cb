//! The built-in procedures, one file each.

pub(crate) mod autoreply;
pub(crate) mod dedupe;
pub(crate) mod greylist;
pub(crate) mod jsoncheck;
pub(crate) mod noop;
pub(crate) mod ratelimit;
pub(crate) mod signature;
pub(crate) mod sizecheck;
pub(crate) mod spamcheck;
pub(crate) mod status;
pub(crate) mod viruscheck;

pub use autoreply::AutoreplySettings;
pub use dedupe::{DedupeKey, DedupeSettings};
pub use greylist::GreylistSettings;
pub use jsoncheck::JsoncheckSettings;
pub use ratelimit::{RatelimitKey, RatelimitSettings};
pub use signature::SignatureSettings;
pub use sizecheck::SizecheckSettings;
pub use spamcheck::SpamcheckSettings;
pub(crate) use spamcheck::{start_scan, verdict, warn_of_limits};
pub use status::StatusSettings;
pub(crate) use status::mail_report;
pub use viruscheck::ViruscheckSettings;

/// The paths.
pub(crate) mod names {
    pub(crate) const AUTOREPLY: &str = "/autoreply";
    pub(crate) const DEDUPE: &str = "/dedupe";
    pub(crate) const GREYLIST: &str = "/greylist";
    pub(crate) const JSONCHECK: &str = "/jsoncheck";
    pub(crate) const NOOP: &str = "/noop";
    pub(crate) const RATELIMIT: &str = "/ratelimit";
    pub(crate) const SIGNATURE: &str = "/signature";
    pub(crate) const SIZECHECK: &str = "/sizecheck";
    pub(crate) const SPAMCHECK: &str = "/spamcheck";
    pub(crate) const STATUS: &str = "/status";
    pub(crate) const VIRUSCHECK: &str = "/viruscheck";
    pub(crate) const ALL: [&str; 11] = [
        AUTOREPLY, DEDUPE, GREYLIST, JSONCHECK, NOOP, RATELIMIT, SIGNATURE, SIZECHECK, SPAMCHECK,
        STATUS, VIRUSCHECK,
    ];
}
