//! Converts layers to settings and reports all mistakes at once.

use serde::de::DeserializeOwned;
use toml::Value;

use super::mistake::{Mistake, plain_reason, unknown_key};
use super::values::{Refusal, ValueReader};
use super::{Layers, join_key};

/// A file with more mistakes than this is not a configuration; further mistakes are not searched
/// for.
const MISTAKES_MAX: usize = 50;

impl Layers {
    /// Reads the settings from the layers. After a mistake its key is removed and reading starts
    /// again, so that one run of `gatepost check` reports all mistakes.
    ///
    /// # Errors
    /// All mistakes, in the order of the keys.
    pub fn settings<T: DeserializeOwned>(&mut self) -> Result<T, Vec<Mistake>> {
        match self.settings_without_mistakes() {
            (Some(settings), mistakes) if mistakes.is_empty() => Ok(settings),
            (_, mistakes) => Err(mistakes),
        }
    }

    /// Reads the settings as if the keys with mistakes were not written, so that the rest can be
    /// checked; `None` if that is impossible.
    pub fn settings_without_mistakes<T: DeserializeOwned>(&mut self) -> (Option<T>, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        loop {
            let value = Value::Table(self.values.clone());
            match T::deserialize(ValueReader(value)) {
                Ok(settings) => return (Some(settings), mistakes),
                Err(refusal) => {
                    let (steps, mistake) = describe(self, refusal);
                    let seen_before = mistakes.contains(&mistake);
                    mistakes.push(mistake);
                    if seen_before || mistakes.len() >= MISTAKES_MAX || !self.remove(&steps) {
                        return (None, mistakes);
                    }
                }
            }
        }
    }
}

/// The path to the value that serde refused, and the reason.
fn describe(layers: &Layers, refusal: Refusal) -> (Vec<String>, Mistake) {
    let (mut steps, message) = refusal.into_parts();
    let reason = match unknown_key(&message) {
        Some((name, fix)) => {
            if steps.last() != Some(&name) {
                steps.push(name);
            }
            fix
        }
        None => plain_reason(&message),
    };
    let key = steps
        .iter()
        .fold(String::new(), |above, step| join_key(&above, step));
    let place = layers.origin(&key);
    (steps, Mistake::new(place, key, reason))
}
