//! Messages of many signatures with many fields are verified in bounded time.

use std::fmt::Write as _;

use super::{TIME_MAX, computed, numbered};

/// A key with which no signature is valid.
const RECORD: &str = "v=DKIM1; k=ed25519; p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// The hash of the body below.
const BODY_HASH: &str = "s14J+iztnrytnRYzb7lhFG/jS/vrxWJnnahfijFMnco=";

#[track_caller]
fn check(name: &str, head: &str) {
    let start = computed();
    let data = format!("From: a@b.c\n{head}\nx\n\0{RECORD}");
    gatepost_rules::authentication::check_any(data.as_bytes());
    let time = computed().checked_sub(start).unwrap_or_default();
    println!("{name}: {} bytes in {time:?}", data.len());
    assert!(time < TIME_MAX, "{name} took {time:?}");
}

fn signature(names: &str, more: &str) -> String {
    format!(
        "DKIM-Signature: v=1; a=ed25519-sha256; d=b.c; s=d; h=from{names}; bh={BODY_HASH}; \
         b=eA==; {more}\n"
    )
}

#[test]
fn signatures_are_verified_within_bounds() {
    for names in [999, 5_000] {
        let signatures = signature(&":a".repeat(names), "").repeat(16);
        check(
            &format!("signatures of {names} names"),
            &format!("{signatures}{}", "a:\n".repeat(500_000)),
        );
    }
    let tags = numbered(200_000, |all, number| {
        let _ = write!(all, "a{number}=;");
    });
    check("a signature of many tags", &signature("", &tags));
    let set = |number: usize| {
        let text = "a ".repeat(10_000);
        format!(
            "ARC-Authentication-Results: i={number}; {text}\nARC-Message-Signature: i={number}; \
             a=ed25519-sha256; d=b.c; s=d; h=from; bh={BODY_HASH}; b=eA==\n\
             ARC-Seal: i={number}; a=ed25519-sha256; d=b.c; s=d; cv=pass; b=eA==\n"
        )
    };
    check("a long chain", &(1..=50).map(set).collect::<String>());
}
