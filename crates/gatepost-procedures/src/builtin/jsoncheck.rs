//! `/jsoncheck`: checks that a payload is JSON, and conforms to a JSON Schema (drafts 4 to
//! 2020-12).

use std::path::PathBuf;

use gatepost_message::{Action, Format, Verdict};
use jsonschema::Validator;
use serde::{Deserialize, Serialize};

use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// `[procedure."/jsoncheck"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct JsoncheckSettings {
    /// The file of the schema; without one a payload need only be JSON. References to other files
    /// and to the web are not followed.
    pub schema: Option<PathBuf>,
    /// The action for a payload that does not conform to the schema.
    #[serde(with = "crate::text_values")]
    pub action: Action,
}

impl Default for JsoncheckSettings {
    fn default() -> Self {
        Self {
            schema: None,
            action: Action::Reject,
        }
    }
}

pub(crate) struct Jsoncheck {
    schema: Option<(String, Validator)>,
    action: Action,
}

impl Jsoncheck {
    /// Reads and compiles the schema; a mistake names the file and the place in it.
    pub(crate) fn new(settings: &JsoncheckSettings) -> Result<Self, String> {
        let compile = |file: &PathBuf| {
            let place = file.display().to_string();
            let text = std::fs::read(file).map_err(|error| format!("{place}: {error}"))?;
            let schema: serde_json::Value = serde_json::from_slice(&text)
                .map_err(|error| format!("{place}:{}: {error}", error.line()))?;
            let validator = jsonschema::validator_for(&schema).map_err(|error| {
                let at = error.instance_path().to_string();
                format!("{place}: not a JSON Schema: {error} (at {at:?})")
            })?;
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            Ok::<_, String>((name.into_owned(), validator))
        };
        Ok(Self {
            schema: settings.schema.as_ref().map(compile).transpose()?,
            action: settings.action,
        })
    }

    fn complaint(&self, payload: &[u8]) -> Option<String> {
        let value: serde_json::Value = match serde_json::from_slice(payload) {
            Ok(value) => value,
            Err(error) => return Some(format!("the payload is not JSON: {error}")),
        };
        let (name, validator) = self.schema.as_ref()?;
        let error = validator.validate(&value).err()?;
        let at = match error.instance_path().to_string() {
            at if at.is_empty() => "the top".to_owned(),
            at => at,
        };
        Some(format!(
            "the payload does not conform to {name}: at {at}: {error}"
        ))
    }
}

impl Procedure for Jsoncheck {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        if call.message.format == Format::Mail {
            return Ok(Verdict::accept().into());
        }
        Ok(match self.complaint(&call.message.body) {
            None => Verdict::accept().into(),
            Some(reason) => Verdict::new(self.action, one_line(&reason)).into(),
        })
    }
}

/// An error text quotes the payload, which may contain anything and be long.
fn one_line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 300;
    let plain = text.chars().take(CHARACTERS_MAX);
    plain
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, payload: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reading.json");
        std::fs::write(&file, schema).expect("written");
        let settings = JsoncheckSettings {
            schema: Some(file),
            ..JsoncheckSettings::default()
        };
        Jsoncheck::new(&settings)
            .expect("a schema")
            .complaint(payload.as_bytes())
    }

    const SCHEMA: &str = r#"{"type": "object", "required": ["celsius"],
        "properties": {"celsius": {"type": "number", "minimum": -90, "maximum": 60}}}"#;

    #[test]
    fn payloads_are_validated_and_violations_reported_with_their_place() {
        assert_eq!(check(SCHEMA, r#"{"celsius": 21.5}"#), None);
        let problem = check(SCHEMA, r#"{"celsius": "hot"}"#).expect("refused");
        assert!(
            problem.contains("reading.json: at /celsius: \"hot\""),
            "{problem}"
        );
        let problem = check(SCHEMA, "{}").expect("refused");
        assert!(problem.contains("at the top: \"celsius\""), "{problem}");
        let problem = check(SCHEMA, "{\"celsius\": ").expect("refused");
        assert!(
            problem.contains("not JSON: EOF") && problem.contains("line 1"),
            "{problem}"
        );
    }

    #[test]
    fn a_schema_with_a_mistake_is_named() {
        let problem = |text: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("broken.json");
            std::fs::write(&file, text).expect("written");
            let settings = JsoncheckSettings {
                schema: Some(file),
                ..JsoncheckSettings::default()
            };
            Jsoncheck::new(&settings).err().expect("a mistake")
        };
        assert!(problem("{\n\"type\": \n}").contains("broken.json:3: "));
        assert!(problem(r#"{"type": "thing"}"#).contains("broken.json: not a JSON Schema"));
        // Nothing is fetched.
        assert!(problem(r#"{"$ref": "http://127.0.0.1:1/x.json"}"#).contains("not a JSON Schema"));
    }
}
