//! The command line, shared by `gatepost bench` and `gatepost-bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::agent::AgentArguments;
use crate::bounds;
use crate::compare::CompareArguments;
use crate::hosts::HostArguments;
use crate::process::Pinning;
use crate::record::{RecordArguments, TablesArguments, TrendArguments};
use crate::report::ReportArguments;
use crate::scenario::call::CallArguments;
use crate::scenario::calls::CallsArguments;
use crate::scenario::fanout::FanoutArguments;
use crate::scenario::idle::IdleArguments;
use crate::scenario::scan::ScanArguments;
use crate::scenario::smtp::SmtpArguments;
use crate::scenario::subscribe::SubscribeArguments;
use crate::scenario::web::WebArguments;
use crate::sweep::DEFAULT_STEPS;

const EXAMPLES: &str = "\
Examples:
  fanout mqtt://127.0.0.1:1883                     a running broker
  fanout --peer mosquitto --peer gatepost --runs 5 two brokers that the bench starts, A/B/A/B
  fanout --peer gatepost --subscribers 10..19000   the growth of the costs, with its exponent
  fanout --peer nats-server --max                  the highest rate without loss
  web --peer nginx --runs 5 --html web.html        plots in one file
  compare fanout.json --confidence 99.5            ministat's test, and further ones

Read the warnings next to the figures. docs/bench.md describes all scenarios and options.";

/// Runs the scenarios against Gatepost or any other server of the same kind.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: BenchSubcommand,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchSubcommand {
    /// A client program is started once per call (Scope Engine, 2002)
    Call {
        /// Settings.
        #[command(flatten)]
        scenario: CallArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
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
        scenario: Box<FanoutArguments>,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// A burst of acknowledged subscriptions (ICE iPush, 2005)
    Subscribe {
        /// Settings.
        #[command(flatten)]
        scenario: SubscribeArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// Pages with one insertion point, in nine sizes (Coyote web server, 1998)
    Web {
        /// Settings.
        #[command(flatten)]
        scenario: WebArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// Mail received over a few sessions
    Smtp {
        /// Settings.
        #[command(flatten)]
        scenario: SmtpArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// Calls over persistent connections
    Calls {
        /// Settings.
        #[command(flatten)]
        scenario: CallsArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// The cost of idle connections
    Idle {
        /// Settings.
        #[command(flatten)]
        scenario: IdleArguments,
        /// The hosts that run it, if not this one.
        #[command(flatten)]
        hosts: HostArguments,
        /// Targets and runs.
        #[command(flatten)]
        series: SeriesArguments,
    },
    /// The five scenarios one after another, with the originals' settings
    All(AllArguments),
    /// The cost of this machine's system calls: the lower bound of every result
    Floor {
        /// Write the result as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Store the result in this folder, for trend and tables
        #[arg(long, value_name = "DIR")]
        record: Option<PathBuf>,
    },
    /// Compares stored results, or columns of figures, as ministat does and beyond
    Compare(CompareArguments),
    /// Converts stored results to Markdown, CSV or one HTML file with plots
    Report(ReportArguments),
    /// Stores results in a folder, with machine facts and commit
    Record(RecordArguments),
    /// Plots the recorded results, and marks the first run that differs
    Trend(TrendArguments),
    /// Updates the tables of a document from the recorded results
    Tables(TablesArguments),
    /// Runs a share of a scenario on several hosts, for a conductor (any scenario with --join)
    Agent(AgentArguments),
    /// Lists the peers that can be started, and those that are installed
    Peers {
        /// A folder of further definitions
        #[arg(long, value_name = "DIR")]
        peers: Option<PathBuf>,
        /// Print the definition of one, as a template for your own
        #[arg(long, value_name = "NAME")]
        show: Option<String>,
    },
}

/// Settings of `all`.
#[derive(Debug, Clone, Args)]
pub struct AllArguments {
    /// Peers [default: gatepost and every other that is installed]
    #[arg(long, value_name = "NAME")]
    pub(crate) peer: Vec<String>,
    /// A folder of further peer definitions
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Number of runs of each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = bounds::count)]
    pub(crate) runs: usize,
    /// Write each scenario's result into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Each as short as possible
    #[arg(long)]
    pub(crate) quick: bool,
    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Targets, number of runs and destination of the results.
#[derive(Debug, Clone, Args)]
pub struct SeriesArguments {
    /// Targets: URLs (mqtt://HOST:PORT, http://…, spamd://…) or commands in quotes
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// A server for the bench to start and stop; repeatable, runs are interleaved
    #[arg(long, value_name = "NAME", help_heading = "Targets and runs")]
    pub peer: Vec<String>,
    /// A folder of further peer definitions
    #[arg(long, value_name = "DIR", help_heading = "Targets and runs")]
    pub peers: Option<PathBuf>,
    /// The protocol of a peer, if it has several: mqtt5, ws, sse
    #[arg(long, value_name = "WAY", help_heading = "Targets and runs")]
    pub over: Option<String>,
    /// Runs of each target [default: 1, of SCAN 20 as the original made]
    #[arg(
        long, value_name = "N", help_heading = "Targets and runs", value_parser = bounds::count,
    )]
    pub runs: Option<usize>,
    /// Steps of a swept setting, such as --subscribers 10..19000
    #[arg(
        long, value_name = "N", default_value_t = DEFAULT_STEPS, help_heading = "Targets and runs",
        value_parser = bounds::count,
    )]
    pub steps: usize,
    /// Processors of the servers that the bench starts, and of the bench: "0:1", "0,1:2-3"
    #[arg(long, value_name = "SERVER:BENCH", help_heading = "Targets and runs")]
    pub pin: Option<Pinning>,
    /// The server's process, if it cannot be found by its port
    #[arg(long, help_heading = "Targets and runs")]
    pub pid: Option<u32>,
    /// The server's control group, such as a container's: a folder below /sys/fs/cgroup
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "pid",
        help_heading = "Targets and runs"
    )]
    pub cgroup: Option<PathBuf>,
    /// Count system calls too; needs root and a mounted tracefs, and slows every call by about 100
    /// ns
    #[arg(long, help_heading = "Targets and runs")]
    pub system_calls: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub markdown: Option<PathBuf>,
    /// Write the result as comma-separated values, a line for each figure of each run
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub csv: Option<PathBuf>,
    /// Write the result as one HTML file with plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
    /// Store the result in this folder, for trend and tables
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub record: Option<PathBuf>,
    /// Show the published figures of the original systems (1998 to 2006) as well
    #[arg(long, help_heading = "Results")]
    pub originals: bool,
    /// Show no progress
    #[arg(long, help_heading = "Results")]
    pub quiet: bool,
}

impl Default for SeriesArguments {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            peer: Vec::new(),
            peers: None,
            over: None,
            runs: None,
            steps: DEFAULT_STEPS,
            pin: None,
            pid: None,
            cgroup: None,
            system_calls: false,
            json: None,
            markdown: None,
            csv: None,
            html: None,
            record: None,
            originals: false,
            quiet: false,
        }
    }
}
