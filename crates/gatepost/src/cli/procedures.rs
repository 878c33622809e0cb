//! `gatepost procedures`: what there is, and trying one out.

mod trial;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use gatepost_procedures::{Host, Problem, Procedures};
use gatepost_rules::RuleSet;

use super::{ConfigSource, print_mistakes};
use crate::config::{Config, Origins, told};

/// The functions and fields that Luau procedures have, for editors.
const TYPES: &str = include_str!("../../../../docs/gatepost.d.luau");

/// List procedures, or try one out on a message
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
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(ListArguments),
    Test(trial::TestArguments),
    /// Print the types of what Luau procedures may use, for luau-lsp and other editors' helpers
    Types,
}

/// List every procedure, where it comes from, and the scopes that run it
#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ProceduresArguments) -> ExitCode {
    match &arguments.action {
        Action::List(arguments) => list(arguments),
        Action::Test(arguments) => trial::run(arguments),
        Action::Types => {
            print!("{TYPES}");
            ExitCode::SUCCESS
        }
    }
}

fn list(arguments: &ListArguments) -> ExitCode {
    let (config, origins) = match arguments.source.load() {
        Ok(loaded) => loaded,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    let rules = Arc::new(RuleSet::embedded());
    let procedures = match start(&config, &origins, rules, Host::apart()) {
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

/// The procedures of a config, apart from a running server; what is wrong with them is printed.
pub(super) fn start(
    config: &Config,
    origins: &Origins,
    rules: Arc<RuleSet>,
    host: Host,
) -> Result<Procedures, ExitCode> {
    let mut configuration = config.procedures();
    // A trial has one message at a time, and looks at the folder once.
    configuration.procedures.recheck = gatepost_settings::Period::seconds(0);
    let started = Procedures::start_in(configuration, rules, host);
    started
        .map(|(procedures, _)| procedures)
        .map_err(|problems| refused(origins, &problems))
}

fn refused(origins: &Origins, problems: &[Problem]) -> ExitCode {
    print_mistakes(&told(origins, problems))
}
