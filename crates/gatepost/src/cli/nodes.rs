//! `gatepost nodes`: the servers of a cluster.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use gatepost_backbone::NodeRecord;
use gatepost_settings::Period;

use super::backbone::{cluster_of, failed};
use crate::config::ConfigSource;

/// List the servers of the cluster
///
/// Those that run, and those that have joined and do not run now. This asks the NATS servers that
/// the config names.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  gatepost nodes --config node1.toml
  gatepost nodes --config node1.toml --json
  gatepost nodes forget 3 --config node1.toml"
)]
pub(super) struct NodesArguments {
    #[command(subcommand)]
    command: Option<NodesCommand>,
    /// As JSON, one array of those that run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: ConfigSource,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    Forget(ForgetArguments),
}

/// Give up the sessions of a node whose database is lost
///
/// While a node is not running, clients whose sessions it has are refused by the other nodes. After
/// this command they get new sessions. The messages that wait on the node are lost, unless it
/// returns before its clients connect again.
#[derive(Debug, Args)]
struct ForgetArguments {
    /// The number of the node, which must not be running
    #[arg(value_name = "NODE")]
    node: u8,
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &NodesArguments) -> ExitCode {
    match &arguments.command {
        Some(NodesCommand::Forget(forget)) => self::forget(forget),
        None => list(arguments),
    }
}

fn forget(arguments: &ForgetArguments) -> ExitCode {
    let (config, runtime) = match cluster_of(&arguments.source) {
        Ok(cluster) => cluster,
        Err(code) => return code,
    };
    let node = arguments.node;
    match runtime.block_on(gatepost_backbone::forget_node(&config.backbone, node)) {
        Ok(sessions) => {
            println!("sessions of node {node} that were given up: {sessions}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn list(arguments: &NodesArguments) -> ExitCode {
    let (config, runtime) = match cluster_of(&arguments.source) {
        Ok(cluster) => cluster,
        Err(code) => return code,
    };
    let nodes = match runtime.block_on(gatepost_backbone::nodes(&config.backbone)) {
        Ok(nodes) => nodes,
        Err(error) => return failed(&error),
    };
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&nodes.alive).unwrap_or_default()
        );
        return ExitCode::SUCCESS;
    }
    let latest = nodes.alive.iter().map(|node| node.encoding).max();
    for node in &nodes.alive {
        println!("{}{}", line(node), note(node.encoding, latest));
    }
    for node in &nodes.absent {
        let note = note(node.encoding, latest);
        println!(
            "{:<4} {:<24} {:<16} version {}{note}",
            node.node, "not running", "", node.version
        );
    }
    ExitCode::SUCCESS
}

/// The words after a node that does not read what the latest version may write.
fn note(encoding: u8, latest: Option<u8>) -> String {
    match latest {
        Some(latest) if encoding < latest => {
            format!(", reads encoding {encoding} of {latest}: upgrade it")
        }
        _ => String::new(),
    }
}

fn line(node: &NodeRecord) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let started = Duration::from_millis(node.started_unix_ms);
    let age = now.unwrap_or_default().saturating_sub(started);
    let age = Period::seconds(age.as_secs());
    format!(
        "{:<4} {:<24} process {:<8} version {:<8} for {age}",
        node.node, node.host, node.process, node.version
    )
}
