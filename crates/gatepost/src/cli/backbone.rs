//! `gatepost backbone`: the NATS servers of a cluster.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gatepost_backbone::{BackboneError, BackboneSettings, EngineFinding, EngineFindingKind};
use tokio::runtime::{Builder, Runtime};

use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::{EXIT_CONFIG, EXIT_UNAVAILABLE};

/// Check the NATS servers by which this server shares topics with others
#[derive(Debug, Args)]
pub(super) struct BackboneArguments {
    #[command(subcommand)]
    action: BackboneAction,
}

#[derive(Debug, Subcommand)]
enum BackboneAction {
    /// Report problems of the NATS servers: version, replicas, writing to the disk, limits,
    /// permissions; exit code 1 if there is a warning, 69 if something does not work
    ///
    /// It connects as the server would, and creates nothing.
    #[command(after_help = "\
Examples:
  gatepost backbone check --config node1.toml           each finding with its remedy")]
    Check {
        #[command(flatten)]
        source: ConfigSource,
    },
}

pub(super) fn run(arguments: &BackboneArguments) -> ExitCode {
    let BackboneAction::Check { source } = &arguments.action;
    let (config, runtime) = match cluster_of(source) {
        Ok(cluster) => cluster,
        Err(code) => return code,
    };
    let packet_bytes_max = config.listeners.mqtt.packet_max.bytes();
    let findings = gatepost_backbone::check(&config.backbone, packet_bytes_max);
    let findings = runtime.block_on(findings);
    for finding in &findings {
        println!("{}", line(finding));
    }
    match findings.iter().map(|finding| finding.kind).max() {
        Some(EngineFindingKind::Error) => ExitCode::from(EXIT_UNAVAILABLE),
        Some(EngineFindingKind::Warning) => ExitCode::FAILURE,
        Some(EngineFindingKind::Good) | None => ExitCode::SUCCESS,
    }
}

fn line(finding: &EngineFinding) -> String {
    let kind = match finding.kind {
        EngineFindingKind::Good => "ok",
        EngineFindingKind::Warning => "warning",
        EngineFindingKind::Error => "error",
    };
    format!("{kind:<8} {}", finding.text)
}

/// The config, which must have a cluster, and a runtime to ask it.
pub(super) fn cluster_of(source: &ConfigSource) -> Result<(Config, Runtime), ExitCode> {
    let (config, _) = source
        .load()
        .map_err(|mistakes| print_mistakes(&mistakes))?;
    if !BackboneSettings::is_set(&config.backbone) {
        eprintln!("gatepost: this server has no cluster: name the NATS servers in backbone.nats");
        return Err(ExitCode::from(EXIT_CONFIG));
    }
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Ok((config, runtime)),
        Err(error) => {
            eprintln!("gatepost: {error}");
            Err(ExitCode::from(EXIT_UNAVAILABLE))
        }
    }
}

/// Prints the reason why the cluster could not be queried.
pub(super) fn failed(error: &BackboneError) -> ExitCode {
    eprintln!("gatepost: backbone: {error}");
    ExitCode::from(EXIT_UNAVAILABLE)
}
