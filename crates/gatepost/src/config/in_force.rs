//! The settings in force as the dashboard shows them.

use gatepost_operations::SettingInForce;

use super::{Config, Layers, SettingOrigin, reference};

/// The settings that a reload applies: keys, or the beginnings of keys that end with a dot.
const RELOADED: [&str; 23] = [
    "alarm",
    "procedure.",
    "procedures.dns.",
    "procedures.http.",
    "procedures.luau.",
    "procedures.path",
    "quarantine_digest.",
    "rules.",
    "scope",
    "sink",
    "smarthost.",
    "store.clock_expiry_percent",
    "store.clock_expiry_rows",
    "store.history_age_max",
    "store.history_bytes_max",
    "store.history_messages_max",
    "store.journal_age_max",
    "store.journal_entries_max",
    "store.journal_unjudged",
    "store.quarantine_age_max",
    "store.quarantine_bytes_max",
    "store.quarantine_messages_max",
    "topics",
];
/// Lists whose tables may contain secrets, such as the addresses of webhooks: only the number of
/// their tables is shown.
const SECRET_LISTS: [&str; 1] = ["sink"];

/// Every setting with its value, origin and description.
pub(crate) fn settings(config: &Config, layers: &Layers) -> Vec<SettingInForce> {
    let described = reference::described(config, layers).into_iter();
    let shown = described.filter_map(|setting| {
        let value = setting.value?;
        let value = if SECRET_LISTS.contains(&setting.key.as_str()) {
            tables(config.sink.len())
        } else {
            value
        };
        Some(SettingInForce {
            origin: match layers.written_at(&setting.key) {
                // The text of a flag may contain a secret too.
                SettingOrigin::Flag(_) => format!("--set {}", setting.key),
                origin => origin.to_string(),
            },
            is_reloaded: is_reloaded(&setting.key),
            value,
            description: setting.description,
            key: setting.key,
            after_restart: None,
        })
    });
    shown.collect()
}

fn tables(count: usize) -> String {
    match count {
        0 => "[]".to_owned(),
        1 => "1 table".to_owned(),
        count => format!("{count} tables"),
    }
}

fn is_reloaded(key: &str) -> bool {
    RELOADED
        .iter()
        .any(|reloaded| key == *reloaded || (reloaded.ends_with('.') && key.starts_with(reloaded)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reloaded_setting_exists_and_no_secret_is_shown() {
        let mut layers = Layers::default();
        layers
            .add_flag(
                "sink=[{name=\"a\",filters=[\"x\"],webhook={url=\"https://a.example/s3cret\"}}]",
            )
            .expect("a flag");
        let config: Config = layers.settings().expect("a config");
        let settings = settings(&config, &layers);
        for reloaded in RELOADED {
            let exists = settings
                .iter()
                .any(|setting| setting.key == reloaded || setting.key.starts_with(reloaded));
            assert!(exists, "{reloaded}");
        }
        let text = format!("{settings:?}");
        assert!(!text.contains("s3cret"));
        let sink = settings.iter().find(|setting| setting.key == "sink");
        let sink = sink.expect("listed");
        assert_eq!(sink.value, "1 table");
        assert_eq!(sink.origin, "--set sink");
    }
}
