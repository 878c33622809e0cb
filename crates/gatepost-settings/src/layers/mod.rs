//! The layers of a configuration: file, environment, `--set` flags, each overriding the previous
//! one, and the origin of every key, so that later messages can name it.
//!
//! The settings may be of any type that serde can read. Every mistake is reported with file, line
//! and a suggested fix. No input causes a panic.

mod dump;
mod load;
mod mistake;
mod values;
mod variables;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

pub use mistake::Mistake;

/// Variables with this prefix are settings: `GATEPOST_LISTENERS__MQTT__BIND`.
pub const VARIABLE_PREFIX: &str = "GATEPOST_";

/// The origin of a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The built-in default.
    Default,
    /// A line of a file.
    File {
        /// The file as it was specified.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The environment variable of this name.
    Variable(String),
    /// A `--set` flag: the text that followed it.
    Flag(String),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::Variable(name) => write!(formatter, "${name}"),
            // On one line, since `gatepost config` prints an origin in a comment.
            Self::Flag(text) => {
                let text = text.replace(|character: char| character.is_control(), " ");
                write!(formatter, "--set {text}")
            }
        }
    }
}

/// The layers merged so far. Keys are dotted paths; an element of an array has its index:
/// `scope.0.path`.
#[derive(Debug, Default)]
pub struct Layers {
    values: Table,
    origins: BTreeMap<String, SettingOrigin>,
}

impl Layers {
    /// The origin of the key, or of the nearest parent key that was written.
    pub fn origin(&self, key: &str) -> SettingOrigin {
        let mut key = key;
        loop {
            if let Some(origin) = self.origins.get(key) {
                return origin.clone();
            }
            match key.rfind('.') {
                Some(dot) => key = &key[..dot],
                None => return SettingOrigin::Default,
            }
        }
    }

    /// Whether this key itself was written in any layer.
    pub fn is_written(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    /// Adds a file as the topmost layer.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Mistake> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Mistake::new(path.display(), "", error.to_string()))?;
        self.add_text(path, &text)
    }

    /// Adds the text of a file as the topmost layer.
    ///
    /// # Errors
    /// The text is not TOML; the place names the line.
    pub fn add_text(&mut self, path: &Path, text: &str) -> Result<(), Mistake> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_of(text, error.span().map_or(0, |span| span.start));
            Mistake::new(format!("{}:{line}", path.display()), "", error.message())
        })?;
        let origin = |offset| SettingOrigin::File {
            path: path.to_owned(),
            line: line_of(text, offset),
        };
        let values = self.plain_table(table.get_ref(), "", &origin);
        merge(&mut self.values, values);
        Ok(())
    }

    /// Adds the environment variables that are settings as the topmost layer: `__` stands for a
    /// dot. Variables that container platforms define for a service called `gatepost` are skipped
    /// (`variables.rs`).
    ///
    /// # Errors
    /// A value is neither TOML nor plain text.
    pub fn add_variables(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Mistake> {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
                continue;
            };
            if !variables::is_setting(rest) {
                continue;
            }
            let key = rest.to_ascii_lowercase().replace("__", ".");
            self.add_assignment(&key, &text, &SettingOrigin::Variable(name))?;
        }
        Ok(())
    }

    /// Adds `KEY=VALUE`, the value in TOML; quotes may be omitted around plain text.
    ///
    /// # Errors
    /// There is no `=`, or the value is neither TOML nor plain text.
    pub fn add_flag(&mut self, assignment: &str) -> Result<(), Mistake> {
        let origin = SettingOrigin::Flag(assignment.to_owned());
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(Mistake::new(origin, "", "no '='; write --set KEY=VALUE"));
        };
        self.add_assignment(key.trim(), text, &origin)
    }

    fn add_assignment(
        &mut self,
        key: &str,
        text: &str,
        origin: &SettingOrigin,
    ) -> Result<(), Mistake> {
        let as_written = format!("{key} = {text}");
        let quoted = format!("{key} = {}", Value::String(text.to_owned()));
        let structured = text.trim_start().starts_with(['[', '{', '"', '\'']);
        let candidates = if structured {
            vec![as_written]
        } else {
            vec![as_written, quoted]
        };
        let mut reason = String::new();
        for candidate in candidates {
            match DeTable::parse(&candidate) {
                Ok(table) => {
                    let values = self.plain_table(table.get_ref(), "", &|_| origin.clone());
                    merge(&mut self.values, values);
                    return Ok(());
                }
                Err(error) if reason.is_empty() => error.message().clone_into(&mut reason),
                Err(_) => {}
            }
        }
        Err(Mistake::new(origin, key, reason))
    }

    /// Removes the value at the end of this path, so that the rest can be checked.
    fn remove(&mut self, steps: &[String]) -> bool {
        remove_from(&mut self.values, steps)
    }

    fn plain_table(
        &mut self,
        table: &DeTable<'_>,
        above: &str,
        origin: &impl Fn(usize) -> SettingOrigin,
    ) -> Table {
        let mut plain = Table::new();
        for (name, value) in table {
            let key = join_key(above, name.get_ref());
            self.origins.insert(key.clone(), origin(name.span().start));
            let value = self.plain_value(value, &key, origin);
            plain.insert(name.get_ref().to_string(), value);
        }
        plain
    }

    fn plain_value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        origin: &impl Fn(usize) -> SettingOrigin,
    ) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map_or_else(|_| Value::String(number.to_string()), Value::Float),
            DeValue::Boolean(flag) => Value::Boolean(*flag),
            DeValue::Datetime(time) => Value::Datetime(*time),
            DeValue::Array(items) => Value::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let key = join_key(key, &index.to_string());
                        self.origins.insert(key.clone(), origin(item.span().start));
                        self.plain_value(item, &key, origin)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.plain_table(table, key, origin)),
        }
    }
}

/// Removes the value at the end of this path. An element of an array is never removed alone, since
/// later elements would change their index: the array is removed.
fn remove_from(table: &mut Table, steps: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return false;
    };
    let is_removed = match (table.get_mut(step), rest) {
        (Some(Value::Table(inner)), [_, ..]) => return remove_from(inner, rest),
        (Some(Value::Array(items)), [index, rest @ ..]) => {
            let item = index
                .parse()
                .ok()
                .and_then(|index: usize| items.get_mut(index));
            match item {
                Some(Value::Table(inner)) => remove_from(inner, rest),
                _ => false,
            }
        }
        _ => false,
    };
    is_removed || table.remove(step).is_some()
}

/// Tables are merged key by key; any other value is replaced.
fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// The dotted path of `name` below `above`, quoted where TOML requires it, so that it can be copied
/// into a configuration.
fn join_key(above: &str, name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name = if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    };
    if above.is_empty() {
        name
    } else {
        format!("{above}.{name}")
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}
