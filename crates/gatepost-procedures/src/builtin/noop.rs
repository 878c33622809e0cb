//! `/noop`: accepts. Measures what a call costs by itself.

use gatepost_message::Verdict;

use crate::procedure::{Answer, Call, Failure, Needs, Procedure};

pub(crate) struct Noop;

impl Procedure for Noop {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn is_cheap(&self) -> bool {
        true
    }

    fn judge(&self, _: &Call<'_>) -> Result<Answer, Failure> {
        Ok(Verdict::accept().into())
    }
}
