//! The command line, shared by `gatepost bench` and `gatepost-bench`.

use crate::compare::CompareArguments;
use crate::process::Pinning;
use crate::scenario::call::CallArguments;
use crate::scenario::fanout::FanoutArguments;
use crate::scenario::idle::IdleArguments;
use crate::scenario::scan::ScanArguments;
use crate::scenario::smtp::SmtpArguments;
use crate::scenario::subscribe::SubscribeArguments;
use crate::scenario::web::WebArguments;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Runs the five scenarios, against Gatepost or any other server of the kind.
#[derive(Debug, Clone, Args)]
pub struct BenchArguments {
    /// What to run.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What to run.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// A client program is started once per call (Scope Engine, 2002)
    Call {
        /// Settings.
        #[command(flatten)]
        scenario: CallArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// A rule engine scores a set of mails (SpamAssassin on Perl, 2006)
    Scan {
        /// Settings.
        #[command(flatten)]
        scenario: ScanArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// A few publishers, thousands of subscribers (ICE iPush, 2005)
    Fanout {
        /// Settings.
        #[command(flatten)]
        scenario: FanoutArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// A burst of acknowledged subscriptions (ICE iPush, 2005)
    Subscribe {
        /// Settings.
        #[command(flatten)]
        scenario: SubscribeArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// Pages with one insertion point, in nine sizes (Coyote web server, 1998)
    Web {
        /// Settings.
        #[command(flatten)]
        scenario: WebArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// The five scenarios one after another, with the originals' settings
    All {
        /// Peers [default: gatepost and every other that is installed]
        #[arg(long, value_name = "NAME")]
        peer: Vec<String>,
        /// A folder of further peer definitions
        #[arg(long, value_name = "DIR")]
        peers: Option<PathBuf>,
        /// Runs of each
        #[arg(long, value_name = "N", default_value_t = 1)]
        runs: usize,
        /// Write each scenario's result into this folder
        #[arg(long, value_name = "DIR")]
        results: Option<PathBuf>,
        /// Each as short as it can be
        #[arg(long)]
        quick: bool,
        /// Show no progress
        #[arg(long)]
        quiet: bool,
    },
    /// Mail comes in over a few sessions
    Smtp {
        /// Settings.
        #[command(flatten)]
        scenario: SmtpArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// What idle connections cost
    Idle {
        /// Settings.
        #[command(flatten)]
        scenario: IdleArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// Compares stored results, or columns of figures, as ministat does and beyond
    Compare(CompareArguments),
    /// What this machine's system calls cost: the floor under every result
    Floor {
        /// Write the result as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Lists the peers that can be started, and which are installed
    Peers {
        /// A folder of further definitions
        #[arg(long, value_name = "DIR")]
        peers: Option<PathBuf>,
    },
}

/// What is measured, how often, and where the result goes.
#[derive(Debug, Clone, Default, Args)]
pub struct SeriesArguments {
    /// Targets: URLs (mqtt://HOST:PORT, http://…, spamd://…) or commands in quotes
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// A server to be started and stopped by the bench; repeatable, runs are interleaved
    #[arg(long, value_name = "NAME")]
    pub peer: Vec<String>,
    /// A folder of further peer definitions
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Runs of each target
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub runs: usize,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Processors of the servers that the bench starts, and of the bench: "0:1", "0,1:2-3"
    #[arg(long, value_name = "SERVER:BENCH")]
    pub pin: Option<Pinning>,
    /// The server's process, where it cannot be found by its port
    #[arg(long)]
    pub pid: Option<u32>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}
