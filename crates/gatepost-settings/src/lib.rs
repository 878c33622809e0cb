//! The types of setting values. A unit is part of the value (`"25MB"`, `"30s"`), so a configuration
//! never contains a bare number whose unit must be guessed, and every crate reads sizes, durations
//! and addresses in the same way, with the same error for a mistake. [`layers`] reads a whole
//! configuration.

mod bind;
mod byte_size;
pub mod layers;
mod network;
mod period;

pub use bind::{Bind, MalformedBind};
pub use byte_size::{ByteSize, MalformedByteSize};
pub use network::{MalformedNetwork, PeerNetwork};
pub use period::{MalformedPeriod, Period};

/// Implements Serde through `FromStr` and `Display`: settings are strings in every format.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}
use serde_as_text;

/// Splits `"25 MB"` into its number and its unit, in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}
