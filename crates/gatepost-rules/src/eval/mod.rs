//! The functions that rules call by name: `header X eval:check_for_missing_to_header()`.
//!
//! [`prepare`] turns a name and its arguments into an [`EvalCall`] once, when rules are loaded:
//! it parses numbers, compiles patterns and reports errors. Running the evaluation on a message
//! then only computes. Functions are grouped as in SpamAssassin, one plugin per module. Results
//! that several functions of a plugin need are computed once per message and kept in its
//! [`ScannedMail`].

mod access;
mod address_list;
mod alternatives;
mod antivirus;
mod arguments;
mod berkeley_hash;
mod body;
mod dates;
mod forged;
mod freemail;
mod from_name;
mod header;
mod html;
mod image;
mod locale;
mod mime;
mod office;
mod pdf;
mod phishing;
mod received;
mod recipients;
mod relay;
mod settings;
mod text_cat;
mod uri;
mod uri_detail;
mod vbounce;
mod welcomelist;

pub(crate) use address_list::glob;
pub(crate) use freemail::{addresses_in, without_links, without_quoted};
pub(crate) use settings::EvalSettings;
pub use uri_detail::prepare_uri_detail;

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::LazyLock;

use gatepost_mail::Mail;

use arguments::EvalArguments;

/// A function with its arguments bound.
type MailFunction = Box<dyn Fn(&ScannedMail<'_>) -> u32 + Send + Sync>;
/// The result of binding arguments: a test, or a description of the error.
type BindResult = Result<MailFunction, String>;
/// A function by its name, and how its arguments are bound.
type Entry = (&'static str, fn(&EvalArguments<'_>) -> BindResult);

/// A call of an eval function, ready to run on any message.
pub struct EvalCall {
    function: MailFunction,
}

impl EvalCall {
    /// Runs it: 0 if it does not hit, otherwise the value that meta rules see, usually 1.
    pub fn run(&self, mail: &ScannedMail<'_>) -> u32 {
        (self.function)(mail)
    }
}

/// The reason why a call cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalProblem {
    /// No plugin here has a function of this name.
    #[error("no eval function is named {name}")]
    Unknown {
        /// The name that was called.
        name: String,
    },
    /// The function belongs to a plugin that is not part of this engine.
    #[error("{name} needs {what}, which is not part of this engine")]
    Off {
        /// The name that was called.
        name: String,
        /// The missing requirement: `DNS`, `Bayes`, ….
        what: &'static str,
    },
    /// The arguments do not fit.
    #[error("{name}: {reason}")]
    Arguments {
        /// The name that was called.
        name: String,
        /// A description of the error.
        reason: String,
    },
}

const TABLES: [&[Entry]; 22] = [
    header::FUNCTIONS,
    forged::FUNCTIONS,
    dates::FUNCTIONS,
    recipients::FUNCTIONS,
    mime::FUNCTIONS,
    html::FUNCTIONS,
    body::FUNCTIONS,
    relay::FUNCTIONS,
    uri::FUNCTIONS,
    freemail::FUNCTIONS,
    from_name::FUNCTIONS,
    image::FUNCTIONS,
    vbounce::FUNCTIONS,
    welcomelist::FUNCTIONS,
    welcomelist::SUBJECT_FUNCTIONS,
    header::OTHER_FUNCTIONS,
    antivirus::FUNCTIONS,
    pdf::FUNCTIONS,
    phishing::FUNCTIONS,
    text_cat::FUNCTIONS,
    office::FUNCTIONS,
    access::FUNCTIONS,
];

/// The requirements that known functions which cannot run here lack. A name that ends in `*` stands
/// for all that begin so.
const OFF: [(&str, &str); 8] = [
    ("check_senders_reputation", "DNS"),
    ("check_dcc*", "DCC"),
    ("check_pyzor*", "Pyzor"),
    ("check_razor2*", "Razor"),
    ("siq_*", "SIQ"),
    ("check_bayes*", "Bayes"),
    ("check_from_in_auto_*", "the address list"),
    ("check_txrep*", "the address list"),
];

