//! Any message gives tokens, is learned and forgotten, and leaves no trace.
#![no_main]

use gatepost_learning::bayes::{Bayes, BayesSettings, Class, Relearn, BayesSample};
use gatepost_mail::Mail;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let mut settings = BayesSettings::default();
    settings.directive("bayes_token_sources", "all");
    let sample = BayesSample::of(&Mail::parse(message), &settings);
    assert_eq!(BayesSample::of(&Mail::parse(message), &settings), sample);
    let bayes = Bayes::in_memory();
    bayes.learn(&sample, Class::Spam, Relearn::Change, &settings);
    assert_eq!(bayes.statistics().tokens, sample.tokens.len());
    assert!(bayes.forget(&sample, &settings));
    assert_eq!(bayes.statistics().tokens, 0);
});
