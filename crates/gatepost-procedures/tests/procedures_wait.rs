//! Procedures that wait for DNS servers, HTTP servers and clamd, and messages judged meanwhile.

mod support;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::{Action, Message};
use gatepost_procedures::{ProcedureAnswer, ProcedureArguments, Procedures};
use gatepost_settings::{Bind, ByteSize, Period};
use tokio::task::JoinHandle;

use support::{Fixture, PATIENCE, answer_when_notified, call, mail, until_waiting};

const ASKS_NAMES: &str = r#"return function(message)
    local found, why = dns.a(message.subject)
    return if found then table.concat(found, ",") else "nothing: " .. why
end"#;
const ASKS_A_SERVER: &str = r#"return function(message)
    local answer, why = http.get(message.subject)
    return if answer then answer.body else "nothing: " .. why
end"#;
const ASKS_NOBODY: &str = r#"return function() return "reject", "local" end"#;

/// Servers that accept connections and never answer.
struct Silent {
    names: UdpSocket,
    connections: TcpListener,
}

impl Silent {
    fn new() -> Self {
        Self {
            names: UdpSocket::bind("127.0.0.1:0").expect("a socket"),
            connections: TcpListener::bind("127.0.0.1:0").expect("a socket"),
        }
    }

    fn address(&self) -> SocketAddr {
        self.connections.local_addr().expect("an address")
    }

    /// Procedures that ask them and wait for long, and one that asks no server.
    fn fixture(&self) -> Fixture {
        let mut fixture = Fixture::new()
            .with("names", ASKS_NAMES)
            .with("http", ASKS_A_SERVER)
            .with("local", ASKS_NOBODY);
        let (long, settings) = (Period::seconds(1000), &mut fixture.configuration);
        settings.procedures.dns.servers = vec![self.names.local_addr().expect("an address")];
        settings.procedures.dns.timeout = long;
        settings.procedures.http.hosts = vec![format!("http://{}", self.address())];
        settings.procedures.http.timeout = long;
        settings.procedures.luau.wait_max = long;
        settings.table.viruscheck.server = Bind::Tcp(self.address());
        settings.table.viruscheck.timeout = long;
        fixture
    }

    /// A message that makes the procedure at `path` wait.
    fn message(&self, path: &str, number: usize) -> Message {
        let subject = match path {
            "/http" => format!("http://{}/{number}", self.address()),
            _ => format!("host{number}.example"),
        };
        mail(&format!("Subject: {subject}\r\n\r\ntext\r\n"))
    }
}

fn spawn_call(
    procedures: &Procedures,
    path: &'static str,
    message: Message,
) -> JoinHandle<ProcedureAnswer> {
    let procedures = procedures.clone();
    tokio::spawn(async move { call(&procedures, path, message).await })
}

#[tokio::test]
async fn a_thousand_calls_that_wait_hold_no_judge_and_end_with_their_callers() {
    const CALLS: usize = 1000;
    let silent = Silent::new();
    let procedures = silent.fixture().start();
    for path in ["/names", "/http", "/viruscheck"] {
        let calls = (0..CALLS).map(|number| silent.message(path, number));
        let calls: Vec<_> = calls
            .map(|message| spawn_call(&procedures, path, message))
            .collect();
        until_waiting(&procedures, CALLS).await;
        // Both judges are free: with one of them held, this would not end.
        for _ in 0..4 {
            let answer = call(&procedures, "/local", mail("")).await;
            assert_eq!(answer.verdict.action, Action::Reject, "{path}");
        }
        assert_eq!(procedures.status().waiting_for_network, CALLS, "{path}");
        for call in &calls {
            call.abort();
        }
        until_waiting(&procedures, 0).await;
    }
}

/// A name server that answers on a signal, and procedures that ask it.
fn known_names(fixture: &mut Fixture) -> std::sync::mpsc::Sender<()> {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let settings = &mut fixture.configuration.procedures;
    settings.dns.servers = vec![server.local_addr().expect("an address")];
    settings.dns.timeout = Period::seconds(50);
    settings.luau.wait_max = Period::seconds(50);
    answer_when_notified(server)
}

