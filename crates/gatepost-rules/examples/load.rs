//! Loads rule folders and prints the problems and the number of rules: `load DIR…`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use gatepost_rules::{RuleSet, RulesSettings};

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let start = Instant::now();
    let (rules, problems) = RuleSet::load(&paths, &RulesSettings::default());
    println!("{:?} in {:?}", rules.statistics(), start.elapsed());
    let mut causes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for problem in &problems {
        causes
            .entry((problem.severity, problem.cause))
            .or_default()
            .push(problem);
    }
    for ((severity, cause), problems) in causes {
        println!("{:6} {}: {cause}", problems.len(), severity.name());
        for problem in problems.iter().take(match severity.name() {
            "note" => 1,
            _ => 400,
        }) {
            println!("         {problem}");
        }
    }
    let start = Instant::now();
    let broken = rules.compile_all();
    println!("all patterns compiled in {:?}", start.elapsed());
    for (rule, reason) in broken {
        println!("  {rule}: {reason}");
    }
}
