//! `gatepost completions` and `gatepost man`: both are made from the command line's definition,
//! so they cannot disagree with it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::exit::EXIT_UNAVAILABLE;

/// Print shell completions
#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &CompletionsArguments, mut command: clap::Command) -> ExitCode {
    clap_complete::generate(
        arguments.shell,
        &mut command,
        "gatepost",
        &mut std::io::stdout(),
    );
    ExitCode::SUCCESS
}

/// Write the man pages
#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// The output folder
    folder: PathBuf,
}

pub(super) fn run_man(arguments: &ManArguments, command: clap::Command) -> ExitCode {
    let written = std::fs::create_dir_all(&arguments.folder)
        .and_then(|()| clap_mangen::generate_to(command, &arguments.folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {}: {error}", arguments.folder.display());
            ExitCode::from(EXIT_UNAVAILABLE)
        }
    }
}
