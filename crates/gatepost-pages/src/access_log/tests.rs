use std::path::Path;
use std::time::Duration;

use gatepost_settings::{ByteSize, Period};

use super::line::push_combined;
use super::*;

const LINE: LoggedRequest<'_> = LoggedRequest {
    peer: "127.0.0.1",
    user: None,
    method: "GET",
    target: "/a",
    version: "HTTP/1.1",
    status: 200,
    body_bytes: 2357,
    referer: None,
    user_agent: Some(b"test\"\n"),
    message: None,
    host: Some(b"www.example.org"),
    duration: Duration::from_micros(1_250),
};

fn settings(folder: &Path, max_size: u64, format: AccessLogFormat) -> AccessLogSettings {
    AccessLogSettings {
        path: folder.join("access.log"),
        format,
        max_size: ByteSize(max_size),
        keep: 2,
        max_age: Period::seconds(0),
    }
}

#[test]
fn an_old_file_is_rotated_though_another_process_began_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), 1_000_000, AccessLogFormat::Combined);
    let write = |settings: &AccessLogSettings| {
        AccessLog::start(settings).expect("a log").append(&LINE);
    };
    write(&settings);
    write(&settings);
    let rotated = folder.path().join("access.log.1");
    assert!(!rotated.exists());
    settings.max_age = Period::milliseconds(10);
    let began = std::fs::metadata(&settings.path).and_then(|found| found.created());
    let began = began.expect("a file system that keeps the time of creation");
    while began
        .elapsed()
        .is_ok_and(|age| age < Duration::from_millis(10))
    {
        thread::yield_now();
    }
    write(&settings);
    let text = std::fs::read_to_string(rotated).expect("the old one");
    assert_eq!(text.lines().count(), 2);
}

/// As in a folder that the server may not write to.
#[test]
fn a_file_that_cannot_be_rotated_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), 200, AccessLogFormat::Combined);
    settings.keep = 1;
    // Not even root can rename a file to the name of a folder.
    std::fs::create_dir(folder.path().join("access.log.1")).expect("a folder");
    let log = AccessLog::start(&settings).expect("a log");
    for _ in 0..50 {
        log.append(&LINE);
    }
    let buffers = Arc::clone(&log.shared);
    drop(log);
    assert_eq!(buffers.dropped.load(Ordering::Relaxed), 0);
    let text = std::fs::read_to_string(&settings.path).expect("a file");
    assert_eq!(text.lines().count(), 50);
    assert!(
        text.lines()
            .all(|line| line.ends_with("\"test\\x22\\x0A\"")),
        "{text}"
    );
    // The next start tries again.
    std::fs::remove_dir(folder.path().join("access.log.1")).expect("removed");
    AccessLog::start(&settings).expect("a log").append(&LINE);
    let rotated = std::fs::read_to_string(folder.path().join("access.log.1")).expect("the old one");
    assert_eq!(rotated.lines().count(), 50);
}

#[test]
fn a_full_disk_is_counted_and_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), 1_000_000, AccessLogFormat::Combined);
    settings.path = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &settings.path).expect("a link");
    let log = AccessLog::start(&settings).expect("a log");
    log.append(&LINE);
    while log.losses() != (1, 1) {
        thread::yield_now();
    }
    // The disk has space again: a log elsewhere, as on a disk that was cleaned.
    std::fs::remove_file(&settings.path).expect("removed");
    log.append(&LINE);
    drop(log);
    let text = std::fs::read_to_string(&settings.path).expect("a file");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_line_is_combined_and_cannot_be_forged() {
    let mut log = Vec::new();
    push_combined(&mut log, &LINE);
    let log = String::from_utf8(log).expect("ASCII");
    assert!(log.starts_with("127.0.0.1 - - ["), "{log}");
    assert!(
        log.ends_with("] \"GET /a HTTP/1.1\" 200 2357 \"-\" \"test\\x22\\x0A\"\n"),
        "{log}"
    );
}

#[test]
fn appended_lines_are_in_the_file_when_the_log_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 1_000_000, AccessLogFormat::Json);
    let log = AccessLog::start(&settings).expect("a log");
    for _ in 0..100 {
        log.append(&LINE);
    }
    drop(log);
    let text = std::fs::read_to_string(&settings.path).expect("a file");
    assert_eq!(text.lines().count(), 100);
    let line: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(line["status"], 200);
    assert_eq!(line["user_agent"], "test\"\n");
    assert_eq!(line["host"], "www.example.org");
    assert_eq!(line["duration_ms"], 1.25);
}

#[test]
fn a_full_file_is_rotated_between_two_lines_and_the_oldest_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 1_000, AccessLogFormat::Combined);
    let log = AccessLog::start(&settings).expect("a log");
    for _ in 0..100 {
        log.append(&LINE);
    }
    drop(log);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["access.log", "access.log.1", "access.log.2"]);
    for name in names {
        let text = std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert!(text.len() <= 1_000);
        assert!(
            text.lines()
                .all(|line| line.starts_with("127.") && line.ends_with('"'))
        );
    }
}

#[test]
fn numbers_are_decimal() {
    for number in [0, 7, 10, 2357, u64::MAX] {
        let mut text = Vec::new();
        push_number(&mut text, number);
        assert_eq!(String::from_utf8_lossy(&text), number.to_string());
    }
}
