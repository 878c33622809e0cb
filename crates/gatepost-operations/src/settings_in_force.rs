//! The settings in force, each with its origin, and the changes that a reload makes.
//!
//! Some settings take effect at a reload, the others at the next start. A setting that was changed
//! in the config and needs a restart is shown with both values.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Serialize;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingInForce {
    /// The dotted key.
    pub key: String,
    /// The value in force, as TOML.
    pub value: String,
    /// The file and line, the variable or the flag; `default` if it is not written anywhere.
    pub origin: String,
    /// Its meaning.
    pub description: String,
    /// Whether a reload applies it.
    pub is_reloaded: bool,
    /// The value in the config since the last reload, which a restart will put in force.
    pub after_restart: Option<String>,
}

/// A setting that a reload changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedSetting {
    /// The dotted key.
    pub key: String,
    /// The value in force before; `None` for a new key.
    pub before: Option<String>,
    /// The value in the config; `None` for a removed key.
    pub after: Option<String>,
    /// Whether it takes effect at the next start only.
    pub needs_restart: bool,
}

/// The settings in force. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SettingsInForce(Arc<RwLock<Vec<SettingInForce>>>);

impl SettingsInForce {
    /// The settings of a start.
    pub fn new(settings: Vec<SettingInForce>) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// The settings whose key, value or description contains `search` in any case, and the number
    /// of all.
    pub fn find(&self, search: &str) -> (Vec<SettingInForce>, usize) {
        let search = search.to_lowercase();
        let settings = self.0.read();
        let has = |text: &str| text.to_lowercase().contains(&search);
        let is_found = |setting: &&SettingInForce| {
            has(&setting.key) || has(&setting.value) || has(&setting.description)
        };
        (
            settings.iter().filter(is_found).cloned().collect(),
            settings.len(),
        )
    }

    /// The differences of a config to the settings in force, by key.
    pub fn changes_to(&self, config: &[SettingInForce]) -> Vec<ChangedSetting> {
        let settings = self.0.read();
        let before: BTreeMap<&str, &SettingInForce> = by_key(&settings);
        let after: BTreeMap<&str, &SettingInForce> = by_key(config);
        let keys = before.keys().chain(after.keys());
        let keys: std::collections::BTreeSet<&str> = keys.copied().collect();
        let changed = keys.into_iter().filter_map(|key| {
            let (before, after) = (before.get(key), after.get(key));
            let is_reloaded = before.or(after).is_some_and(|setting| setting.is_reloaded);
            let value = |setting: Option<&&SettingInForce>| setting.map(|one| one.value.clone());
            let (before, after) = (value(before), value(after));
            (before != after).then(|| ChangedSetting {
                key: key.to_owned(),
                before,
                after,
                needs_restart: !is_reloaded,
            })
        });
        changed.collect()
    }

    /// Notes that a config was applied by a reload.
    pub fn reloaded(&self, config: Vec<SettingInForce>) {
        let mut settings = self.0.write();
        let started: BTreeMap<&str, &SettingInForce> = by_key(&settings);
        let mut now: Vec<SettingInForce> = Vec::with_capacity(config.len());
        for setting in config {
            let in_force = started.get(setting.key.as_str());
            now.push(match in_force {
                Some(old) if !setting.is_reloaded && old.value != setting.value => SettingInForce {
                    value: old.value.clone(),
                    after_restart: Some(setting.value),
                    ..setting
                },
                _ => setting,
            });
        }
        *settings = now;
    }
}

fn by_key(settings: &[SettingInForce]) -> BTreeMap<&str, &SettingInForce> {
    let pairs = settings
        .iter()
        .map(|setting| (setting.key.as_str(), setting));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: &str, is_reloaded: bool) -> SettingInForce {
        SettingInForce {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: "default".to_owned(),
            description: format!("The {key}."),
            is_reloaded,
            after_restart: None,
        }
    }

    #[test]
    fn a_change_that_needs_a_restart_leaves_the_value_in_force() {
        let settings = SettingsInForce::new(vec![
            setting("alarm", "[]", true),
            setting("node", "1", false),
        ]);
        let config = vec![setting("alarm", "[1]", true), setting("node", "2", false)];
        let changes = settings.changes_to(&config);
        let needs: Vec<(&str, bool)> = changes
            .iter()
            .map(|change| (change.key.as_str(), change.needs_restart))
            .collect();
        assert_eq!(needs, [("alarm", false), ("node", true)]);
        settings.reloaded(config.clone());
        let (found, total) = settings.find("NODE");
        assert_eq!((found.len(), total), (1, 2));
        assert_eq!(found[0].value, "1");
        assert_eq!(found[0].after_restart.as_deref(), Some("2"));
        let changes = settings.changes_to(&config);
        assert_eq!(changes.len(), 1, "the restart is still needed: {changes:?}");
        settings.reloaded(vec![
            setting("alarm", "[1]", true),
            setting("node", "1", false),
        ]);
        assert_eq!(settings.find("node").0[0].after_restart, None);
    }
}
