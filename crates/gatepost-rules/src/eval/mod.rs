//! The functions that rules call by name: `header X eval:check_for_missing_to_header()`.
//!
//! [`prepare`] turns a name and its arguments into an [`Evaluation`] once, when rules are loaded:
//! numbers are read, patterns compiled, mistakes reported. Running it on a message then only
//! computes. Functions are grouped as SpamAssassin groups them, one plugin a module.

mod lists;

pub(crate) use lists::Lists;

use crate::mail::Mail;

/// A call of an eval function, ready to run on any message.
pub struct Evaluation {
    function: Box<dyn Fn(&Mail<'_>) -> u32 + Send + Sync>,
}

impl Evaluation {
    /// Runs it: 0 if it does not hit, otherwise the value that meta rules see, usually 1.
    pub fn run(&self, mail: &Mail<'_>) -> u32 {
        (self.function)(mail)
    }
}

/// Why a call cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalProblem {
    /// No plugin here has a function of this name.
    #[error("no eval function is named {name}")]
    Unknown {
        /// The name that was called.
        name: String,
    },
    /// The function asks the network, or a store that is not attached.
    #[error("{name} needs {what}, which is off")]
    Off {
        /// The name that was called.
        name: String,
        /// What it needs: `DNS`, `Bayes`, ….
        what: &'static str,
    },
    /// The arguments do not fit.
    #[error("{name}: {reason}")]
    Arguments {
        /// The name that was called.
        name: String,
        /// What is wrong with them.
        reason: String,
    },
}

/// Prepares a call of `name` with `arguments` (already unquoted).
pub fn prepare(name: &str, _arguments: &[String]) -> Result<Evaluation, EvalProblem> {
    Err(EvalProblem::Unknown {
        name: name.to_owned(),
    })
}

/// Prepares a `uri_detail` rule: the conditions after its name, such as
/// `type =~ /^a$/ text =~ /click/i`.
pub fn prepare_uri_detail(conditions: &str) -> Result<Evaluation, EvalProblem> {
    let _ = conditions;
    Ok(Evaluation {
        function: Box::new(|_| 0),
    })
}
