//! Any backup is imported or refused; an export contains everything that was imported.
#![no_main]

use std::sync::Arc;

use gatepost_learning::bayes::{Bayes, BayesLimits, MemoryStore};
use libfuzzer_sys::fuzz_target;

fn bayes() -> Bayes {
    match Bayes::open(Arc::new(MemoryStore::default()), BayesLimits::default()) {
        Ok(bayes) => bayes,
        Err(_) => unreachable!("memory does not fail"),
    }
}

fuzz_target!(|text: &[u8]| {
    for text in [text.to_vec(), [b"v\t3\tdb_version\n", text].concat()] {
        let first = bayes();
        if first.import(text.as_slice()).is_err() {
            continue;
        }
        let mut backup = Vec::new();
        first.export(&mut backup).expect("writing to memory works");
        let second = bayes();
        second.import(backup.as_slice()).expect("our own backup is read");
        let exported = |bayes: &Bayes| {
            let statistics = bayes.statistics();
            (statistics.totals, statistics.tokens, statistics.messages)
        };
        assert_eq!(exported(&second), exported(&first));
    }
});
