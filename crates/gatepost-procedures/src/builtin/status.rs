//! `/status`: what every procedure did since the start, as a table to read.

use gatepost_message::Verdict;

use crate::procedure::{Answer, Call, Failure, Needs, Procedure};

pub(crate) struct StatusReport;

impl Procedure for StatusReport {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn judge(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        Ok(Answer {
            verdict: Verdict::accept(),
            text: call.statistics.status().to_string(),
        })
    }
}
