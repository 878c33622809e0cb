//! Several hosts: network namespaces of this machine, each with its own interfaces and routes,
//! connected by virtual cables. If they cannot be created (no root), the hosts are processes on
//! loopback, and the test prints this prominently.

mod broker;
mod namespace;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gatepost_bench::outcome::RunOutcome;
use gatepost_bench::report::BenchReport;
use rustix::process::{Pid, Signal, kill_process};

use broker::{Faults, start_counting};
use namespace::Hosts;

/// Longer than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent that ends with the test.
struct Agent(Child);

impl Agent {
    fn start(hosts: &Hosts, host: usize, name: &str, control: SocketAddr) -> Self {
        Self::start_with(hosts, host, name, control, &[])
    }

    fn start_with(
        hosts: &Hosts,
        host: usize,
        name: &str,
        control: SocketAddr,
        more: &[&str],
    ) -> Self {
        let mut command = hosts.command(host, env!("CARGO_BIN_EXE_gatepost-bench"));
        let join = format!("mqtt://{}", hosts.reach(control));
        command.args(["agent", "--join", &join, "--name", name]);
        command.args(more);
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

/// Settings of FANOUT here: 2 publishers at 100 messages/s, 10 subscribers.
const FANOUT: &str =
    "fanout --publishers 2 --subscribers 10 --rate 100 --size 100 --warm-up 0 --drain 1";

/// A conductor of a scenario with these settings, against a URL or a command.
fn conductor(
    hosts: &Hosts,
    settings: &str,
    target: &str,
    control: SocketAddr,
    shares: &[&str],
    json: &Path,
) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost-bench"));
    let join = format!("mqtt://{}", hosts.reach(control));
    command.args(settings.split(' ')).arg(target);
    command
        .args(["--join", &join, "--quiet", "--json"])
        .arg(json);
    for share in shares {
        command.args(["--share", share]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the conductor starts")
}

fn mqtt(hosts: &Hosts, server: SocketAddr) -> String {
    format!("mqtt://{}", hosts.reach(server))
}

/// Waits until the server has counted this number.
fn wait_for(count: &AtomicU64, least: u64) {
    let deadline = Instant::now() + PATIENCE;
    while count.load(Ordering::Relaxed) < least {
        assert!(Instant::now() < deadline, "the server saw nothing");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ended(output: &Output) -> String {
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

fn outcome(json: &Path) -> RunOutcome {
    let report = BenchReport::read(json).expect("a report");
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
    let settings = format!("{FANOUT} --seconds 1");
    let target = mqtt(&hosts, target);
    let child = conductor(&hosts, &settings, &target, control, &shares, &json);
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
    // All clocks are the same here, so the measured offset must be zero within its error; a latency
    // is shown only if it is larger than that error.
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
                .any(|warning| warning.contains("omitted")),
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
    let settings = format!("{FANOUT} --seconds 3");
    let target = mqtt(&hosts, target);
    let child = conductor(&hosts, &settings, &target, control, &shares, &json);
    wait_for(&published, 100);
    two.kill();
    let text = ended(&child.wait_with_output().expect("it ends"));
    let run = outcome(&json);
    assert_eq!(run.value("subscribers missing"), Some(6.0), "{text}");
    let named = |warning: &String| {
        warning.contains("agent two was lost") && warning.contains("6 subscribers")
    };
    assert!(run.warnings.iter().any(named), "{:?}", run.warnings);
    // The results of the others stay unchanged: 4 of 10 subscribers, not scaled up to all.
    assert_eq!(run.value("offered"), Some(2_000.0 / 2.0));
    assert_eq!(run.counts_by_second.iter().sum::<u64>(), 4 * 300);
    assert_eq!(run.value("lost"), Some(0.0));
}

/// The number of threads of a process that receive.
fn receivers(process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
    let names = threads.flatten().filter_map(|thread| name(thread).ok());
    names.filter(|name| name.starts_with("receiver ")).count()
}

#[test]
fn an_agent_receives_on_as_many_threads_as_the_conductor_has_ordered() {
    let hosts = Hosts::loopback(1);
    let (target, published) = start_counting("127.0.0.1", Faults::default());
    let (control, _) = start_counting("127.0.0.1", Faults::default());
    let one = Agent::start(&hosts, 0, "one", control);
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let settings = format!("{FANOUT} --seconds 1 --workers 3");
    let target = mqtt(&hosts, target);
    let child = conductor(&hosts, &settings, &target, control, &[], &json);
    wait_for(&published, 1);
    let threads = receivers(one.0.id());
    ended(&child.wait_with_output().expect("it ends"));
    assert_eq!(threads, 3);
    let run = outcome(&json);
    assert_eq!(run.value("lost"), Some(0.0));
    // 100 messages from each of 2 publishers, to 5 subscribers each.
    assert_eq!(run.counts_by_second.iter().sum::<u64>(), 1_000);
}

#[test]
fn an_agent_that_is_not_there_is_named() {
    let (control, _) = start_counting("127.0.0.1", Faults::default());
    let hosts = Hosts::loopback(1);
    let _one = Agent::start(&hosts, 0, "one", control);
    let folder = tempfile::tempdir().expect("a folder");
    let shares = ["one=subscribers:4", "absent=subscribers:6"];
    let json = folder.path().join("run.json");
    let target = mqtt(&hosts, control);
    let child = conductor(&hosts, FANOUT, &target, control, &shares, &json);
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        error.contains("these agents do not answer: absent"),
        "{error}"
    );
}

/// A server that answers the requests in a line protocol, over HTTP until the client closes;
/// returns its address and the number of its responses.
fn line_server(
    hosts: &Hosts,
    greeting: &'static str,
    answer: fn(&str) -> Option<&'static str>,
) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind((hosts.any_address(), 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                stream.write_all(greeting.as_bytes())?;
                let mut last = false;
                for line in BufReader::new(stream.try_clone()?).lines() {
                    let line = line?;
                    last |= line == "Connection: close";
                    if let Some(answer) = answer(&line) {
                        counted.fetch_add(1, Ordering::Relaxed);
                        stream.write_all(answer.as_bytes())?;
                        if last {
                            break;
                        }
                    }
                }
                std::io::Result::Ok(())
            });
        }
    });
    (address, count)
}

/// A page for each request.
fn page(line: &str) -> Option<&'static str> {
    line.is_empty()
        .then_some("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
}

fn mail(line: &str) -> Option<&'static str> {
    match line.split(' ').next()? {
        "DATA" => Some("354 go on\r\n"),
        "EHLO" | "MAIL" | "RCPT" | "." => Some("250 ok\r\n"),
        "QUIT" => Some("221 bye\r\n"),
        _ => None,
    }
}

