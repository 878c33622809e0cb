//! `/sizecheck`: compares a message's size with a maximum.

use gatepost_message::{Action, Verdict};
use gatepost_settings::ByteSize;
use serde::{Deserialize, Serialize};

use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// `[procedure."/sizecheck"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct SizecheckSettings {
    /// The largest message that passes.
    pub max: ByteSize,
}

impl Default for SizecheckSettings {
    fn default() -> Self {
        Self {
            max: ByteSize::megabytes(25),
        }
    }
}

pub(crate) struct Sizecheck(pub(crate) SizecheckSettings);

impl Procedure for Sizecheck {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn is_cheap(&self) -> bool {
        true
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let (size, max) = (call.message.size, self.0.max);
        if size <= max.bytes() {
            return Ok(Verdict::accept().into());
        }
        let reason = format!("the message has {size} bytes, more than the maximum of {max}");
        Ok(Verdict::new(Action::Reject, reason).into())
    }
}
