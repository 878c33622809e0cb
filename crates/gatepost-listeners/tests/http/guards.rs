//! Checks that a listener makes before any handler: limits, origins, proxies, https.

use gatepost_listeners::http::ForwardingHeader;

use super::*;

fn answer_to(server: &Server, head: &str) -> Answer {
    let mut client = server.connect();
    client.send(format!("{head}\r\nHost: h.example:8080\r\nConnection: close\r\n\r\n").as_bytes());
    client
        .answer(head.starts_with("OPTIONS"))
        .expect("an answer")
}

#[test]
fn too_frequent_requests_get_retry_after() {
    let server = Server::start(|settings| settings.requests_per_second_per_address = 1);
    let mut client = server.connect();
    let statuses: Vec<_> = (0..20)
        .map(|_| {
            client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
            let answer = client.answer(false).expect("an answer");
            if answer.status == 429 {
                assert!(answer.field("retry-after").is_some(), "{answer:?}");
            }
            answer.status
        })
        .collect();
    assert!(
        statuses.contains(&200) && statuses.contains(&429),
        "{statuses:?}"
    );
}

#[test]
fn a_capped_answer_is_whole_nevertheless() {
    let server = Server::start(|settings| settings.bandwidth = ByteSize::mebibytes(64));
    assert_eq!(server.get("/large.bin").body.len(), 3_000_000);
    assert_eq!(server.get("/a.txt").text(), "0123456789");
}

#[test]
fn plain_requests_are_sent_to_https_but_probes_are_answered() {
    let server = Server::start(|settings| {
        settings.https_redirect = true;
        settings.https_port = 8443;
        settings.trusted_proxies = vec!["127.0.0.1".parse().expect("an address")];
        settings.forwarding_header = ForwardingHeader::Forwarded;
    });
    let answer = answer_to(&server, "GET /a.txt?b=1 HTTP/1.1");
    assert_eq!(answer.status, 308);
    let location = answer.field("location");
    assert_eq!(location, Some("https://h.example:8443/a.txt?b=1"));
    assert_eq!(answer_to(&server, "GET /healthz HTTP/1.1").status, 200);
    let proxied = "GET /a.txt HTTP/1.1\r\nForwarded: for=192.0.2.1;proto=https";
    assert_eq!(answer_to(&server, proxied).text(), "0123456789");
}

#[test]
fn the_log_names_the_client_behind_a_trusted_proxy() {
    let trusted = "127.0.0.1".parse().expect("an address");
    let server = Server::start(|settings| settings.trusted_proxies = vec![trusted]);
    let forwarded = "GET /a.txt HTTP/1.1\r\nX-Forwarded-For: 203.0.113.9, 192.0.2.7";
    assert_eq!(answer_to(&server, forwarded).status, 200);
    let context = Arc::clone(&server.context);
    let folder = server.end();
    drop(Arc::into_inner(context).expect("the last handle"));
    let log = std::fs::read_to_string(folder.path().join("access.log")).expect("a log");
    assert!(log.starts_with("192.0.2.7 "), "{log}");
}

#[test]
fn an_allowed_origin_may_ask_and_read_and_others_may_not() {
    let allowed = "https://app.example".to_owned();
    let server = Server::start(|settings| settings.origins = vec![allowed]);
    let preflight = |origin: &str| {
        let head = format!(
            "OPTIONS /topics/a HTTP/1.1\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: retain"
        );
        answer_to(&server, &head)
    };
    let answer = preflight("https://app.example");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.field("access-control-allow-headers"), Some("retain"));
    let origin = answer.field("access-control-allow-origin");
    assert_eq!(origin, Some("https://app.example"));
    let other = preflight("https://evil.example");
    assert_eq!(other.field("access-control-allow-origin"), None);
    assert_ne!(other.status, 204);
    let read = answer_to(
        &server,
        "GET /a.txt HTTP/1.1\r\nOrigin: https://app.example",
    );
    assert_eq!(read.field("vary"), Some("Origin"));
    assert!(read.field("access-control-allow-origin").is_some());
}

#[test]
fn the_headers_of_the_settings_are_on_every_answer() {
    let server = Server::start(|settings| {
        let hsts = (
            "Strict-Transport-Security".to_owned(),
            "max-age=60".to_owned(),
        );
        settings.headers.extend([hsts]);
    });
    // From memory, from a handler, and an error.
    for path in ["/a.txt", "/a.txt", "/slow", "/healthz", "/nothing"] {
        let answer = server.get(path);
        let hsts = answer.field("strict-transport-security");
        assert_eq!(hsts, Some("max-age=60"), "{path}");
        assert_eq!(
            answer.field("x-frame-options"),
            Some("SAMEORIGIN"),
            "{path}"
        );
        assert_eq!(
            answer.field("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
    }
}