/// Runs a scenario on agents `one` and `two`; agent `box` on this host monitors the server.
fn run_on_two(hosts: &Hosts, settings: &str, target: &str, shares: &[&str]) -> RunOutcome {
    let (control, _) = start_counting(hosts.any_address(), Faults::default());
    let here = Hosts::loopback(1);
    let _agents = [(hosts, 0, "one"), (hosts, 1, "two")].map(|(hosts, host, name)| {
        Agent::start_with(hosts, host, name, control, &["--allow-commands"])
    });
    let _box = Agent::start(
        &here,
        0,
        "box",
        SocketAddr::from(([127, 0, 0, 1], control.port())),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let child = conductor(hosts, settings, target, control, shares, &json);
    ended(&child.wait_with_output().expect("it ends"));
    outcome(&json)
}

#[test]
fn subscriptions_and_idle_connections_of_several_hosts_add_up() {
    let hosts = Hosts::make("users", 2);
    let faults = Faults {
        refuse_every: Some(25),
        ..Faults::default()
    };
    let (target, _) = start_counting(hosts.any_address(), faults);
    let target = mqtt(&hosts, target);
    let shares = ["one=users:4", "two=users:6", "box=server"];
    let run = run_on_two(&hosts, "subscribe --users 10 --topics 20", &target, &shares);
    // Of 200 subscriptions every 25th is refused, on any host.
    assert_eq!(run.value("failed"), Some(8.0), "{run:?}");
    assert_eq!(run.value("users missing"), Some(0.0));
    assert_eq!(run.counts_by_second.iter().sum::<u64>(), 192);
    assert_eq!(run.latencies[0].summary.count, 192);
    let rate = run.value("subscriptions per second").expect("a rate");
    let seconds = run.value("time for all").expect("a time");
    assert!(
        (rate * seconds - 192.0).abs() < 1e-6,
        "{rate} for {seconds}"
    );
    for line in ["one: user 3 login ok", "two: user 5 login ok"] {
        assert!(
            run.original.contains(&line.to_owned()),
            "{:?}",
            run.original
        );
    }
    assert!(
        run.value("server CPU per subscription").is_some(),
        "{run:?}"
    );

    let shares = ["one=connections:10", "two=connections:20", "box=server"];
    let settings = "idle --connections 30 --seconds 0.3";
    let run = run_on_two(&hosts, settings, &target, &shares);
    assert_eq!(run.value("connections lost"), Some(0.0), "{run:?}");
    assert_eq!(run.value("connections missing"), Some(0.0));
    assert!(
        run.value("server memory per connection").is_some(),
        "{run:?}"
    );
}

#[test]
fn pages_mails_and_calls_of_several_hosts_add_up() {
    let hosts = Hosts::make("pages", 2);
    let (web, pages) = line_server(&hosts, "", page);
    let target = format!("http://{}/", hosts.reach(web));
    let settings = "web --clients 4 --sizes 317 --seconds 0.5 --warm-up 0 --keep-alive";
    let run = run_on_two(
        &hosts,
        settings,
        &target,
        &["one=clients:1", "two=clients:3"],
    );
    let counted: u64 = run.counts_by_second.iter().sum();
    // In addition, the page that each agent checks first, and requests interrupted at the end.
    let served = pages.load(Ordering::Relaxed);
    assert!(
        counted > 4 && (counted + 2..=counted + 6).contains(&served),
        "{counted} of {served}"
    );
    assert_eq!(run.latencies[0].summary.count, counted);
    for agent in ["one", "two"] {
        assert!(run.value(&format!("CPU of {agent}")).is_some(), "{agent}");
    }

    let (smtp, _) = line_server(&hosts, "220 here\r\n", mail);
    let target = format!("smtp://{}", hosts.reach(smtp));
    let settings = "smtp --sessions 4 --seconds 0.5 --warm-up 0";
    let run = run_on_two(
        &hosts,
        settings,
        &target,
        &["one=sessions:2", "two=sessions:2"],
    );
    assert_eq!(run.value("refused"), Some(0.0), "{run:?}");
    assert!(run.latencies[0].summary.count > 4, "{run:?}");

    let shares = ["one=callers:1", "two=callers:1"];
    let run = run_on_two(&hosts, "call --calls 5", "sh -c 'exit 3'", &shares);
    assert_eq!(run.latencies[0].summary.count, 10, "{run:?}");
    assert_eq!(run.value("exit code"), Some(3.0));
}

#[test]
fn an_agent_runs_no_commands_unless_it_is_allowed_to() {
    let hosts = Hosts::loopback(1);
    let (control, _) = start_counting("127.0.0.1", Faults::default());
    let _one = Agent::start(&hosts, 0, "one", control);
    let folder = tempfile::tempdir().expect("a folder");
    let (json, made) = (folder.path().join("run.json"), folder.path().join("made"));
    let command = format!("touch {}", made.display());
    let shares = ["one=callers:1"];
    let child = conductor(&hosts, "call --calls 1", &command, control, &shares, &json);
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("--allow-commands"), "{error}");
    assert!(!made.exists());
}

