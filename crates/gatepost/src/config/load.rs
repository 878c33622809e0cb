//! From layers to settings, with every mistake found in one go.

use serde::de::DeserializeOwned;
use toml::Value;

use super::layers::{Layers, join_key};
use super::mistake::{Mistake, unknown_key};

/// A file with more mistakes than this is not a config; the rest is not looked for.
const MISTAKES_MAX: usize = 50;

/// Reads the settings out of the layers. After a mistake its key is left out and reading starts
/// again, so that one run of `gatepost check` shows all there are.
pub(super) fn settings<T: DeserializeOwned>(layers: &mut Layers) -> Result<T, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    loop {
        let value = Value::Table(layers.values.clone());
        match serde_path_to_error::deserialize::<_, T>(value) {
            Ok(settings) if mistakes.is_empty() => return Ok(settings),
            Ok(_) => return Err(mistakes),
            Err(error) => {
                let (key, mistake) = describe(layers, &error);
                let seen_before = mistakes.contains(&mistake);
                mistakes.push(mistake);
                if seen_before || mistakes.len() >= MISTAKES_MAX || !layers.remove(&key) {
                    return Err(mistakes);
                }
            }
        }
    }
}

fn describe(
    layers: &Layers,
    error: &serde_path_to_error::Error<toml::de::Error>,
) -> (String, Mistake) {
    let mut key = String::new();
    for segment in error.path() {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Map { key: name } => key = join_key(&key, name),
            Segment::Seq { index } => key = join_key(&key, &index.to_string()),
            Segment::Enum { variant } => key = join_key(&key, variant),
            Segment::Unknown => {}
        }
    }
    let message = error.inner().message();
    let reason = match unknown_key(message) {
        Some((name, mend)) => {
            let last = join_key("", &name);
            if key != last && !key.ends_with(&format!(".{last}")) {
                key = join_key(&key, &name);
            }
            mend
        }
        None => message.to_owned(),
    };
    let place = layers.origin(&key);
    (key.clone(), Mistake::new(place, key, reason))
}
