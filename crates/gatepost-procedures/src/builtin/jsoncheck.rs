//! `/jsoncheck`: checks that a payload is JSON, and conforms to a JSON Schema (drafts 4 to
//! 2020-12).

use std::path::PathBuf;

use gatepost_message::{Action, Format, Verdict};
use gatepost_topics::JsonSchema;
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
    schema: Option<JsonSchema>,
    action: Action,
}

impl Jsoncheck {
    /// Reads and compiles the schema; a mistake names the file and the place in it.
    pub(crate) fn new(settings: &JsoncheckSettings) -> Result<Self, String> {
        let schema = settings.schema.as_deref().map(JsonSchema::read);
        Ok(Self {
            schema: schema.transpose()?,
            action: settings.action,
        })
    }

    fn complaint(&self, payload: &[u8]) -> Option<String> {
        match &self.schema {
            Some(schema) => schema.violation(payload),
            None => JsonSchema::syntax_error(payload),
        }
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
            Some(reason) => Verdict::new(self.action, reason).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_schema_a_payload_need_only_be_json() {
        let check = Jsoncheck::new(&JsoncheckSettings::default()).expect("a check");
        assert_eq!(check.complaint(b"[1]"), None);
        let problem = check.complaint(b"[1").expect("refused");
        assert!(problem.contains("not JSON: EOF"), "{problem}");
    }
}
