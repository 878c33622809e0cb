//! A mistake in the configuration: its place, its cause and a suggested fix.

use std::fmt;

/// One mistake. Shown as `gatepost.toml:12: listeners.mqtt.bnd: unknown key; did you mean 'bind'?`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// File and line, variable or flag.
    pub place: String,
    /// The dotted key; empty if the text is not TOML.
    pub key: String,
    /// The cause and a suggested fix.
    pub reason: String,
}

impl Mistake {
    /// A mistake at `place`: file and line, a variable or a flag.
    pub fn new(
        place: impl fmt::Display,
        key: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            place: place.to_string(),
            key: key.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        formatter.write_str(&self.reason)
    }
}

/// Extracts the unknown key and a suggestion from serde's "unknown field" error.
pub(super) fn unknown_key(message: &str) -> Option<(String, String)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|&(distance, known)| distance <= known.len().max(3) / 2);
    let fix = match nearest {
        Some((_, known)) => format!("unknown key; did you mean '{known}'?"),
        None if known.is_empty() => "unknown key; there are none here".to_owned(),
        None => format!("unknown key; there are {}", known.join(", ")),
    };
    Some((name.to_owned(), fix))
}
