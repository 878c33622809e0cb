//! JSON Schema: payloads that conform, and the reason why others do not.

use std::path::Path;

use jsonschema::Validator;

/// Characters of an error's text: it quotes the payload, which may contain anything and be long.
const TEXT_CHARACTERS_MAX: usize = 300;

/// A compiled schema (drafts 4 to 2020-12). References to other files and to the web are not
/// followed.
#[derive(Debug)]
pub struct JsonSchema {
    name: String,
    validator: Validator,
}

impl JsonSchema {
    /// Reads and compiles the schema; an error names the file and the place in it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let place = file.display().to_string();
        let text = std::fs::read(file).map_err(|error| format!("{place}: {error}"))?;
        let schema: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| format!("{place}:{}: {error}", error.line()))?;
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            let at = error.instance_path().to_string();
            format!("{place}: not a JSON Schema: {error} (at {at:?})")
        })?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            validator,
        })
    }

    /// The reason why `payload` does not conform, in one line.
    pub fn violation(&self, payload: &[u8]) -> Option<String> {
        let value = match parsed(payload) {
            Ok(value) => value,
            Err(reason) => return Some(reason),
        };
        let error = self.validator.validate(&value).err()?;
        let at = match error.instance_path().to_string() {
            at if at.is_empty() => "the top".to_owned(),
            at => at,
        };
        let name = &self.name;
        Some(one_line(&format!(
            "the payload does not conform to {name}: at {at}: {error}"
        )))
    }

    /// The reason why `payload` is not JSON, in one line.
    pub fn syntax_error(payload: &[u8]) -> Option<String> {
        parsed(payload).err()
    }
}

fn parsed(payload: &[u8]) -> Result<serde_json::Value, String> {
    serde_json::from_slice(payload)
        .map_err(|error| one_line(&format!("the payload is not JSON: {error}")))
}

fn one_line(text: &str) -> String {
    let plain = text.chars().take(TEXT_CHARACTERS_MAX);
    plain
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "object", "required": ["celsius"],
        "properties": {"celsius": {"type": "number", "minimum": -90, "maximum": 60}}}"#;

    fn schema(text: &str) -> Result<JsonSchema, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reading.json");
        std::fs::write(&file, text).expect("written");
        JsonSchema::read(&file)
    }

    #[test]
    fn payloads_are_validated_and_violations_reported_with_their_place() {
        let schema = schema(SCHEMA).expect("a schema");
        let violation = |payload: &str| schema.violation(payload.as_bytes());
        assert_eq!(violation(r#"{"celsius": 21.5}"#), None);
        let problem = violation(r#"{"celsius": "hot"}"#).expect("refused");
        assert!(
            problem.contains("reading.json: at /celsius: \"hot\""),
            "{problem}"
        );
        let problem = violation("{}").expect("refused");
        assert!(problem.contains("at the top: \"celsius\""), "{problem}");
        let problem = violation("{\"celsius\": ").expect("refused");
        assert!(
            problem.contains("not JSON: EOF") && problem.contains("line 1"),
            "{problem}"
        );
        let long = format!(r#"{{"celsius": "{}\n"}}"#, "x".repeat(10_000));
        let problem = violation(&long).expect("refused");
        assert_eq!(problem.chars().count(), TEXT_CHARACTERS_MAX);
    }

    #[test]
    fn a_schema_with_a_mistake_is_named() {
        let problem = |text: &str| schema(text).expect_err("a mistake");
        assert!(problem("{\n\"type\": \n}").contains("reading.json:3: "));
        assert!(problem(r#"{"type": "thing"}"#).contains("reading.json: not a JSON Schema"));
        // Nothing is fetched.
        assert!(problem(r#"{"$ref": "http://127.0.0.1:1/x.json"}"#).contains("not a JSON Schema"));
    }
}
