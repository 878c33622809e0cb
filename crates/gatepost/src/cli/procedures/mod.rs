//! `gatepost procedures`: lists procedures, and tests one.

mod trial;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use gatepost_procedures::{ConfigurationProblem, ProcedureHost, Procedures};
use gatepost_rules::RuleSet;

use crate::config::{Config, ConfigSource, Layers, located, print_mistakes};

/// The functions and fields that Luau procedures have, for editors.
const TYPES: &str = include_str!("../../../../../docs/gatepost.d.luau");

/// List procedures, or test one on a message
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost procedures list
  gatepost procedures test procedures/mail/greylist.luau message.eml -limit 3
  gatepost procedures test /mail message.eml --recipient alarms+fire@localhost
  gatepost procedures test /jsoncheck reading.json --topic sensors/1
  gatepost procedures types > gatepost.d.luau")]
pub(super) struct ProceduresArguments {
    #[command(subcommand)]
    action: ProceduresAction,
}

#[derive(Debug, Subcommand)]
enum ProceduresAction {
    List(ListArguments),
    Test(trial::TestArguments),
    /// Print the types of the Luau API, for luau-lsp and editors
    Types,
}

/// List every procedure with its source and the scopes that run it
#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ProceduresArguments) -> ExitCode {
    match &arguments.action {
        ProceduresAction::List(arguments) => list(arguments),
        ProceduresAction::Test(arguments) => trial::run(arguments),
        ProceduresAction::Types => {
            print!("{TYPES}");
            ExitCode::SUCCESS
        }
    }
}

fn list(arguments: &ListArguments) -> ExitCode {
    let (config, layers) = match arguments.source.load() {
        Ok(loaded) => loaded,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    let rules = Arc::new(RuleSet::embedded());
    let procedures = match start(&config, &layers, rules, ProcedureHost::detached()) {
        Ok(procedures) => procedures,
        Err(code) => return code,
    };
    println!("{:<28} {:<36} run by", "procedure", "from");
    for one in procedures.listing() {
        let from = one
            .file
            .map_or_else(|| "built in".to_owned(), |file| file.display().to_string());
        let line = format!("{:<28} {from:<36} {}", one.path, one.scopes.join(", "));
        println!("{}", line.trim_end());
    }
    ExitCode::SUCCESS
}

/// The procedures of a config, independent of a running server; their problems are printed.
pub(super) fn start(
    config: &Config,
    layers: &Layers,
    rules: Arc<RuleSet>,
    host: ProcedureHost,
) -> Result<Procedures, ExitCode> {
    let mut configuration = config.procedures();
    // A test has one message at a time, and reads the folder once.
    configuration.procedures.recheck = gatepost_settings::Period::seconds(0);
    let started = Procedures::start_in(configuration, rules, host);
    started
        .map(|(procedures, _)| procedures)
        .map_err(|problems| refused(layers, &problems))
}

fn refused(layers: &Layers, problems: &[ConfigurationProblem]) -> ExitCode {
    print_mistakes(&located(layers, problems))
}
