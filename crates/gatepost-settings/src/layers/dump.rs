//! The settings in force as TOML, each line with the origin of its value.

use std::fmt::Write;

use serde::Serialize;
use toml::{Table, Value};

use super::{Layers, SettingOrigin, join_key};

impl Layers {
    /// The settings in force: one line per key, in dotted form, so that a line can be copied into a
    /// configuration.
    pub fn dump(&self, settings: &impl Serialize) -> String {
        let lines: Vec<(String, String)> = self
            .values(settings)
            .into_iter()
            .map(|(key, value)| {
                (
                    format!("{key} = {value}"),
                    self.written_at(&key).to_string(),
                )
            })
            .collect();
        let width = lines
            .iter()
            .map(|(line, _)| line.len())
            .filter(|&width| width < 70)
            .max();
        lines
            .iter()
            .fold(String::new(), |mut text, (line, origin)| {
                let _ = writeln!(
                    text,
                    "{line:<width$}  # {origin}",
                    width = width.unwrap_or(0)
                );
                text
            })
    }

    /// Each setting's key and its value as TOML, in the order of the keys.
    pub fn values(&self, settings: &impl Serialize) -> Vec<(String, String)> {
        let mut values = Vec::new();
        // Every setting is a plain value; anything else would be a bug.
        match Table::try_from(settings) {
            Ok(table) => collect(&table, "", &mut values),
            Err(error) => values.push((format!("# {error}"), String::new())),
        }
        values
    }

    /// The origin of a value. A key below a written table keeps its default unless the key itself
    /// is written.
    pub fn written_at(&self, key: &str) -> SettingOrigin {
        if self.is_written(key) {
            self.origin(key)
        } else {
            SettingOrigin::Default
        }
    }
}

fn collect(table: &Table, above: &str, values: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let key = join_key(above, name);
        match value {
            Value::Table(inner) if !inner.is_empty() => collect(inner, &key, values),
            value => values.push((key, value.to_string())),
        }
    }
}
