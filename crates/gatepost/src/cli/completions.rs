//! `gatepost completions` and `gatepost man`: both are made from the command line's definition
//! and the settings' descriptions, so they cannot disagree with them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::config::{Config, Layers, reference};
use crate::exit::EXIT_UNAVAILABLE;

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost completions bash > /etc/bash_completion.d/gatepost
  gatepost completions zsh > ~/.zfunc/_gatepost")]
pub(super) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &CompletionsArguments, mut command: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "gatepost", &mut script);
    // A reader that closes the pipe has seen enough.
    let _ = io::stdout().write_all(&script);
    ExitCode::SUCCESS
}

/// Write the man pages: one for each subcommand, and gatepost.toml(5)
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gatepost man man && man -l man/gatepost.toml.5")]
pub(super) struct ManArguments {
    /// The output folder
    folder: PathBuf,
}

pub(super) fn run_man(arguments: &ManArguments, command: clap::Command) -> ExitCode {
    match write_man(arguments, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {}: {error}", arguments.folder.display());
            ExitCode::from(EXIT_UNAVAILABLE)
        }
    }
}

fn write_man(arguments: &ManArguments, command: clap::Command) -> io::Result<()> {
    std::fs::create_dir_all(&arguments.folder)?;
    clap_mangen::generate_to(command, &arguments.folder)?;
    let manual = reference::manual(&Config::default(), &Layers::default());
    std::fs::write(arguments.folder.join("gatepost.toml.5"), manual)
}
