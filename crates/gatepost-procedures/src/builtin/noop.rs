//! `/noop`: accepts. Measures the cost of a call itself.

use gatepost_message::Verdict;

use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

pub(crate) struct Noop;

impl Procedure for Noop {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn is_cheap(&self) -> bool {
        true
    }

    fn judge(&self, _: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        Ok(Verdict::accept().into())
    }
}
