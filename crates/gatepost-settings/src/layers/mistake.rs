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

/// The reason of a refusal in the words of a configuration, for a message of serde.
pub(super) fn plain_reason(message: &str) -> String {
    let plain = wrong_type(message)
        .or_else(|| unknown_name(message))
        .or_else(|| missing_key(message));
    plain.unwrap_or_else(|| message.to_owned())
}

/// "invalid type: integer `5`, expected a string"
fn wrong_type(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ");
    let rest = rest.or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let found = match found.split_once(' ') {
        _ if found == "sequence" => "a list",
        _ if found == "map" => "a table",
        Some(("string", text)) => text,
        _ => found.split('`').nth(1).unwrap_or(found),
    };
    let expected = match expected {
        "a string" | "string" | "a borrowed string" => "text in quotes",
        "path string" => "a path in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other if other.starts_with("struct ") => "a table of settings",
        other => other,
    };
    Some(format!("{found} is not possible here; write {expected}"))
}

/// "unknown variant `xml`, expected `text` or `json`"
fn unknown_name(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown variant `")?;
    let (name, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let (last, others) = known.split_last()?;
    let choice = if others.is_empty() {
        (*last).to_owned()
    } else {
        format!("{} or {last}", others.join(", "))
    };
    Some(format!("'{name}' is not possible here; write {choice}"))
}

/// "missing field `path`"
fn missing_key(message: &str) -> Option<String> {
    let name = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    Some(format!("the key '{name}' is missing"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_the_words_of_a_configuration() {
        for (message, expected) in [
            (
                "invalid type: integer `5`, expected path string",
                "5 is not possible here; write a path in quotes",
            ),
            (
                "invalid type: string \"a\", expected a sequence",
                "\"a\" is not possible here; write a list in brackets",
            ),
            (
                "invalid type: map, expected a string",
                "a table is not possible here; write text in quotes",
            ),
            (
                "invalid value: integer `70000`, expected u16",
                "70000 is not possible here; write a whole number from 0 to 65535",
            ),
            (
                "unknown variant `xml`, expected one of `text`, `json`, `none`",
                "'xml' is not possible here; write text, json or none",
            ),
            ("missing field `path`", "the key 'path' is missing"),
            ("'10' is not a duration", "'10' is not a duration"),
        ] {
            assert_eq!(plain_reason(message), expected, "{message}");
        }
    }
}