#[tokio::test]
async fn calls_go_on_where_they_waited() {
    // Each asks from a place from which the wait must find its way, or be awaited in place.
    let places = [
        ("plain", "local found = dns.a(name) return found[1]"),
        (
            "pcall",
            "local ok, found = pcall(dns.a, name) assert(ok) return found[1]",
        ),
        (
            "xpcall",
            "local ok, found = xpcall(function() return dns.a(name)[1] end, print) return found",
        ),
        (
            "coroutine",
            r#"local inner = coroutine.create(function(first)
                local second = coroutine.yield(first)
                return dns.a(name)[1], second
            end)
            local _, first = coroutine.resume(inner, "first")
            local ok, found, second = coroutine.resume(inner, "second")
            assert(ok and first == "first" and second == "second")
            assert(coroutine.status(inner) == "dead")
            return found"#,
        ),
        (
            "wrap",
            r#"local outer = coroutine.wrap(function()
                local inner = coroutine.wrap(function()
                    coroutine.yield(dns.a(name)[1]) error("end")
                end)
                coroutine.yield(inner())
                local ok, why = pcall(inner)
                coroutine.yield(tostring(ok) .. tostring(why):match("end"))
            end)
            local found = outer()
            assert(outer() == "falseend")
            return found"#,
        ),
        (
            "callback",
            r#"return (string.gsub("x", "x", function() return dns.a(name)[1] end))"#,
        ),
        (
            "coroutine in a callback",
            r#"local ask = coroutine.wrap(function() return dns.a(name)[1] end)
            return (string.gsub("x", "x", ask))"#,
        ),
        (
            "twice",
            r#"local found = dns.a(name) return dns.aaaa(name .. ".")[1] or found[1]"#,
        ),
    ];
    let mut fixture = Fixture::new();
    for (place, code) in places {
        let path = place.replace(' ', "-");
        let code = format!("return function(message) local name = \"{path}.example\" {code} end");
        fixture = fixture.with(&path, &code);
    }
    let notify = known_names(&mut fixture);
    fixture.configuration.procedures.judges = places.len();
    let procedures = fixture.start();
    let calls = places.map(|(place, _)| {
        let path = format!("/{}", place.replace(' ', "-"));
        let procedures = procedures.clone();
        tokio::spawn(async move { call(&procedures, &path, mail("")).await })
    });
    // Procedures that wait in a callback block their judge.
    until_waiting(&procedures, places.len() - 2).await;
    notify.send(()).expect("the server runs");
    for (call, (place, _)) in calls.into_iter().zip(places) {
        let answer = call.await.expect("judged");
        assert_eq!(answer.text, "127.0.0.2", "{place}: {answer:?}");
    }
    assert_eq!(procedures.status().waiting_for_network, 0);
}

#[tokio::test]
async fn only_the_run_of_a_call_counts_as_its_time() {
    let time_max = Duration::from_secs(2);
    let mut fixture = Fixture::new().with(
        "waits",
        r#"return function(message, arguments)
            local found = dns.a("host.example")
            while arguments.forever do end
            return found[1]
        end"#,
    );
    let notify = known_names(&mut fixture);
    fixture.configuration.procedures.luau.time_max = Period(time_max);
    let procedures = fixture.start();
    let waits = spawn_call(&procedures, "/waits", mail(""));
    until_waiting(&procedures, 1).await;
    tokio::time::sleep(time_max).await;
    notify.send(()).expect("the server runs");
    let answer = waits.await.expect("judged");
    assert_eq!(answer.text, "127.0.0.2", "{answer:?}");

    // After a wait the run is limited as before.
    let mut arguments = ProcedureArguments::none();
    arguments.push("forever", "true");
    let message = Arc::new(mail(""));
    let answer = procedures.call("/waits", message, arguments).await;
    let answer = answer.expect("there is one");
    assert_eq!(answer.verdict.action, Action::Defer, "{answer:?}");
}

