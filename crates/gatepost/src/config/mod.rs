//! The config: defaults, file, environment and flags, each overriding the previous one. Every
//! mistake is reported with file, line and remedy.

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

/// Reads the settings: defaults, then the file, then the variables, then the flags.
pub(crate) fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, String)>,
    flags: &[String],
) -> Result<(Config, Layers), Vec<Mistake>> {
    let mut layers = Layers::default();
    let one = |mistake| vec![mistake];
    if let Some(file) = file {
        layers.add_file(file).map_err(one)?;
    }
    layers.add_variables(variables).map_err(one)?;
    for flag in flags {
        layers.add_flag(flag).map_err(one)?;
    }
    let mut config: Config = layers.settings()?;
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    credentials::resolve(&mut config, folder.as_deref());
    config.rules.scores = Some(config.data.join(gatepost_operations::SCORES_FILE));
    let mistakes = config.mistakes(&layers);
    if mistakes.is_empty() {
        Ok((config, layers))
    } else {
        Err(mistakes)
    }
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
