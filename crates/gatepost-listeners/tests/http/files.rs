//! Files that are sent from the disk, because they are too large for the cache.

use super::*;

#[test]
fn a_file_too_large_for_the_cache_is_whole() {
    let server = Server::start(|_| {});
    let answer = server.get("/large.bin");
    assert_eq!(answer.body.len(), 3_000_000);
}

#[test]
fn a_large_file_that_has_changed_is_described_as_it_is_sent() {
    let server = Server::start(|_| {});
    let tag = |answer: &Answer| answer.field("etag").expect("a tag").to_owned();
    let earlier = tag(&server.get("/large.bin"));
    let large = server.folder.path().join("pages/large.bin");
    std::fs::write(large, vec![b'y'; 2_900_000]).expect("a file");
    let answer = server.get("/large.bin");
    assert_eq!(answer.body, vec![b'y'; 2_900_000]);
    let now = tag(&answer);
    assert_ne!(now, earlier);
    for (fields, status) in [
        (format!("If-None-Match: {now}"), 304),
        (format!("If-Range: {earlier}\r\nRange: bytes=0-0"), 200),
        (format!("If-Range: {now}\r\nRange: bytes=0-0"), 206),
        ("Range: bytes=2899999-".to_owned(), 206),
    ] {
        let mut client = server.connect();
        let head = format!("GET /large.bin HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        client.send(head.as_bytes());
        let answer = client.answer(status == 304).expect("an answer");
        assert_eq!(
            (answer.status, tag(&answer)),
            (status, now.clone()),
            "{fields}"
        );
    }
}

#[test]
fn a_configured_header_field_replaces_none_that_an_answer_has() {
    let headers = [("Cache-Control", "max-age=60"), ("X-More", "yes")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = Server::start(|settings| settings.headers = headers.into());
    for (path, caching) in [
        ("/page", "no-cache"),
        ("/slow", "private, no-cache"),
        ("/a.txt", "max-age=60"),
    ] {
        // From the disk, then from memory.
        for _ in 0..2 {
            let answer = server.get(path);
            let values = |wanted: &str| -> Vec<&str> {
                let fields = answer.fields.iter();
                let named = fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
                named.map(|(_, value)| value.as_str()).collect()
            };
            assert_eq!(values("cache-control"), [caching], "{path}");
            assert_eq!(values("x-more"), ["yes"], "{path}");
        }
    }
}

#[test]
fn a_browser_sees_a_page_for_a_body_that_is_too_large() {
    let server = Server::start(|settings| settings.body_max = ByteSize::kibibytes(1));
    let page = server.folder.path().join("pages/413.html");
    std::fs::write(page, "too much for {{ request.path }}").expect("a page");
    for (accept, expected) in [
        ("text/html", "too much for &#x2f;page"),
        ("*/*", "\"code\":41301"),
    ] {
        let mut client = server.connect();
        let head = format!(
            "POST /page HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nContent-Length: 5000\r\n\r\n"
        );
        client.send(head.as_bytes());
        let answer = client.answer(false).expect("an answer");
        assert_eq!(answer.status, 413);
        assert!(answer.text().contains(expected), "{}", answer.text());
        assert_eq!(answer.field("x-frame-options"), Some("SAMEORIGIN"));
    }
}

#[test]
fn a_page_without_anything_to_insert_is_a_file_for_browsers() {
    let server = Server::start(|_| {});
    let get = |target: &str, fields: &str| {
        let mut client = server.connect();
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        client.send(head.as_bytes());
        let is_bodiless = fields.contains("If-None-Match");
        client.answer(is_bodiless).expect("an answer")
    };
    // From the disk, then from memory.
    for _ in 0..2 {
        let answer = get("/sub/", "");
        assert_eq!((answer.status, answer.text().as_str()), (200, "sub"));
        assert_eq!(answer.field("cache-control"), Some("no-cache"));
        assert_eq!(
            answer.field("content-type"),
            Some("text/html; charset=utf-8")
        );
        let tag = answer.field("etag").expect("a tag");
        assert_eq!(
            get("/sub/", &format!("If-None-Match: {tag}\r\n")).status,
            304
        );
    }
    assert_eq!(get("/sub/", "Range: bytes=1-\r\n").text(), "ub");
    let missing = get("/none", "Accept: text/html\r\n");
    assert_eq!((missing.status, missing.text().as_str()), (404, "not here"));
    assert_eq!(missing.field("etag"), None);
    // It has no form, so what is sent to it is no form of this server.
    let mut client = server.connect();
    client.send(
        b"POST /sub/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
        Content-Length: 3\r\n\r\na=b",
    );
    assert_eq!(client.answer(false).expect("an answer").status, 403);
}
