//! The description of each setting: the text of the packaged config and of gatepost.toml(5). The
//! descriptions are collected from the comments of the settings' types.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Config, Layers, SettingOrigin};

/// Made by `packaging/describe-settings`.
const DESCRIPTIONS: &str = include_str!("descriptions.toml");
/// The width of comments in the printed config.
const LINE_WIDTH: usize = 96;

/// One setting, or a group of them.
pub(crate) struct Described {
    pub(crate) key: String,
    pub(crate) description: String,
    /// The value in force, as TOML, where it is a setting that has one.
    pub(crate) value: Option<String>,
    /// Whether it is written in the config.
    pub(crate) is_written: bool,
}

/// Every setting with its value, and every group, in the order of their keys. A key of a list of
/// tables has `[]` after the list's name.
pub(crate) fn described(config: &Config, layers: &Layers) -> Vec<Described> {
    let mut descriptions: BTreeMap<String, String> =
        toml::from_str(DESCRIPTIONS).unwrap_or_default();
    let mut all = Vec::new();
    let mut lists = BTreeSet::new();
    for (key, value) in layers.values(config) {
        let list = format!("{key}[]");
        let description = descriptions
            .remove(&key)
            .or_else(|| descriptions.remove(&list))
            .unwrap_or_default();
        lists.insert(list);
        let is_written = layers.written_at(&key) != SettingOrigin::Default;
        all.push(Described {
            key,
            description,
            value: Some(value),
            is_written,
        });
    }
    all.extend(
        descriptions
            .into_iter()
            .map(|(key, description)| Described {
                key,
                description,
                value: None,
                is_written: false,
            }),
    );
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all
}

/// The config as TOML: each setting below its description, those that are not written as
/// comments with their defaults.
pub(crate) fn explained(config: &Config, layers: &Layers) -> String {
    let all = described(config, layers);
    let mut text = String::new();
    for setting in &all {
        let key = &setting.key;
        let group = format!("{key}.");
        let is_group = all.iter().any(|other| other.key.starts_with(&group));
        text.push('\n');
        for line in wrap(&setting.description, LINE_WIDTH - 2) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = match &setting.value {
            Some(value) if setting.is_written => writeln!(text, "{key} = {value}"),
            Some(value) => writeln!(text, "#{key} = {value}"),
            None if is_group => writeln!(text, "# (the settings that begin with `{key}.`)"),
            None if key.contains("[]") => writeln!(text, "# (`{key}`, in each table of the list)"),
            None => writeln!(text, "#{key} ="),
        };
    }
    text
}

/// gatepost.toml(5).
pub(crate) fn manual(config: &Config, layers: &Layers) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(".TH gatepost.toml 5 \"\" \"gatepost {version}\"\n{INTRODUCTION}");
    for setting in described(config, layers) {
        let _ = write!(text, ".TP\n\\fB{}\\fR\n", roff(&setting.key));
        let mut description = setting.description;
        if let Some(value) = &setting.value {
            if !description.is_empty() {
                description.push(' ');
            }
            let _ = write!(description, "Default: {value}");
        }
        let _ = writeln!(text, "{}", roff(&description));
    }
    text + SEE_ALSO
}

const INTRODUCTION: &str = "\
.SH NAME
gatepost.toml \\- the config of the message gateway gatepost
.SH DESCRIPTION
The config is TOML. Every setting has a default, so an empty file is a config.
\\fBgatepost check\\fR reports each mistake with its line and a remedy,
\\fBgatepost config\\fR prints the settings in force with the origin of each, and
\\fBgatepost config \\-\\-explain\\fR prints them as a file with the descriptions below.
.PP
The environment overrides the file: GATEPOST_LOG__LEVEL is \\fIlog.level\\fR. Flags override both:
\\fB\\-\\-set log.level=debug\\fR.
.PP
Sizes have a unit (\"64KiB\", \"25MB\"), and so have durations (\"250ms\", \"5m\", \"7d\").
A key with \\fB[]\\fR belongs to a list of tables.
.SH SETTINGS
";

const SEE_ALSO: &str = "\
.SH SEE ALSO
\\fBgatepost\\fR(1), \\fBgatepost\\-check\\fR(1), \\fBgatepost\\-config\\fR(1)
";

/// Text as roff takes it: no line of it is a request, no character a command.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let escaped = escaped.replace('\'', "\\(aq").replace('`', "\\(ga");
    if escaped.starts_with('.') {
        format!("\\&{escaped}")
    } else {
        escaped
    }
}

/// Lines of words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_described() {
        let described = described(&Config::default(), &Layers::default());
        // Names that the operator chooses have none of their own.
        let is_free = |key: &str| key.starts_with("listeners.http.headers.");
        let without: Vec<&str> = described
            .iter()
            .filter(|setting| setting.description.is_empty() && !is_free(&setting.key))
            .map(|setting| setting.key.as_str())
            .collect();
        assert_eq!(without, [""; 0]);
    }

    #[test]
    fn the_explained_config_is_a_config_with_what_was_written() {
        let mut layers = Layers::default();
        layers.add_flag("log.level=debug").expect("a flag");
        let config: Config = layers.settings().expect("a config");
        let text = explained(&config, &layers);
        let mut read = Layers::default();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gatepost.toml");
        std::fs::write(&file, &text).expect("written");
        read.add_file(&file).expect("a config");
        let again: Config = read.settings().expect("a config");
        assert_eq!(again.log.level, "debug");
        assert_eq!(
            text.lines().filter(|line| line.starts_with("log.")).count(),
            1
        );
        let commented = |key: &str| text.contains(&format!("\n#{key} = "));
        assert!(commented("broker.queue_bytes_max") && commented("data"));
    }

    #[test]
    fn no_text_becomes_a_request() {
        assert_eq!(roff(".TP"), "\\&.TP");
        assert_eq!(roff("a\\b `-x`"), "a\\eb \\(ga\\-x\\(ga");
        let manual = manual(&Config::default(), &Layers::default());
        assert!(
            manual.contains("\\fBbroker.queue_bytes_max\\fR"),
            "{manual}"
        );
    }
}
