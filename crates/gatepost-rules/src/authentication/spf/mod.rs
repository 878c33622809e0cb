//! SPF: whether a domain permits an address to send its mail (RFC 7208).

mod check;
mod lookup;
mod macros;
mod record;

pub(crate) use check::{SpfSender, check_host};
pub use lookup::SpfLookup;

/// The policy of a domain for an address, RFC 7208, section 2.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpfResult {
    None,
    Neutral,
    Pass,
    Fail,
    SoftFail,
    TempError,
    PermError,
}

impl SpfResult {
    /// The result with this name, as in `Received-SPF`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "neutral" => Self::Neutral,
            "pass" => Self::Pass,
            "fail" | "hardfail" => Self::Fail,
            "softfail" => Self::SoftFail,
            "temperror" | "error" => Self::TempError,
            "permerror" => Self::PermError,
            _ => return None,
        })
    }
}
