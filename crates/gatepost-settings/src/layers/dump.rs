//! The settings in force as TOML, each line with the origin of its value.

use std::fmt::Write;

use serde::Serialize;
use toml::{Table, Value};

use super::{Layers, SettingOrigin, join_key};

impl Layers {
    /// The settings in force: one line per key, in dotted form, so that a line can be copied into a
    /// config as it is.
    pub fn dump(&self, settings: &impl Serialize) -> String {
        let mut lines = Vec::new();
        match Table::try_from(settings) {
            Ok(table) => collect(&table, "", self, &mut lines),
            // Every setting is a plain value; this would be a mistake of ours.
            Err(error) => lines.push((format!("# {error}"), String::new())),
        }
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
}

fn collect(table: &Table, above: &str, layers: &Layers, lines: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let key = join_key(above, name);
        match value {
            Value::Table(inner) if !inner.is_empty() => collect(inner, &key, layers, lines),
            value => {
                let origin = match layers.origin(&key) {
                    // A key below a written table keeps its default unless it is written itself.
                    origin if layers.is_written(&key) => origin,
                    _ => SettingOrigin::Default,
                };
                lines.push((format!("{key} = {value}"), origin.to_string()));
            }
        }
    }
}
