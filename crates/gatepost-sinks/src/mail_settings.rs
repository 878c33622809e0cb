//! `[[sink]] mail`: messages as mail.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

/// `mail`: messages are sent as mail, by `smarthost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MailSettings {
    /// The sender's address.
    pub from: String,
    /// The recipients' addresses.
    pub to: Vec<String>,
    /// The template of the subject.
    pub subject: String,
    /// The file of the template of the text; empty for topic, title and payload of each message.
    pub template: PathBuf,
    /// Values for the templates.
    pub variables: BTreeMap<String, String>,
    /// At most one mail in this time: later messages are collected in the next. 0 for a mail
    /// for each message.
    pub digest_every: Period,
    /// Messages in one mail at most. More wait for the next one.
    pub digest_messages_max: u16,
}

impl Default for MailSettings {
    fn default() -> Self {
        Self {
            from: String::new(),
            to: Vec::new(),
            subject: "{{ title }}{% if count > 1 %} (and {{ count - 1 }} more){% endif %}"
                .to_owned(),
            template: PathBuf::new(),
            variables: BTreeMap::new(),
            digest_every: Period::seconds(0),
            digest_messages_max: 500,
        }
    }
}
