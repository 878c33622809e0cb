//! The config that users meet: one value per room, read from a file, the environment and flags,
//! each over the one before, every mistake told with file, line and mend.

mod settings;

use std::path::Path;

pub(crate) use gatepost_settings::layers::{Layers as Origins, Mistake, Origin};
pub(crate) use settings::{Config, LogFormat, LogSettings, Place};

/// Reads the settings: defaults, then the file, then the variables, then the flags.
pub(crate) fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, String)>,
    flags: &[String],
) -> Result<(Config, Origins), Vec<Mistake>> {
    let mut layers = Origins::default();
    let one = |mistake| vec![mistake];
    if let Some(file) = file {
        layers.add_file(file).map_err(one)?;
    }
    layers.add_variables(variables).map_err(one)?;
    for flag in flags {
        layers.add_flag(flag).map_err(one)?;
    }
    let config: Config = layers.settings()?;
    let mistakes = config.mistakes(&layers);
    if mistakes.is_empty() {
        Ok((config, layers))
    } else {
        Err(mistakes)
    }
}

/// The procedures' problems, each with the place where its key was written. A problem whose place is
/// no key is about a file of its own.
pub(crate) fn told(origins: &Origins, problems: &[gatepost_procedures::Problem]) -> Vec<Mistake> {
    let told = |problem: &gatepost_procedures::Problem| match origins.origin(&problem.place) {
        Origin::Default => Mistake::new(&problem.place, "", &problem.text),
        origin => Mistake::new(origin, &problem.place, &problem.text),
    };
    problems.iter().map(told).collect()
}

#[cfg(test)]
mod tests;
