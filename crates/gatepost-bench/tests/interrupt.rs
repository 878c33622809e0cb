//! After Ctrl-C the results are kept, and the report says that the run was interrupted.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use gatepost_bench::report::BenchReport;

/// A web server that reports when it has answered this number of requests.
fn server(answers: usize) -> (String, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (notify, notified) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for (count, mut stream) in listener.incoming().flatten().enumerate() {
            let mut request = BufReader::new(stream.try_clone().expect("a handle")).lines();
            while request
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            if count == answers {
                let _ = notify.send(());
            }
        }
    });
    (url, notified)
}

#[test]
fn an_interrupted_run_keeps_its_measurements() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("result.json");
    let (url, answered) = server(200);
    let child = Command::new(env!("CARGO_BIN_EXE_gatepost-bench"))
        .args([
            "web",
            &url,
            "--sizes",
            "317",
            "--seconds",
            "600",
            "--warm-up",
            "0",
            "--quiet",
            "--json",
        ])
        .arg(&json)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bench runs");
    answered.recv().expect("requests");
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("Interrupted: these are the figures up to then."),
        "{text}"
    );
    let report = BenchReport::read(&json).expect("a report");
    assert!(report.interrupted && report.targets[0].runs[0].interrupted);
    // All except those in flight, and the one fetched before the measurement.
    assert!(report.targets[0].runs[0].latencies[0].summary.count >= 190);
}
