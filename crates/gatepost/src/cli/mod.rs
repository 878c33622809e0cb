//! The command line: one file per subcommand, each with its arguments and a `run`.

mod bench;
mod check;
mod completions;
mod config;
mod learn;
mod message_format;
mod procedures;
mod publish;
mod scan;
mod serve;
mod subscribe;
mod user;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{Config, Mistake, Origins};

/// What is wrong with the command itself or with the config (BSD's `EX_CONFIG`).
pub(crate) const EXIT_CONFIG: u8 = 78;
/// What could not be done (BSD's `EX_UNAVAILABLE`).
pub(crate) const EXIT_UNAVAILABLE: u8 = 69;

/// A message gateway: mail, web requests and MQTT come in, are judged, and what passed is pushed
/// to subscribers and live pages.
#[derive(Debug, Parser)]
#[command(
    name = "gatepost",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArguments),
    Scan(scan::ScanArguments),
    Check(check::CheckArguments),
    Config(config::ConfigArguments),
    Learn(learn::LearnArguments),
    Procedures(procedures::ProceduresArguments),
    User(user::UserArguments),
    Pub(publish::PublishArguments),
    Sub(subscribe::SubscribeArguments),
    Bench(bench::BenchCommand),
    Completions(completions::CompletionsArguments),
    #[command(hide = true)]
    Man(completions::ManArguments),
}

/// Where the settings come from; the same for every command that reads them.
#[derive(Debug, Args)]
pub(crate) struct ConfigSource {
    /// The config file; without one, everything is on its default, on loopback
    #[arg(long, value_name = "FILE", env = "GATEPOST_CONFIG")]
    config: Option<PathBuf>,
    /// Set one key over the file and the environment: `--set data=/var/lib/gatepost`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl ConfigSource {
    pub(crate) fn load(&self) -> Result<(Config, Origins), Vec<Mistake>> {
        crate::config::load(self.config.as_deref(), std::env::vars(), &self.assignments)
    }
}

/// Prints each mistake on its own line.
pub(crate) fn print_mistakes(mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("gatepost: {mistake}");
    }
    ExitCode::from(EXIT_CONFIG)
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    match CommandLine::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Learn(arguments) => learn::run(&arguments),
        Command::Procedures(arguments) => procedures::run(&arguments),
        Command::Pub(arguments) => publish::run(&arguments),
        Command::Sub(arguments) => subscribe::run(&arguments),
        Command::User(arguments) => user::run(&arguments),
        Command::Bench(command) => bench::run(command),
        Command::Completions(arguments) => completions::run(&arguments, CommandLine::command()),
        Command::Man(arguments) => completions::run_man(&arguments, CommandLine::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
