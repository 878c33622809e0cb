//! Insertion points, and the text of each in a page.

use std::time::Instant;

use gatepost_message::{MessageId, PageReply};

use crate::clock;
use crate::escape::push_escaped;
use crate::forms::{Form, Forms};
use crate::live::LiveValue;
use crate::request::{PageRequest, Reference};
use crate::values::{CallError, PageCall, ValueSource, text_of};

/// One insertion point whose arguments are constants or values of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Insertion {
    /// `now()`: date and time in UTC, to the second.
    Now,
    /// `now("%H:%M")`
    NowAs(String),
    /// `latest("topic")`: the payload of the topic's last publication.
    Latest(String),
    /// `live("topic")`: the same, kept up to date by the browser.
    Live(LiveValue),
    /// `request.query.name`
    Request(Reference),
    /// `form_publish("topic")` and similar functions.
    Form(Form),
    /// `call("/procedure", name="value")`
    Call {
        /// The procedure.
        path: String,
        /// Name and value.
        arguments: Vec<(String, Argument)>,
    },
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A text or a number.
    Constant(String),
    /// A value of the request.
    Request(Reference),
}

/// The requirements of a page's insertion points other than memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageNeeds {
    /// A page worker, for procedures run there.
    pub worker: bool,
    /// The request.
    pub request: bool,
}

/// The request for which a page is rendered, and the deadline.
#[derive(Clone, Copy)]
pub(crate) struct RenderContext<'a> {
    pub(crate) values: &'a dyn ValueSource,
    pub(crate) forms: Option<&'a Forms>,
    pub(crate) request: &'a PageRequest,
    pub(crate) deadline: Instant,
}

impl Insertion {
    /// Its requirements.
    pub fn needs(&self) -> PageNeeds {
        match self {
            Self::Call { arguments, .. } => PageNeeds {
                worker: true,
                request: arguments
                    .iter()
                    .any(|(_, value)| matches!(value, Argument::Request(_))),
            },
            Self::Request(_) | Self::Form(_) => PageNeeds {
                worker: false,
                request: true,
            },
            _ => PageNeeds::default(),
        }
    }

    /// Appends the text of an insertion point that needs only memory.
    pub fn push(&self, output: &mut Vec<u8>, values: &dyn ValueSource) {
        match self {
            Self::Now => clock::push_page_date(output),
            Self::NowAs(format) => match clock::format_now(format) {
                Ok(text) => push_escaped(output, &text),
                Err(detail) => push_failure(output, &detail),
            },
            Self::Latest(topic) => {
                if let Some(publication) = values.latest(topic) {
                    push_escaped(output, &text_of(&publication));
                }
            }
            Self::Live(live) => live.push(output, values),
            Self::Call { .. } | Self::Request(_) | Self::Form(_) => {
                push_failure(output, "an insertion point needs a request, and has none");
            }
        }
    }

    /// Appends the text of any insertion point. A procedure's changes to the response are recorded
    /// in `reply`.
    pub(crate) fn push_for(
        &self,
        output: &mut Vec<u8>,
        context: &RenderContext<'_>,
        reply: &mut PageReply,
    ) {
        match self {
            Self::Request(reference) => push_escaped(output, reference.value(context.request)),
            Self::Form(form) => push_form(output, form, context),
            Self::Call { path, arguments } => {
                let value = |argument: &Argument| match argument {
                    Argument::Constant(text) => text.clone(),
                    Argument::Request(reference) => reference.value(context.request).to_owned(),
                };
                let arguments: Vec<_> = arguments
                    .iter()
                    .map(|(name, argument)| (name.clone(), value(argument)))
                    .collect();
                match call(context, path, &arguments, reply) {
                    Ok(text) => push_escaped(output, &text),
                    Err(error) => push_failure(output, &error.to_string()),
                }
            }
            other => other.push(output, context.values),
        }
    }
}

/// Calls a procedure, unless the page's time is over.
pub(crate) fn call(
    context: &RenderContext<'_>,
    path: &str,
    arguments: &[(String, String)],
    reply: &mut PageReply,
) -> Result<String, CallError> {
    if Instant::now() >= context.deadline {
        return Err(CallError::Failed {
            path: path.to_owned(),
            detail: "not called: the page's time_max is over".to_owned(),
        });
    }
    let called = context.values.call(&PageCall {
        path,
        arguments,
        request: context.request,
        deadline: context.deadline,
    })?;
    if let Some(more) = called.reply {
        reply.merge(*more);
    }
    Ok(called.text)
}

/// The hidden field of a form.
pub(crate) fn push_form(output: &mut Vec<u8>, form: &Form, context: &RenderContext<'_>) {
    match context.forms {
        Some(forms) => forms.push_field(output, form, context.request),
        None => push_failure(output, "the system gives no randomness to sign forms with"),
    }
}

/// A comment that replaces a missing value, with the id of the log line.
pub(crate) fn push_failure(output: &mut Vec<u8>, detail: &str) {
    output.extend_from_slice(failure_comment(detail).as_bytes());
}

/// Logs the failure and returns the comment that replaces the value.
pub(crate) fn failure_comment(detail: &str) -> String {
    let id = MessageId::next();
    tracing::warn!(target: "pages", error = %id, "insertion point failed: {detail}");
    format!("<!-- gatepost error {id} -->")
}
