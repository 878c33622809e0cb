//! Numbers on the command line that no measurement can use are refused, before anything is
//! connected, allocated or started.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than a refusal takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// The memory that a refusal may use, in kilobytes: more than the program needs to begin.
const MEMORY_KB: u32 = 4_000_000;
const TRILLION: &str = "1000000000000";
const LARGEST: &str = "18446744073709551615";

/// Runs the program, with a bound of its memory, on arguments that it must refuse; gives its
/// reason.
fn refusal(arguments: &str) -> String {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY_KB}; exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_gatepost-bench"))
        .args(arguments.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("it runs");
            panic!("{arguments}: it still runs");
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("it ended");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    assert!(matches!(code, Some(1 | 2)), "{arguments}: {code:?}, {text}");
    text
}

#[test]
fn numbers_that_no_run_can_have_are_refused() {
    // Nothing listens there: a run that were tried would fail for another reason.
    let none = "127.0.0.1:9";
    let mqtt = |scenario: &str, words: &str| format!("{scenario} {words} mqtt://{none}");
    let web = |words: &str| format!("web {words} http://{none}/");
    let smtp = |words: &str| format!("smtp {words} smtp://{none}");
    let calls = |words: &str| format!("calls {words} call://{none}");
    let scan = |words: &str| format!("scan --composed {words} spamd://{none}");
    for (arguments, reason) in [
        (mqtt("idle", "--connections 0"), "above 0"),
        (
            mqtt("idle", &format!("--connections {LARGEST}")),
            "open files",
        ),
        (mqtt("idle", "--seconds 1e-300"), "from 0.001"),
        (mqtt("idle", "--connect-rate=-1"), "--connect-rate"),
        (mqtt("idle", "--connect-rate 1e300"), "at most"),
        (mqtt("idle", "--agents 0 --join mqtt://x"), "from 1 to"),
        (
            mqtt("fanout", &format!("--subscribers {LARGEST}")),
            "3000000",
        ),
        (mqtt("fanout", &format!("--size {TRILLION}")), "268435456"),
        (mqtt("fanout", &format!("--workers {TRILLION}")), "1024"),
        (mqtt("fanout", "--workers 0"), "from 1"),
        (mqtt("fanout", "--rate 0"), "above 0"),
        (mqtt("fanout", "--rate 1e300"), "at most"),
        (mqtt("fanout", "--rate nan"), "not a number"),
        (
            mqtt("subscribe", &format!("--users {LARGEST}")),
            "open files",
        ),
        (mqtt("subscribe", "--window 0"), "above 0"),
        (mqtt("subscribe", "--interval 1e-9"), "from 0.01"),
        (
            mqtt(
                "subscribe",
                &format!("--join mqtt://x --share a=users:{LARGEST}"),
            ),
            "a=users",
        ),
        (web("--clients 0"), "above 0"),
        (web(&format!("--clients {TRILLION}")), "open files"),
        (web(&format!("--sizes 317,{TRILLION}")), "268435456"),
        (web("--rate 1e300"), "at most"),
        (web("--rate 0"), "above 0"),
        (smtp(&format!("--sessions {TRILLION}")), "open files"),
        (smtp(&format!("--size {TRILLION}")), "268435456"),
        (smtp(&format!("--size {LARGEST}")), "268435456"),
        (smtp("--per-connection 0"), "above 0"),
        (calls(&format!("--connections {TRILLION}")), "open files"),
        (calls(&format!("--in-flight {TRILLION}")), "from 1 to"),
        (calls("--rate 1e300"), "at most"),
        (calls("--rate=-1"), "above 0"),
        (scan("--limit 0"), "above 0"),
        (scan(&format!("--concurrency {TRILLION}")), "from 1 to"),
        (scan("--runs 0"), "from 1 to"),
        ("call --calls 0 true".to_owned(), "from 1 to"),
        (format!("call --calls 1,{LARGEST} true"), "from 1 to"),
        (format!("compare -w {TRILLION} none"), "from 1 to"),
        ("compare -C 0 none".to_owned(), "from 1 to"),
        ("trend --ratios --fall nan none".to_owned(), "from 0 to 100"),
    ] {
        let text = refusal(&arguments);
        assert!(text.contains(reason), "{arguments}: {text}");
    }
}

#[test]
fn a_call_that_is_never_due_in_the_measured_time_ends_no_run() {
    // The second call would be due after the end of the clock; the first finds no server.
    let text = refusal("calls --rate 1e-300 --seconds 0.1 --warm-up 0 call://127.0.0.1:9");
    assert!(text.contains("refused"), "{text}");
}
