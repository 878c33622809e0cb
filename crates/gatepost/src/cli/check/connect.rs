//! `gatepost check --connect`: checks that the destination of each sink can be reached.

use std::process::ExitCode;

use crate::config::Config;
use crate::exit::EXIT_UNAVAILABLE;

pub(super) fn run(config: &Config) -> ExitCode {
    let sinks = &config.sink;
    // A mistake in it was found before.
    let smarthost = config.smarthost().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return ExitCode::from(EXIT_UNAVAILABLE);
    };
    let mut failed = 0;
    for sink in sinks {
        let (target, outcome) = runtime.block_on(gatepost_sinks::check(sink, smarthost.clone()));
        match outcome {
            Ok(()) => println!("{}: {target} can be reached", sink.name),
            Err(error) => {
                failed += 1;
                println!("{}: {target}: {error}", sink.name);
            }
        }
    }
    match (sinks.len(), failed) {
        (0, _) => println!("gatepost: there are no sinks"),
        (count, 0) => println!("gatepost: {count} of {count} sinks can be reached"),
        (count, _) => {
            println!("gatepost: {failed} of {count} sinks cannot be reached");
            return ExitCode::from(EXIT_UNAVAILABLE);
        }
    }
    ExitCode::SUCCESS
}
