//! The command line: one file per subcommand, each with its arguments and a `run`.

mod backbone;
mod backup;
mod bans;
mod bench;
mod check;
mod clock;
mod completions;
mod config;
mod database;
mod delayed;
mod dkim;
mod healthcheck;
mod import;
mod input_lines;
mod learn;
mod list_page;
mod message_format;
mod nodes;
mod plain;
mod procedures;
mod publish;
mod quarantine;
mod scan;
mod senders;
mod serve;
mod sessions;
mod sinks;
mod subscribe;
mod user;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::client::AdminError;
use crate::serve::huge_pages;

/// A message gateway: receives mail, web requests and MQTT, judges every message, and pushes
/// accepted ones to subscribers and live pages.
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
    Scan(scan::ScanCommandArguments),
    Check(check::CheckArguments),
    Config(config::ConfigArguments),
    Learn(learn::LearnArguments),
    Procedures(procedures::ProceduresArguments),
    User(user::UserArguments),
    Bans(bans::BansArguments),
    Clock(clock::ClockArguments),
    Sessions(sessions::SessionsArguments),
    Quarantine(quarantine::QuarantineArguments),
    Senders(senders::SendersArguments),
    Sinks(sinks::SinksArguments),
    Delayed(delayed::DelayedArguments),
    Dkim(dkim::DkimArguments),
    Import(import::ImportArguments),
    Backup(backup::BackupArguments),
    Restore(backup::RestoreArguments),
    Pub(publish::PublishArguments),
    Sub(subscribe::SubscribeCommandArguments),
    Backbone(backbone::BackboneArguments),
    Nodes(nodes::NodesArguments),
    Bench(bench::BenchOptions),
    Healthcheck(healthcheck::HealthcheckArguments),
    Completions(completions::CompletionsArguments),
    Man(completions::ManArguments),
}

/// Parses the command line and executes the subcommand.
pub(crate) fn run() -> ExitCode {
    let command = CommandLine::parse().command;
    if !matches!(command, Command::Serve(_)) {
        huge_pages::for_a_command();
    }
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Learn(arguments) => learn::run(&arguments),
        Command::Procedures(arguments) => procedures::run(&arguments),
        Command::Pub(arguments) => publish::run(&arguments),
        Command::Sub(arguments) => subscribe::run(&arguments),
        Command::User(arguments) => user::run(&arguments),
        Command::Bans(arguments) => bans::run(&arguments),
        Command::Clock(arguments) => clock::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Quarantine(arguments) => quarantine::run(&arguments),
        Command::Senders(arguments) => senders::run(&arguments),
        Command::Sinks(arguments) => sinks::run(&arguments),
        Command::Delayed(arguments) => delayed::run(&arguments),
        Command::Dkim(arguments) => dkim::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
        Command::Backbone(arguments) => backbone::run(&arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        Command::Bench(command) => bench::run(command),
        Command::Healthcheck(arguments) => healthcheck::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, CommandLine::command()),
        Command::Man(arguments) => completions::run_man(&arguments, CommandLine::command()),
    }
}

/// Prints the reason why a request to a server failed.
fn finish(done: Result<(), AdminError>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
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
