//! `all`: the five scenarios one after another, each with the original's settings.

use clap::{Args, Command};

use super::Scenario;
use super::call::{Call, CallArguments};
use super::fanout::{Fanout, FanoutArguments};
use super::scan::{Scan, ScanArguments};
use super::subscribe::{SubscribeArguments, SubscribeBurst};
use super::web::{Web, WebArguments};
use crate::error::BenchError;

/// A scenario, with the name of its result file.
pub type NamedScenario = (&'static str, Box<dyn Scenario>);

/// The five scenarios, named as their result files; FANOUT with both of its settings. `quick` makes
/// each as short as is meaningful.
pub fn original_scenarios(quick: bool) -> Result<Vec<NamedScenario>, BenchError> {
    let words = |usual: &'static str, quickly: &'static str| if quick { quickly } else { usual };
    let call: CallArguments = parsed(words("", "--calls 100,1000"))?;
    let scan: ScanArguments = parsed("")?;
    let fanout_1: FanoutArguments = parsed(words("", "--seconds 3 --warm-up 1"))?;
    let fanout_2: FanoutArguments =
        parsed(words("--setting 2", "--setting 2 --seconds 3 --warm-up 1"))?;
    let subscribe: SubscribeArguments = parsed("")?;
    let web: WebArguments = parsed(words("", "--seconds 1 --warm-up 0.2"))?;
    Ok(vec![
        ("call", Box::new(Call::new(call)?)),
        ("scan", Box::new(Scan::new(scan)?)),
        ("fanout-1", Box::new(Fanout::new(fanout_1)?)),
        ("fanout-2", Box::new(Fanout::new(fanout_2)?)),
        ("subscribe", Box::new(SubscribeBurst::new(subscribe)?)),
        ("web", Box::new(Web::new(web)?)),
    ])
}

/// A scenario's settings parsed from text, so that the defaults are defined only once.
fn parsed<Arguments: Args>(words: &str) -> Result<Arguments, BenchError> {
    let command = Arguments::augment_args(Command::new("scenario").no_binary_name(true));
    command
        .try_get_matches_from(words.split_whitespace())
        .and_then(|matches| Arguments::from_arg_matches(&matches))
        .map_err(|error| BenchError::Settings(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_have_the_originals_settings() {
        let all = original_scenarios(false).expect("settings");
        let settings: Vec<_> = all
            .iter()
            .map(|(name, one)| (*name, one.settings()))
            .collect();
        let of = |wanted| {
            &settings
                .iter()
                .find(|(name, _)| *name == wanted)
                .expect("there")
                .1
        };
        assert_eq!(of("call")["calls"], serde_json::json!([100, 1_000, 10_000]));
        assert_eq!(of("scan")["count"], 178);
        assert_eq!(
            (
                of("fanout-1")["rate"].as_f64(),
                of("fanout-1")["size"].as_u64()
            ),
            (Some(10.0), Some(1_000))
        );
        assert_eq!(
            (
                of("fanout-2")["rate"].as_f64(),
                of("fanout-2")["size"].as_u64()
            ),
            (Some(35.0), Some(100))
        );
        assert_eq!(
            (
                of("subscribe")["users"].as_u64(),
                of("subscribe")["topics"].as_u64()
            ),
            (Some(100), Some(1_000))
        );
        assert_eq!(of("web")["sizes"].as_array().map(Vec::len), Some(9));
        assert!(original_scenarios(true).is_ok());
    }
}
