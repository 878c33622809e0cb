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
