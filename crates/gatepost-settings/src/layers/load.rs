//! Converts layers to settings and reports all mistakes at once.

use serde::de::DeserializeOwned;
use toml::Value;

use super::mistake::{Mistake, plain_reason, unknown_key};
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
            match serde_path_to_error::deserialize::<_, T>(value) {
                Ok(settings) => return (Some(settings), mistakes),
                Err(error) => {
                    let (steps, mistake) = describe(self, &error);
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
fn describe(
    layers: &Layers,
    error: &serde_path_to_error::Error<toml::de::Error>,
) -> (Vec<String>, Mistake) {
    let mut steps = Vec::new();
    for segment in error.path() {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                steps.push(name.clone());
            }
            Segment::Seq { index } => steps.push(index.to_string()),
            Segment::Unknown => {}
        }
    }
    let message = error.inner().message();
    let reason = match unknown_key(message) {
        Some((name, fix)) => {
            if steps.last() != Some(&name) {
                steps.push(name);
            }
            fix
        }
        None => plain_reason(message),
    };
    let key = steps
        .iter()
        .fold(String::new(), |above, step| join_key(&above, step));
    let place = layers.origin(&key);
    (steps, Mistake::new(place, key, reason))
}
