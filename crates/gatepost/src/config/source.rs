//! Sources of the settings: the arguments that every command with a config has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gatepost_settings::layers::VARIABLE_PREFIX;

use super::{Config, FaultyConfig, Layers, Mistake};
use crate::exit::EXIT_CONFIG;

/// The variable with the path of the config file, which is no setting.
const CONFIG_VARIABLE: &str = "GATEPOST_CONFIG";

/// The config file and the flags that override it.
#[derive(Debug, Args)]
pub(crate) struct ConfigSource {
    /// The config file; without one, all settings have their defaults, with listeners on loopback
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE)]
    config: Option<PathBuf>,
    /// Set one key over the file and the environment: `--set data=/var/lib/gatepost`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl ConfigSource {
    /// The config file, where there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    pub(crate) fn load(&self) -> Result<(Config, Layers), Vec<Mistake>> {
        self.load_or_rest().map_err(|faulty| faulty.mistakes)
    }

    /// Like [`ConfigSource::load`], with the settings that can be read despite the mistakes.
    pub(crate) fn load_or_rest(&self) -> Result<(Config, Layers), FaultyConfig> {
        let variables = variables(std::env::vars_os())?;
        super::load(
            self.config.as_deref(),
            variables.into_iter(),
            &self.assignments,
        )
    }
}

/// The variables that may be settings. Others need not be UTF-8.
fn variables(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, Mistake> {
    let named = environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let is_ours = |name: &str| name.starts_with(VARIABLE_PREFIX) && name != CONFIG_VARIABLE;
    let ours = named.filter(|(name, _)| is_ours(name));
    let text = |(name, value): (String, OsString)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(Mistake::new(
            format!("${name}"),
            "",
            "the value is not UTF-8",
        )),
    };
    ours.map(text).collect()
}

/// Prints each mistake on its own line.
pub(crate) fn print_mistakes(mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("gatepost: {mistake}");
    }
    ExitCode::from(EXIT_CONFIG)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn only_variables_of_ours_must_be_text() {
        let wrong = || OsString::from_vec(vec![b'x', 0xff]);
        let text = |text: &str| OsString::from(text);
        let environment = [
            (text("PATH"), wrong()),
            (wrong(), text("x")),
            (text("GATEPOST_CONFIG"), wrong()),
            (text("GATEPOST_DATA"), text("d")),
        ];
        let found = variables(environment.into_iter()).expect("no mistake");
        assert_eq!(found, [("GATEPOST_DATA".to_owned(), "d".to_owned())]);
        let mistake = variables([(text("GATEPOST_DATA"), wrong())].into_iter());
        let mistake = mistake.expect_err("a mistake").to_string();
        assert_eq!(mistake, "$GATEPOST_DATA: the value is not UTF-8");
    }
}
