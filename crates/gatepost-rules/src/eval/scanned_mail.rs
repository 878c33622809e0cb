//! A mail under evaluation: its views, what rule files say to eval functions, and what functions
//! found that others of their plugin need too.
//!
//! [`Mail`] itself knows nothing of rules. What is found here is found once a message, when a
//! function first asks; the links in documents are the exception: they are links of the message, so
//! they are handed to the mail before any view of its links is made.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::LazyLock;

use super::{EvalSettings, body, dates, from_name, image, mime, office, pdf, recipients};
use gatepost_mail::Mail;

static DEFAULT_SETTINGS: LazyLock<EvalSettings> = LazyLock::new(EvalSettings::default);

/// One message under evaluation. Gives the views of its [`Mail`] as its own.
pub struct ScannedMail<'a> {
    mail: Mail<'a>,
    settings: &'a EvalSettings,
    findings: Findings,
}

/// What functions found in a message and others of their plugin need too.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) mime: OnceCell<mime::MimeFindings>,
    pub(super) alternative: OnceCell<body::AlternativeDifference>,
    pub(super) dates: OnceCell<dates::DateFindings>,
    pub(super) recipients: OnceCell<recipients::RecipientFindings>,
    pub(super) images: OnceCell<image::Images>,
    pub(super) office: OnceCell<office::Office>,
    pub(super) pdf: OnceCell<pdf::Files>,
    pub(super) freemail: OnceCell<Option<Vec<Vec<u8>>>>,
    pub(super) from_name: OnceCell<from_name::FromNameFindings>,
    pub(super) listed_hosts: OnceCell<Vec<String>>,
    pub(super) uppercase_percent: OnceCell<f64>,
}

impl<'a> ScannedMail<'a> {
    /// Puts a mail under evaluation with what rule files say to eval functions.
    pub(crate) fn new(mail: Mail<'a>, settings: &'a EvalSettings) -> Self {
        let mut scanned = Self {
            mail,
            settings,
            findings: Findings::default(),
        };
        let links = office::document_links(&scanned).to_vec();
        scanned.mail.add_links(links);
        scanned
    }

    /// Puts a message under evaluation as if there were no rule files.
    pub fn parse(message: &'a [u8]) -> Self {
        Self::new(Mail::parse(message), &DEFAULT_SETTINGS)
    }

    /// What rule files say to eval functions.
    pub(crate) const fn settings(&self) -> &'a EvalSettings {
        self.settings
    }

    pub(super) const fn findings(&self) -> &Findings {
        &self.findings
    }
}

impl<'a> Deref for ScannedMail<'a> {
    type Target = Mail<'a>;

    fn deref(&self) -> &Mail<'a> {
        &self.mail
    }
}