#[test]
fn clients_of_an_agent_that_dies_are_missing_and_ctrl_c_keeps_the_rest() {
    let hosts = Hosts::make("loss", 2);
    let (web, pages) = line_server(&hosts, "", page);
    let (control, _) = start_counting(hosts.any_address(), Faults::default());
    let _one = Agent::start(&hosts, 0, "one", control);
    let mut two = Agent::start(&hosts, 1, "two", control);
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let settings = "web --clients 5 --sizes 317 --seconds 60 --warm-up 0 --keep-alive";
    let target = format!("http://{}/", hosts.reach(web));
    let shares = ["one=clients:2", "two=clients:3"];
    let child = conductor(&hosts, settings, &target, control, &shares, &json);
    wait_for(&pages, 100);
    two.kill();
    wait_for(&pages, pages.load(Ordering::Relaxed) + 100);
    let conductor_id = Pid::from_child(&child);
    kill_process(conductor_id, Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let run = outcome(&json);
    assert!(run.interrupted);
    assert_eq!(run.value("clients missing"), Some(3.0), "{run:?}");
    let named = |warning: &String| warning.contains("agent two was lost");
    assert!(run.warnings.iter().any(named), "{:?}", run.warnings);
    assert!(run.counts_by_second.iter().sum::<u64>() > 0);
}
