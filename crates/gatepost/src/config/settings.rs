//! All settings, composed of each room's own.

use std::path::PathBuf;

use gatepost_store::StoreSettings;
use serde::{Deserialize, Serialize};

use super::layers::Layers;
use super::mistake::Mistake;

/// The config as a whole; the names are those that users write.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder of the embedded database and its files.
    pub(crate) data: PathBuf,
    pub(crate) log: LogSettings,
    pub(crate) store: StoreSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("gatepost-data"),
            log: LogSettings::default(),
            store: StoreSettings::default(),
        }
    }
}

/// `[log]`: what is written to standard error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// How lines look.
    pub(crate) format: LogFormat,
    /// What is worth a line: `error`, `warn`, `info`, `debug` or `trace`, also by room, as in
    /// `"info,smtp=debug"`.
    pub(crate) level: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// Mistakes that no single value shows: settings that contradict each other.
    pub(super) fn mistakes(&self, layers: &Layers) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            mistakes.push(Mistake::new(
                layers.origin("log.level"),
                "log.level",
                error.to_string(),
            ));
        }
        mistakes
    }
}
