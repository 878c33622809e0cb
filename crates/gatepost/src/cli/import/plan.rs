//! The plan of an import: settings, users and rules, and every line that is not imported, with the
//! reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use gatepost_users::{AccessSet, Effect};

/// One user of the other server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImportedUser {
    pub(super) name: String,
    /// The hash of its password.
    pub(super) hash: String,
    pub(super) admin: bool,
}

/// One access rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImportedRule {
    /// A user, `everyone` or `anonymous`.
    pub(super) subject: String,
    pub(super) effect: Effect,
    pub(super) access: AccessSet,
    pub(super) filter: String,
}

/// One `[[sink]]`.
#[derive(Debug, Default)]
pub(super) struct ImportedSink {
    /// Values in TOML by their keys.
    settings: BTreeMap<String, String>,
    /// The keys that name a file with a secret, the file's name in the new folder, and the secret.
    secrets: Vec<(String, String, String)>,
}

impl ImportedSink {
    /// Sets a text.
    pub(super) fn set_text(&mut self, key: &str, text: &str) {
        self.settings.insert(key.to_owned(), toml_text(text));
    }

    /// Adds a text to a list, which must be the key's value.
    pub(super) fn add_text(&mut self, key: &str, text: &str) {
        add_text(&mut self.settings, key, text);
    }

    /// Sets the name of a file that will contain a secret.
    pub(super) fn set_secret(&mut self, key: &str, file: &str, secret: &str) {
        let entry = (key.to_owned(), file.to_owned(), secret.to_owned());
        self.secrets.push(entry);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.settings.contains_key(key)
    }
}

/// The whole import.
#[derive(Debug, Default)]
pub(super) struct ImportPlan {
    /// Values in TOML by their keys.
    settings: BTreeMap<String, String>,
    pub(super) sinks: Vec<ImportedSink>,
    pub(super) users: Vec<ImportedUser>,
    pub(super) rules: Vec<ImportedRule>,
    /// Changes of behaviour of imported lines.
    notes: Vec<String>,
    /// The lines that are not imported: the place, the line, and the reason.
    left_out: Vec<(String, String, String)>,
}

impl ImportPlan {
    /// Sets a value, written as TOML.
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.settings.insert(key.to_owned(), value.into());
    }

    /// Sets a text.
    pub(super) fn set_text(&mut self, key: &str, text: &str) {
        self.set(key, toml_text(text));
    }

    /// Adds a text to a list, which must be the key's value.
    pub(super) fn add_text(&mut self, key: &str, text: &str) {
        add_text(&mut self.settings, key, text);
    }

    /// The names of files with secrets, and their contents.
    pub(super) fn secret_files(&self) -> impl Iterator<Item = (&str, &str)> {
        let secrets = self.sinks.iter().flat_map(|sink| &sink.secrets);
        secrets.map(|(_, file, secret)| (file.as_str(), secret.as_str()))
    }

    /// The reason why a user cannot be added, if there is one: its name, or the hash of its
    /// password, whose defect `not_a_hash` describes.
    pub(super) fn check_user(
        &self,
        name: &str,
        hash: &str,
        not_a_hash: &str,
    ) -> Result<(), String> {
        gatepost_users::check_user_name(name).map_err(|error| error.to_string())?;
        if !gatepost_users::is_foreign_hash(hash) {
            return Err(not_a_hash.to_owned());
        }
        let folded = name.to_lowercase();
        let is_same = |user: &ImportedUser| user.name.to_lowercase() == folded;
        if self.users.iter().any(is_same) {
            return Err("another user's name differs in case only".to_owned());
        }
        Ok(())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.settings.contains_key(key)
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Records a line that is not imported.
    pub(super) fn leave_out(&mut self, place: &str, line: &str, reason: impl Into<String>) {
        let entry = (place.to_owned(), line.trim().to_owned(), reason.into());
        self.left_out.push(entry);
    }

    /// The number of lines that are not imported.
    pub(super) fn left_out_count(&self) -> usize {
        self.left_out.len()
    }

    /// The config file of a folder, with everything else as comments.
    pub(super) fn config(&self, origin: &str, folder: &Path) -> String {
        let mut text = format!("# Made by `gatepost import` from {}.\n", one_line(origin));
        // Writing to a string cannot fail.
        for note in &self.notes {
            let _ = writeln!(text, "# Note: {}", one_line(note));
        }
        if !self.settings.is_empty() {
            text.push('\n');
        }
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key} = {value}");
        }
        for sink in &self.sinks {
            text.push_str("\n[[sink]]\n");
            for (key, value) in &sink.settings {
                let _ = writeln!(text, "{key} = {value}");
            }
            for (key, file, _) in &sink.secrets {
                let path = folder.join(file).display().to_string();
                let _ = writeln!(text, "{key} = {}", toml_text(&path));
            }
        }
        if !self.left_out.is_empty() {
            text.push_str("\n# Not carried over:\n");
        }
        for (place, line, reason) in &self.left_out {
            let (line, reason) = (one_line(line), one_line(reason));
            let _ = writeln!(text, "# {}: {line}\n#     {reason}", one_line(place));
        }
        text
    }

    /// Users and rules as the commands that would make them; passwords are imported as hashes.
    pub(super) fn commands(&self) -> String {
        let mut text = String::new();
        for user in &self.users {
            let admin = if user.admin { " --admin" } else { "" };
            let _ = writeln!(
                text,
                "# user {}{admin}, with its password",
                one_line(&user.name)
            );
        }
        for rule in &self.rules {
            let deny = if rule.effect == Effect::Deny {
                "--deny "
            } else {
                ""
            };
            let (subject, filter) = (one_line(&rule.subject), one_line(&rule.filter));
            let _ = writeln!(text, "# grant {deny}{subject} {} '{filter}'", rule.access);
        }
        text
    }
}

fn add_text(settings: &mut BTreeMap<String, String>, key: &str, text: &str) {
    let item = toml_text(text);
    let list = match settings.get(key) {
        Some(list) if list != "[]" => format!("{}, {item}]", list.trim_end_matches(']')),
        _ => format!("[{item}]"),
    };
    settings.insert(key.to_owned(), list);
}

/// A text as TOML's basic string.
pub(super) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Puts foreign text on one line, so that it stays within its comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
