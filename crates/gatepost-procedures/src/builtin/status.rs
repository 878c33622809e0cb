//! `/status`: the activity of every procedure since the start and in the last day, as a table; also
//! mailed periodically.

use std::sync::Arc;

use gatepost_message::{MessageId, Verdict};
use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use crate::host::{ProcedureMail, Resources};
use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};
use crate::status::ProcedureStatistics;

/// `[procedure."/status"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct StatusSettings {
    /// The recipients of the table, which is sent through `smarthost.server`; if empty, it is not
    /// mailed.
    pub mail_to: Vec<String>,
    /// The sender of that mail.
    pub mail_from: String,
    /// The interval at which it is mailed.
    pub every: Period,
}

impl Default for StatusSettings {
    fn default() -> Self {
        Self {
            mail_to: Vec::new(),
            mail_from: "gatepost@localhost".to_owned(),
            every: Period::seconds(86_400),
        }
    }
}

pub(crate) struct StatusReport;

impl Procedure for StatusReport {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        Ok(ProcedureAnswer {
            verdict: Verdict::accept(),
            ..ProcedureAnswer::text(call.statistics.status().to_string())
        })
    }
}

/// Mails the table.
pub(crate) fn mail_report(
    settings: &StatusSettings,
    resources: &Arc<Resources>,
    statistics: &ProcedureStatistics,
) {
    let StatusSettings {
        mail_to, mail_from, ..
    } = settings;
    let table = statistics.status().to_string().replace('\n', "\r\n");
    let host = mail_from
        .rsplit_once('@')
        .map_or("localhost", |(_, host)| host);
    let text = format!(
        "From: <{mail_from}>\r\nTo: {}\r\nSubject: Gatepost: status of the procedures\r\n\
         Message-ID: <{}.status@{host}>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\r\n{table}\r\n",
        mail_to.join(", "),
        MessageId::next(),
    );
    resources.mailer.send(ProcedureMail {
        sender: mail_from.clone(),
        recipients: mail_to.clone(),
        text,
    });
}