#[tokio::test]
async fn steps_and_memory_are_those_of_the_whole_call() {
    let mut fixture = Fixture::new()
        .with(
            "steps",
            r#"return function()
                for _ = 1, 600 do end
                dns.a("host.example")
                for _ = 1, 600 do end
            end"#,
        )
        .with(
            "memory",
            r#"return function()
                local text = string.rep("x", 10000000)
                dns.a("host.example")
                return text .. string.rep("y", 10000000)
            end"#,
        );
    let notify = known_names(&mut fixture);
    notify.send(()).expect("the server runs");
    fixture.configuration.procedures.luau.steps_max = 1000;
    let procedures = fixture.start();
    for path in ["/steps", "/memory"] {
        let answer = call(&procedures, path, mail("")).await;
        assert_eq!(answer.verdict.action, Action::Defer, "{path}");
    }
}

#[tokio::test]
async fn beyond_the_memory_of_waiting_calls_a_judge_waits_along() {
    let mut fixture = Fixture::new().with("names", ASKS_NAMES);
    let notify = known_names(&mut fixture);
    fixture.configuration.procedures.waiting_memory_max = ByteSize(1);
    let procedures = fixture.start();
    let calls: Vec<_> = (0..4)
        .map(|number| {
            let message = mail(&format!("Subject: host{number}.example\r\n\r\n"));
            spawn_call(&procedures, "/names", message)
        })
        .collect();
    notify.send(()).expect("the server runs");
    for call in calls {
        assert_eq!(call.await.expect("judged").text, "127.0.0.2");
    }
}

#[tokio::test]
async fn a_procedure_yields_to_its_own_coroutines_only() {
    let fixture = Fixture::new().with("yields", "return function() coroutine.yield(1) end");
    let procedures = fixture.start();
    for _ in 0..2 {
        let answer = call(&procedures, "/yields", mail("")).await;
        assert_eq!(answer.verdict.action, Action::Defer, "{answer:?}");
    }
}

#[tokio::test]
async fn a_page_waits_on_its_own_thread_until_its_deadline() {
    let silent = Silent::new();
    let procedures = silent.fixture().start();
    for path in ["/names", "/http", "/viruscheck"] {
        let message = Arc::new(silent.message(path, 0));
        let procedures = procedures.clone();
        let called = tokio::task::spawn_blocking(move || {
            let deadline = Instant::now() + Duration::from_millis(50);
            procedures.call_here(path, &message, &ProcedureArguments::none(), deadline)
        });
        let called = tokio::time::timeout(PATIENCE, called).await;
        let answer = called.expect("it gives up").expect("called");
        let answer = answer.expect("there is one");
        let text = answer.text + &answer.verdict.reason;
        assert!(
            text.contains("in time") || text.contains("failed"),
            "{path}: {text}"
        );
    }
}

/// The time of each of so many calls of a procedure that asks no server, in milliseconds: the
/// median and the 99th percentile.
async fn time_of_others(procedures: &Procedures) -> (f64, f64) {
    const CALLS: usize = 2000;
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begin = Instant::now();
        call(procedures, "/local", mail("")).await;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    times.sort_by(f64::total_cmp);
    (times[CALLS / 2], times[CALLS * 99 / 100])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, which asserts nothing: run it with --ignored --nocapture"]
async fn measure_the_delay_of_others_while_a_thousand_wait() {
    const CALLS: usize = 1000;
    let silent = Silent::new();
    let mut fixture = silent.fixture();
    let notify = known_names(&mut fixture);
    let procedures = fixture.start();
    let show = |what: &str, (median, high): (f64, f64)| {
        println!("{what:<40} median {median:.3} ms, p99 {high:.3} ms");
    };
    time_of_others(&procedures).await;
    show("no call waits", time_of_others(&procedures).await);
    for path in ["/http", "/viruscheck", "/names"] {
        let calls: Vec<_> = (0..CALLS)
            .map(|number| spawn_call(&procedures, path, silent.message(path, number)))
            .collect();
        until_waiting(&procedures, CALLS).await;
        let status = std::fs::read_to_string("/proc/self/status").expect("a process");
        let memory = status.lines().find(|line| line.starts_with("VmRSS"));
        println!("{}", memory.expect("its memory"));
        let what = format!("{CALLS} wait in {path}");
        show(&what, time_of_others(&procedures).await);
        if path == "/names" {
            notify.send(()).expect("the server runs");
            let what = format!("{CALLS} of {path} go on");
            show(&what, time_of_others(&procedures).await);
        }
        for call in calls {
            call.abort();
        }
        until_waiting(&procedures, 0).await;
    }
}
