//! HTTP/2, as curl speaks it and as h2spec tests it.

use std::process::Command;

use super::*;

fn curl(server: &Server, target: &str, more: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--http2-prior-knowledge"])
        .args(["--max-time", "60"])
        .args(more)
        .arg(format!("http://{}{target}", server.address))
        .output()
        .expect("curl is installed (tests/install-peers)");
    assert!(
        output.status.success(),
        "{target}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn http2_serves_the_same_as_http1() {
    let server = Server::start(|_| {});
    let head = curl(&server, "/a.txt", &["--include"]);
    assert!(head.starts_with("HTTP/2 200"), "{head}");
    assert!(
        head.contains("content-length: 10") && head.ends_with("0123456789"),
        "{head}"
    );
    assert_eq!(curl(&server, "/page", &[]), "<p>&lt;21&gt;</p>");
    assert_eq!(curl(&server, "/slow?name=x", &[]), "[x]");
    assert_eq!(curl(&server, "/large.bin", &[]).len(), 3_000_000);
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    assert_eq!(curl(&server, "/nothing", &status), "404");
    let published = curl(&server, "/topics/alarms/fire", &["--data-binary", "smoke"]);
    assert!(published.contains("\"verdict\":\"accept\""), "{published}");
    let remembered = curl(&server, "/topics/alarms/fire", &[]);
    assert!(remembered.contains("smoke"), "{remembered}");
    let head = curl(&server, "/a.txt", &["--head"]);
    assert!(head.contains("content-length: 10"), "{head}");
    let large = "x".repeat(600_000);
    let body = server.folder.path().join("body");
    std::fs::write(&body, &large).expect("a file");
    let from = format!("@{}", body.display());
    curl(&server, "/topics/large", &["--data-binary", &from]);
    assert!(curl(&server, "/topics/large", &[]).contains(&large));
}

#[test]
fn clients_of_one_proxy_have_a_bandwidth_each() {
    let proxy = "127.0.0.1".parse().expect("an address");
    let server = Server::start(|settings| {
        settings.trusted_proxies = vec![proxy];
        settings.bandwidth_per_address = ByteSize(128);
        // The greedy client's answer is never whole.
        settings.drain_timeout = Period::milliseconds(100);
    });
    // This takes more bytes than the client may have in the next minute.
    let mut greedy = server.connect();
    greedy.send(b"GET /large.bin HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    assert_eq!(greedy.head().expect("an answer").status, 200);
    assert!(greedy.take_some(1).is_some(), "the first bytes");
    let range = ["--range", "0-9999", "-H"];
    for (client, version) in [(2, "--http1.1"), (3, "--http2-prior-knowledge")] {
        let own = format!("X-Forwarded-For: 192.0.2.{client}");
        let arguments = ["-H", &own, version];
        assert_eq!(curl(&server, "/a.txt", &arguments), "0123456789");
    }
    for client in [4, 5] {
        let own = format!("X-Forwarded-For: 192.0.2.{client}");
        let part = curl(&server, "/large.bin", &[&range[..], &[&own]].concat());
        assert_eq!(part.len(), 10_000);
    }
}

#[test]
fn an_event_stream_ends_when_the_server_does() {
    let server = Server::start(|_| {});
    server.fixture.publish_text("hall", "first");
    let address = server.address;
    let reader = std::thread::spawn(move || {
        Command::new("curl")
            .args(["--silent", "--no-buffer", "--http2-prior-knowledge"])
            .args(["-v", "--max-time", "60", "-H", "Accept: text/event-stream"])
            .arg(format!("http://{address}/topics/hall?since=all"))
            .output()
            .expect("curl is installed (tests/install-peers)")
    });
    while server.context.connections() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Until the reader has subscribed, it reads the stored events: in both cases it gets both.
    server.fixture.publish_text("hall", "second");
    while server.context.requests() > 0 && server.context.connections() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    while server.context.requests() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.end();
    let output = reader.join().expect("no panic");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{:?} {text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("first") && text.contains("second"), "{text}");
}

#[test]
fn h2spec_finds_nothing() {
    let server = Server::start(|_| {});
    let port = server.address.port().to_string();
    let output = Command::new("h2spec")
        .args(["--host", "127.0.0.1", "--port", &port, "--path", "/a.txt"])
        .args(["--timeout", "10"])
        // All but 3.5/2: bytes that do not begin as HTTP/2 are answered as HTTP/1 on this port.
        .args(["generic", "hpack", "http2/3.5/1", "http2/4", "http2/5"])
        .args(["http2/6", "http2/7", "http2/8"])
        .output()
        .expect("h2spec is installed (tests/install-peers)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(" 0 failed"), "{text}");
}
