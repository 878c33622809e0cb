//! The log: lines on standard error, as text for people or as JSON for collectors. The target of a
//! line is its subsystem, and the field `message` is the id of the message concerned.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::log_limit::LogLimit;
use crate::config::{LogFormat, LogSettings};

/// Starts logging; called once. Returns the limit of repeating lines, whose report the caller must
/// run.
pub(super) fn start(settings: &LogSettings) -> LogLimit {
    let limit = LogLimit::new(settings.repeats_max);
    // The level was checked with the config.
    let mut filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
    // The first warns of each frame that a client sends out of order, without a limit; the second
    // repeats what `backbone` logs.
    for quiet in ["h2=error", "async_nats=error"] {
        let (name, _) = quiet.split_once('=').unwrap_or_default();
        if let (false, Ok(quiet)) = (settings.level.contains(name), quiet.parse()) {
            filter = filter.add_directive(quiet);
        }
    }
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // The complaint about a line that cannot be written would be a panic, because it cannot be
        // written either: a full disk under the log would end threads.
        .log_internal_errors(false);
    let started = match settings.format {
        LogFormat::Text => {
            let lines = lines.map_event_format(|format| limit.around(format));
            lines.try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            let lines = lines.map_event_format(|format| limit.around(format));
            lines.try_init()
        }
    };
    if let Err(error) = started {
        eprintln!("gatepost: the log cannot be started: {error}");
    }
    limit
}
