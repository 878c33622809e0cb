//! The config that users meet: one value per room, read from a file, the environment and flags,
//! each over the one before, every mistake told with file, line and mend.

mod dump;
mod layers;
mod load;
mod mistake;
mod settings;

use std::path::Path;

pub(crate) use dump::dump;
pub(crate) use layers::Layers as Origins;
pub(crate) use mistake::Mistake;
pub(crate) use settings::{Config, LogFormat, LogSettings};

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
    let config: Config = load::settings(&mut layers)?;
    let mistakes = config.mistakes(&layers);
    if mistakes.is_empty() {
        Ok((config, layers))
    } else {
        Err(mistakes)
    }
}

#[cfg(test)]
mod tests;
