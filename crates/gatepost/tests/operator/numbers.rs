//! Numbers on the command line that no command can use are refused.

use crate::support::{run, text_of};

const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

#[test]
fn numbers_out_of_bounds_are_refused_and_the_largest_are_possible() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (rules, mail) = (path("rules.cf"), path("mail.eml"));
    std::fs::write(&rules, "body CHEAP /cheap watches/\n").expect("written");
    std::fs::write(&mail, "Subject: offer\n\ncheap watches\n").expect("written");
    for (arguments, code, part) in [
        (
            ["scan", "-j", "100000", "--rules", &rules, &mail],
            2,
            "1024",
        ),
        (["scan", "-j", "-1", "--rules", &rules, &mail], 2, "-1"),
        (["scan", "-j", "1024", "--rules", &rules, &mail], 0, "CHEAP"),
        (["scan", "-j", "0", "--rules", &rules, &mail], 0, "CHEAP"),
    ] {
        let output = run(GATEPOST, &arguments, b"");
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}
