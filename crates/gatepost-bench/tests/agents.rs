//! Several hosts: network namespaces of this machine, each with its own interfaces and routes,
//! joined by virtual cables. Where they cannot be made (no root), the hosts are processes on
//! loopback, and the test says so loudly.

mod broker;
mod namespace;

use broker::{Faults, start_counting};
use gatepost_bench::outcome::Outcome;
use gatepost_bench::report::Report;
use namespace::Hosts;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// No step takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent that ends with the test.
struct Agent(Child);

impl Agent {
    fn start(hosts: &Hosts, host: usize, name: &str, control: SocketAddr) -> Self {
        let mut command = hosts.command(host, env!("CARGO_BIN_EXE_gatepost-bench"));
        let join = format!("mqtt://{}", hosts.reach(control));
        command.args(["agent", "--join", &join, "--name", name]);
        let child = command.stdout(Stdio::null()).spawn();
        Self(child.expect("the agent starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("it ended");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A conductor with shares, 2 publishers at 100 messages/s, 10 subscribers.
fn conductor(
    hosts: &Hosts,
    target: SocketAddr,
    control: SocketAddr,
    seconds: &str,
    shares: &[&str],
    json: &Path,
) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost-bench"));
    let target = format!("mqtt://{}", hosts.reach(target));
    let join = format!("mqtt://{}", hosts.reach(control));
    command.args([
        "fanout",
        &target,
        "--join",
        &join,
        "--seconds",
        seconds,
        "--quiet",
    ]);
    command.args([
        "--publishers",
        "2",
        "--subscribers",
        "10",
        "--rate",
        "100",
        "--size",
        "100",
    ]);
    command
        .args(["--warm-up", "0", "--drain", "1", "--json"])
        .arg(json);
    for share in shares {
        command.args(["--share", share]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the conductor starts")
}

fn ended(output: &Output) -> String {
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

fn outcome(json: &Path) -> Outcome {
    let report = Report::read(json).expect("a report");
    report.targets[0].runs[0].clone()
}

#[test]
fn shares_add_up_and_what_is_dropped_on_any_host_is_counted() {
    let hosts = Hosts::make("share", 3);
    let faults = Faults {
        drop_every: Some(10),
        ..Faults::default()
    };
    let (target, _) = start_counting(hosts.any_address(), faults);
    let (control, _) = start_counting(hosts.any_address(), Faults::default());
    let _agents = [(0, "one"), (1, "two"), (2, "three")]
        .map(|(host, name)| Agent::start(&hosts, host, name, control));
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let shares = [
        "one=subscribers:3",
        "two=subscribers:7",
        "three=publishers:2",
    ];
    let child = conductor(&hosts, target, control, "1", &shares, &json);
    let text = ended(&child.wait_with_output().expect("it ends"));
    let run = outcome(&json);
    // 100 messages to each of 10 subscribers, of which every tenth is left out.
    assert_eq!(run.value("lost"), Some(100.0), "{text}");
    assert_eq!(run.value("duplicates"), Some(0.0));
    assert_eq!(run.value("subscribers missing"), Some(0.0));
    assert_eq!(run.counts_by_second.iter().sum::<u64>(), 900);
    for agent in ["one", "two", "three"] {
        assert!(run.value(&format!("CPU of {agent}")).is_some(), "{agent}");
    }
    // All clocks are one here, so the offset must have been found to be nothing, as well as the
    // error says; a latency is shown only where it is larger than that error.
    let error = run.value("clock offset known to").expect("a figure");
    assert!(error > 0.0 && error < 1e6, "{error}");
    match run.latency_of("delivery") {
        Some(latency) => assert!(
            latency.p50_us > error && latency.count == 900,
            "{latency:?}"
        ),
        None => assert!(
            run.warnings
                .iter()
                .any(|warning| warning.contains("left out")),
            "{run:?}"
        ),
    }
}

#[test]
fn an_agent_that_dies_is_named_and_its_share_is_missing() {
    let hosts = Hosts::make("death", 3);
    let (target, published) = start_counting(hosts.any_address(), Faults::default());
    let (control, _) = start_counting(hosts.any_address(), Faults::default());
    let _one = Agent::start(&hosts, 0, "one", control);
    let mut two = Agent::start(&hosts, 1, "two", control);
    let _three = Agent::start(&hosts, 2, "three", control);
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let shares = [
        "one=subscribers:4",
        "two=subscribers:6",
        "three=publishers:2",
    ];
    let child = conductor(&hosts, target, control, "3", &shares, &json);
    let deadline = Instant::now() + PATIENCE;
    while published.load(Ordering::Relaxed) < 100 {
        assert!(Instant::now() < deadline, "nothing was published");
        thread::sleep(Duration::from_millis(5));
    }
    two.kill();
    let text = ended(&child.wait_with_output().expect("it ends"));
    let run = outcome(&json);
    assert_eq!(run.value("subscribers missing"), Some(6.0), "{text}");
    let named = |warning: &String| {
        warning.contains("agent two was lost") && warning.contains("6 subscribers")
    };
    assert!(run.warnings.iter().any(named), "{:?}", run.warnings);
    // What the others got stands as it is: 4 of 10 subscribers, not scaled up to all.
    assert_eq!(run.value("offered"), Some(2_000.0 / 2.0));
    assert_eq!(run.counts_by_second.iter().sum::<u64>(), 4 * 300);
    assert_eq!(run.value("lost"), Some(0.0));
}

#[test]
fn an_agent_that_is_not_there_is_named() {
    let (control, _) = start_counting("127.0.0.1", Faults::default());
    let hosts = Hosts::loopback(1);
    let _one = Agent::start(&hosts, 0, "one", control);
    let folder = tempfile::tempdir().expect("a folder");
    let shares = ["one=subscribers:4", "nobody=subscribers:6"];
    let json = folder.path().join("run.json");
    let child = conductor(&hosts, control, control, "1", &shares, &json);
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        error.contains("these agents do not answer: nobody"),
        "{error}"
    );
}
