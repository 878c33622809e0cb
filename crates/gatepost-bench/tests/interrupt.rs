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
        .arg("--record")
        .arg(folder.path().join("kept"))
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
    // It is shown, but later results are not compared with it.
    assert!(!folder.path().join("kept").exists());
}

#[test]
fn a_second_interruption_leaves_no_server_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    // It never becomes ready and does not end when it is asked to.
    let definition = format!(
        "about = \"x\"\nprogram = \"sh\"\nready_seconds = 600\n\
         command = [\"{{program}}\", \"-c\", \"trap : TERM; echo $$ >{0}.new; mv {0}.new {0}; \
         while :; do sleep 0.02; done\"]\n[offers]\nweb = \"http://127.0.0.1:1/\"\n\
         [ready_text]\nfile = \"never\"\ntext = \"ready\"\n",
        pid_file.display()
    );
    std::fs::write(folder.path().join("stubborn.toml"), definition).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_gatepost-bench"))
        .args(["web", "--peer", "stubborn", "--quiet", "--peers"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the bench runs");
    wait_until(|| pid_file.exists());
    let server = std::fs::read_to_string(&pid_file).expect("its id");
    let server = std::path::Path::new("/proc").join(server.trim());
    assert!(server.exists());
    let interrupt = || {
        let words = ["-INT", &child.id().to_string()];
        let sent = Command::new("kill").args(words).status();
        assert!(sent.expect("kill runs").success());
    };
    interrupt();
    // The first is noticed at once, and then the bench waits for the server to end.
    interrupt();
    let status = child.wait().expect("it ends");
    assert!(!status.success(), "{status}");
    let is_running = || {
        let stat = std::fs::read_to_string(server.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    wait_until(|| !is_running());
}

/// Waits until this is so; fails after longer than any step takes.
fn wait_until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it never was so");
        thread::sleep(std::time::Duration::from_millis(5));
    }
}
