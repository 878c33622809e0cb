//! The config: defaults, file, environment and flags, each overriding the previous one. Every
//! mistake is reported with file, line and remedy.

mod addresses;
mod credentials;
pub(crate) mod in_force;
pub(crate) mod reference;
mod settings;
mod source;

use std::path::{Path, PathBuf};

pub(crate) use gatepost_settings::layers::{Layers, Mistake, SettingOrigin};

pub(crate) use settings::{
    Config, ListenerBinding, LogFormat, LogSettings, RemoteAccess, SandboxMode,
};
pub(crate) use source::{ConfigSource, print_mistakes};

/// The keys that define procedures and scopes, and the files that these name.
const PROCEDURE_KEYS: [&str; 3] = ["procedure", "procedures", "scope"];

/// Settings with mistakes.
#[derive(Debug)]
pub(crate) struct FaultyConfig {
    pub(crate) mistakes: Vec<Mistake>,
    /// The settings without the keys that cannot be read, if no such key defines procedures: then
    /// the procedures can be checked nevertheless.
    pub(crate) rest: Option<Box<(Config, Layers)>>,
}

impl From<Mistake> for FaultyConfig {
    fn from(mistake: Mistake) -> Self {
        Self {
            mistakes: vec![mistake],
            rest: None,
        }
    }
}

/// Reads the settings: defaults, then the file, then the variables, then the flags.
pub(crate) fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, String)>,
    flags: &[String],
) -> Result<(Config, Layers), FaultyConfig> {
    let mut layers = Layers::default();
    if let Some(file) = file {
        layers.add_file(file)?;
    }
    layers.add_variables(variables)?;
    for flag in flags {
        layers.add_flag(flag)?;
    }
    let (config, mut mistakes) = layers.settings_without_mistakes();
    let Some(mut config): Option<Config> = config else {
        return Err(FaultyConfig {
            mistakes,
            rest: None,
        });
    };
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    credentials::resolve(&mut config, folder.as_deref());
    config.rules.scores = Some(config.data.join(gatepost_operations::SCORES_FILE));
    let defines_procedures = |mistake: &Mistake| {
        let section = mistake.key.split('.').next();
        section.is_some_and(|section| PROCEDURE_KEYS.contains(&section))
    };
    let has_procedures = !mistakes.iter().any(defines_procedures);
    // Without a key that cannot be read, settings may contradict each other.
    if mistakes.is_empty() {
        mistakes = config.mistakes(&layers);
        mistakes.extend(addresses::repeated(&config.listeners, &layers));
    }
    if mistakes.is_empty() {
        return Ok((config, layers));
    }
    Err(FaultyConfig {
        mistakes,
        rest: has_procedures.then(|| Box::new((config, layers))),
    })
}

/// The procedures' problems, each with the place where its key was written. A problem whose place
/// is not a key concerns a separate file.
pub(crate) fn located(
    layers: &Layers,
    problems: &[gatepost_procedures::ConfigurationProblem],
) -> Vec<Mistake> {
    let located =
        |problem: &gatepost_procedures::ConfigurationProblem| match layers.origin(&problem.place) {
            SettingOrigin::Default => Mistake::new(&problem.place, "", &problem.text),
            origin => Mistake::new(origin, &problem.place, &problem.text),
        };
    problems.iter().map(located).collect()
}

#[cfg(test)]
mod tests;
