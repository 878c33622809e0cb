//! `gatepost scan --profile`: the distribution of the time, on standard error, beside the usual
//! results.

use crate::support::run;

const RULES: &str = "body CHEAP /cheap watches/i\nbody CLOCKS /cheap clocks/i\nscore CHEAP 7\n\
    body A1 /one[ ]horse/\nbody A2 /two[ ]horses/\n\
    body A3 /six[ ]horses/\nbody A4 /ten[ ]horses/\n";

#[test]
fn a_profile_names_stages_rules_and_what_was_computed_on_first_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("rules.cf"), RULES).expect("written");
    std::fs::create_dir(path("mails")).expect("a folder");
    for number in 0..3 {
        let message = format!("Subject: {number}\n\nCheap watches, no cheap cl\n");
        std::fs::write(path(&format!("mails/{number}.eml")), message).expect("written");
    }
    let scan = |more: &[&str]| {
        let (rules, mails) = (path("rules.cf"), path("mails"));
        let arguments = [&["scan", "--rules", &rules, &mails], more].concat();
        run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"")
    };
    let output = scan(&["--profile"]);
    let results = String::from_utf8_lossy(&output.stdout);
    assert_eq!(results.lines().count(), 3, "{results}");
    assert_eq!(output.status.code(), Some(5), "all are spam");
    let profile = String::from_utf8_lossy(&output.stderr);
    for part in [
        "3 messages, ",
        "MIME parts",
        "prefilters",
        "candidates verified",
        "transitions of automata",
        "compiled patterns",
    ] {
        assert!(profile.contains(part), "{part}: {profile}");
    }
    let rule = profile.lines().find(|line| line.starts_with("CHEAP "));
    let words: Vec<&str> = rule.expect("the rule").split_whitespace().collect();
    assert_eq!(
        words[2..],
        ["3", "3", "0"],
        "candidates, matches, other runs"
    );
    assert!(profile.contains("3 candidates were verified, 3 were matches: 0.0 %"));

    assert_eq!(scan(&[]).stdout, output.stdout, "the results are the same");
    assert_eq!(scan(&["--warm-up"]).stdout, output.stdout);
    let both = scan(&["--profile", "--why"]);
    assert_eq!(both.status.code(), Some(2), "one at a time");
}