fn entry(name: &str) -> Option<&'static Entry> {
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .find(|(known, _)| *known == name)
}

/// Prepares a call of `name` with `arguments` (already unquoted).
pub fn prepare(name: &str, arguments: &[String]) -> Result<EvalCall, EvalProblem> {
    let Some((_, build)) = entry(name) else {
        let name = name.to_owned();
        let off = OFF
            .iter()
            .find(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *pattern,
            });
        return Err(match off {
            Some((_, what)) => EvalProblem::Off { name, what },
            None => EvalProblem::Unknown { name },
        });
    };
    match build(&EvalArguments::new(arguments)) {
        Ok(function) => Ok(EvalCall { function }),
        Err(reason) => Err(EvalProblem::Arguments {
            name: name.to_owned(),
            reason,
        }),
    }
}

/// A function without arguments.
#[allow(clippy::unnecessary_wraps)] // It ends a builder, and builders may fail.
fn plain(test: fn(&ScannedMail<'_>) -> bool) -> BindResult {
    Ok(Box::new(move |mail| u32::from(test(mail))))
}

/// A function with bound arguments.
#[allow(clippy::unnecessary_wraps)] // The same.
fn bound(test: impl Fn(&ScannedMail<'_>) -> bool + Send + Sync + 'static) -> BindResult {
    Ok(Box::new(move |mail| u32::from(test(mail))))
}

static DEFAULT_SETTINGS: LazyLock<EvalSettings> = LazyLock::new(EvalSettings::default);

/// One message under evaluation: its views, the settings of eval functions, and their results.
///
/// [`Mail`] itself does not depend on rules. Links in attached documents belong to the message, so
/// they are added to the mail before any view of its links is made.
pub struct ScannedMail<'a> {
    mail: Mail<'a>,
    settings: &'a EvalSettings,
    findings: EvalFindings,
}

/// Results that several functions of a plugin need, computed once per message.
#[derive(Default)]
struct EvalFindings {
    mime: OnceCell<mime::MimeFindings>,
    alternative: OnceCell<alternatives::AlternativeDifference>,
    dates: OnceCell<dates::DateFindings>,
    recipients: OnceCell<recipients::RecipientFindings>,
    images: OnceCell<image::AttachedImages>,
    office: OnceCell<office::OfficeFindings>,
    pdf: OnceCell<pdf::PdfFiles>,
    freemail: OnceCell<Option<Vec<Vec<u8>>>>,
    from_name: OnceCell<from_name::FromNameFindings>,
    listed_hosts: OnceCell<Vec<String>>,
    uppercase_percent: OnceCell<f64>,
}

impl<'a> ScannedMail<'a> {
    /// Prepares a mail for evaluation under the settings of rule files.
    pub(crate) fn new(mail: Mail<'a>, settings: &'a EvalSettings) -> Self {
        let mut scanned = Self {
            mail,
            settings,
            findings: EvalFindings::default(),
        };
        let links = office::document_links(&scanned).to_vec();
        scanned.mail.add_links(links);
        scanned
    }

    /// Prepares a message for evaluation under the default settings.
    pub fn parse(message: &'a [u8]) -> Self {
        Self::new(Mail::parse(message), &DEFAULT_SETTINGS)
    }

    /// The settings of eval functions from rule files.
    pub(crate) const fn settings(&self) -> &'a EvalSettings {
        self.settings
    }

    const fn findings(&self) -> &EvalFindings {
        &self.findings
    }
}

impl<'a> Deref for ScannedMail<'a> {
    type Target = Mail<'a>;

    fn deref(&self) -> &Mail<'a> {
        &self.mail
    }
}

/// A pattern that is part of a function.
macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        pattern!($name, $pattern, "");
    };
    ($name:ident, $pattern:expr, $flags:expr) => {
        static $name: std::sync::LazyLock<gatepost_mail::MailPattern> =
            std::sync::LazyLock::new(|| {
                gatepost_mail::MailPattern::with_flags(&$pattern, $flags)
                    .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
            });
    };
}
pub(crate) use pattern;
