//! The bounds of pages: memory of procedures, slow readers of events, rechecks.

use crate::support::{Gateway, await_some, run, text_of};
use crate::{connect, converse, start};

fn page(gateway: &Gateway, path: &str) -> String {
    text_of(&run("curl", &["-si", &gateway.url(path)], b""))
}

#[test]
fn a_procedure_that_wants_too_much_memory_leaves_its_page_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for made in ["pages", "procedures"] {
        std::fs::create_dir(at(made)).expect("a folder");
    }
    let doubling = "return function() local s = 'x' while true do s = s .. s end end";
    std::fs::write(at("procedures/double.luau"), doubling).expect("a procedure");
    let fine =
        "return function(message, arguments) return { text = 'good ' .. arguments.name } end";
    std::fs::write(at("procedures/fine.luau"), fine).expect("a procedure");
    let template = "before {{ call(\"/double\") }} {{ call(\"/fine\", name=\"day\") }} after";
    std::fs::write(at("pages/page.html"), template).expect("a page");
    let gateway = Gateway::start_in(folder.path(), "rules.paths = []\n");
    for _ in 0..3 {
        let answer = page(&gateway, "/page");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("before <!-- gatepost error "), "{answer}");
        assert!(answer.contains("--> good day after"), "{answer}");
    }
    let log = gateway.log();
    assert!(log.contains("more memory than it may"), "{log}");
}

/// Its socket takes what it has room for, some of an event included; then the oldest that wait are
/// dropped, and it learns how many.
#[test]
fn a_slow_reader_of_events_learns_of_each_gap() {
    const EVENTS: u64 = 3_000;
    let mut gateway = start("broker.stream_messages_max = 100\n");
    let mut reader = connect(gateway.address("http"));
    let ask = "GET /topics/flood?data=payload&since=none HTTP/1.1\r\nHost: localhost\r\n\
               Accept: text/event-stream\r\n\r\n";
    converse(&mut reader, ask.as_bytes(), b"retry: 1000\n\n");
    // 24 MB, more than a socket holds.
    let filling = "x".repeat(8_000);
    let lines: Vec<String> = (1..=EVENTS)
        .map(|number| format!("{number} {filling}\n"))
        .collect();
    let lines = lines.concat();
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-t", "flood", "-q", "1", "-l"];
    let output = run("mosquitto_pub", &arguments, lines.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));

    let mut seen = 0;
    let (mut came, mut missed) = (0, 0);
    for line in std::io::BufRead::lines(std::io::BufReader::new(reader)) {
        let line = line.expect("the stream goes on");
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        if let Some(gap) = data.strip_prefix("{\"missed\":") {
            let count: u64 = gap.trim_end_matches('}').parse().expect("a number");
            missed += count;
            seen += count;
            continue;
        }
        let (number, rest) = data.split_once(' ').expect("a number");
        assert_eq!(
            number.parse(),
            Ok(seen + 1),
            "none doubled, none unreported"
        );
        assert_eq!(rest.len(), filling.len(), "whole");
        seen += 1;
        came += 1;
        if seen == EVENTS {
            break;
        }
    }
    assert_eq!(came + missed, EVENTS);
    assert!(missed > 0, "it was slow");
    assert!(gateway.is_running());
}

#[test]
fn with_manual_recheck_a_page_changes_by_signal_only() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("pages")).expect("a folder");
    let write = |text: &str| {
        std::fs::write(folder.path().join("pages/page.html"), text).expect("a page");
        std::fs::write(folder.path().join("pages/style.css"), text).expect("a file");
    };
    write("first {{ now() }}");
    let gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = []\npages.recheck = \"manual\"\n",
    );
    let shows = |text: &str| {
        ["/page", "/style.css"].map(|path| page(&gateway, path).contains(text)) == [true; 2]
    };
    assert!(shows("first"));
    write("second {{ now() }}, which is longer");
    for _ in 0..3 {
        assert!(shows("first"), "the second was not requested");
    }
    gateway.signal("HUP");
    await_some("the second is read", || shows("second").then_some(()));
}
