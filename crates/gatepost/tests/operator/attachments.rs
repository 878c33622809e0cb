//! Attachments as ntfy's clients use them: sent, served, limited, removed, over crashes, and by
//! attackers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use super::support::{Gateway, PATIENCE, add_user, await_some, run, send_raw, swaks, text_of};
use super::{STATUS, curl, json};

const PLAIN: &str = "rules.paths = []\n";
/// A GIF of one pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\
    \x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Publishes a file to `/hall` by PUT, as `curl -T` does, and returns status and answer.
fn put(gateway: &Gateway, content: &[u8], more: &[&str]) -> (String, String) {
    let url = gateway.url("/hall");
    let options = ["-s", "-T", "-", "-w", "\n%{http_code}"];
    let arguments = [&options[..], more, &[&url]].concat();
    let answer = text_of(&run("curl", &arguments, content));
    let (body, status) = answer.trim_end().rsplit_once('\n').expect("a status");
    (status.to_owned(), body.to_owned())
}

/// The attachment of a file that is accepted.
fn attach(gateway: &Gateway, content: &[u8], more: &[&str]) -> Value {
    let (status, answer) = put(gateway, content, more);
    assert_eq!(status, "200", "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["attachment"].clone()
}

/// The first message of the topic, as readers get it.
fn message(gateway: &Gateway) -> Value {
    let lines = curl(gateway, "/hall/json?poll=1", &[]);
    let mut lines = lines.lines();
    let found = lines.find(|line| line.contains(r#""event":"message""#));
    serde_json::from_str(found.expect("a message")).expect("JSON")
}

/// Head and body of a link's answer.
fn load(link: &Value) -> (String, Vec<u8>) {
    let link = link.as_str().expect("a link");
    let output = run("curl", &["-s", "-i", link], b"");
    let whole = output.stdout;
    let end = whole.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = whole.split_at(end.expect("a head") + 4);
    (String::from_utf8_lossy(head).to_lowercase(), body.to_vec())
}

/// The names in the folder of the files.
fn stored(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("gatepost-data/attachments")).expect("the folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("a name").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_attached_as_in_ntfy_and_served_to_whom_has_its_link() {
    let gateway = Gateway::start(PLAIN);
    let attachment = attach(&gateway, GIF, &["-H", "X-Filename: hall.gif"]);
    assert_eq!(attachment["name"], "hall.gif");
    assert_eq!(attachment["type"], "image/gif");
    assert_eq!(attachment["size"], GIF.len());
    assert!(attachment["expires"].as_u64().is_some());
    let link = attachment["url"].as_str().expect("a link").to_owned();
    assert!(
        link.starts_with(&gateway.url("/file/")) && link.contains(".gif"),
        "{link}"
    );
    let (head, body) = load(&attachment["url"]);
    assert!(head.starts_with("http/1.1 200") && body == GIF, "{head}");
    for field in [
        "content-type: image/gif",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; sandbox",
        "content-disposition: attachment; filename=\"hall.gif\"",
    ] {
        assert!(head.contains(field), "{field}: {head}");
    }
    let head = curl(&gateway, link.trim_start_matches(&gateway.url("")), &["-I"]);
    assert!(head.contains(&format!("{}", GIF.len())), "{head}");
    // Readers get the message, and MQTT's the properties.
    let read: Value = message(&gateway);
    assert_eq!(read["message"], "You received a file: hall.gif");
    assert_eq!(read["attachment"]["url"], link);
    // A body that is too large for a message is a file without a name; so is one that is not text.
    let large = attach(&gateway, &[b'x'; 5_000], &[]);
    assert_eq!(large["name"], "attachment.txt");
    assert_eq!(
        attach(&gateway, b"\xff\xfe\x00", &[])["type"],
        "application/octet-stream"
    );
    let (_, answer) = put(&gateway, &[b'x'; 4_000], &[]);
    assert!(
        !answer.contains("attachment") && answer.contains("xxx"),
        "{answer}"
    );
    let texts = attach(&gateway, GIF, &["-H", "f: a.gif", "-H", "m: the hall"]);
    assert_eq!(texts["name"], "a.gif");
    // A link to somewhere else is only a link.
    let link = ["-d", "", "-H", "Attach: https://example.org/a/b.jpg?x=1"];
    let linked = json(&gateway, "/hall", &link);
    assert_eq!(
        linked["attachment"]["url"],
        "https://example.org/a/b.jpg?x=1"
    );
    assert_eq!(linked["message"], "You received a file: b.jpg");
    for bad in ["javascript:alert(1)", "file:///etc/passwd", "x"] {
        let field = format!("X-Attach: {bad}");
        let status = [&STATUS[..], &["-d", "x", "-H", &field]].concat();
        assert_eq!(curl(&gateway, "/hall", &status), "400", "{bad}");
    }
    // UnifiedPush passes on what it gets, and /topics has payloads.
    let up = json(
        &gateway,
        "/hall?up=1",
        &["--data-binary", &"x".repeat(5_000)],
    );
    assert!(up["attachment"].is_null() && up["message"].as_str().map(str::len) == Some(5_000));
    let metrics = curl(&gateway, "/metrics", &[]);
    assert!(metrics.contains("gatepost_attachments 4\n"), "{metrics}");
    assert!(metrics.contains("gatepost_attachments_stored_total 4\n"));
}

#[test]
fn no_file_runs_in_a_browser_and_no_path_leaves_the_folder() {
    let gateway = Gateway::start(PLAIN);
    let html = b"<html><script>alert(document.domain)</script></html>";
    for (content, name) in [
        (&html[..], "a.html"),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            "a.svg",
        ),
        (html, "../../index.html"),
        (html, "a\".html; filename=\"b.html"),
    ] {
        let given = format!("X-Filename: {name}");
        let attachment = attach(
            &gateway,
            content,
            &["-H", &given, "-H", "Content-Type: text/html"],
        );
        let (head, _) = load(&attachment["url"]);
        assert!(
            head.contains("content-type: text/plain; charset=utf-8"),
            "{head}"
        );
        assert!(
            head.contains("disposition: attachment;") && head.contains("sandbox"),
            "{head}"
        );
        assert!(!attachment["name"].as_str().expect("a name").contains(".."));
        assert!(!head.contains("filename=\"b"), "{head}");
        // Another ending in the link does not change the type.
        let other = attachment["url"]
            .as_str()
            .expect("a link")
            .replace(".txt", ".html");
        let (head, _) = load(&Value::from(other));
        assert!(head.contains("content-type: text/plain"), "{head}");
    }
    let id = "0".repeat(32);
    for path in [
        "/file/../gatepost.db".to_owned(),
        "/file/..%2fgatepost.db".to_owned(),
        "/file/%2e%2e%2f%2e%2e%2fetc%2fpasswd".to_owned(),
        "/file/gatepost.db".to_owned(),
        format!("/file/{id}"),
        format!("/file/{id}/../../gatepost.db"),
        format!("/file/{id}.jpg%00"),
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = send_raw(gateway.address("http"), request.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 40"), "{path}: {answer}");
        assert!(
            !answer.contains("SQLite") && !answer.contains("root:"),
            "{path}"
        );
    }
}

#[test]
fn limits_hold_against_large_endless_and_lying_uploads() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!(
        "{PLAIN}listeners.http.body_max = \"64KiB\"\n[attachments]\nfile_max = \"10KiB\"\n\
         client_max = \"25KiB\"\nanonymous_max = \"25KiB\"\ntotal_max = \"40KiB\"\n"
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let content = [1; 10 << 10];
    let (status, answer) = put(&gateway, &[1; (10 << 10) + 1], &[]);
    assert!(status == "413" && answer.contains("41302"), "{answer}");
    // A chunked body that never ends, and a length that is a lie.
    for head in [
        "Transfer-Encoding: chunked\r\n\r\n10000\r\n",
        "Content-Length: 99999999999\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(gateway.address("http")).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let start = format!("PUT /hall HTTP/1.1\r\nHost: localhost\r\nFilename: a\r\n{head}");
        stream.write_all(start.as_bytes()).expect("sent");
        // The server may close before all is sent.
        let more = format!(
            "{}\r\n10000\r\n{}",
            "x".repeat(1 << 16),
            "x".repeat(1 << 16)
        );
        let _ = stream.write_all(more.as_bytes());
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 413", "{head}");
    }
    // A client that ends early has sent nothing.
    let mut stream = TcpStream::connect(gateway.address("http")).expect("connected");
    let start =
        "PUT /hall HTTP/1.1\r\nHost: localhost\r\nFilename: a\r\nContent-Length: 9000\r\n\r\nx";
    stream.write_all(start.as_bytes()).expect("sent");
    drop(stream);
    assert_eq!(stored(folder.path()), Vec::<String>::new());
    // One client's quota, and after it that of all addresses; users have their own.
    for _ in 0..2 {
        attach(&gateway, &content, &[]);
    }
    let (status, answer) = put(&gateway, &content, &[]);
    assert!(status == "413" && answer.contains("client_max"), "{answer}");
    add_user(&gateway, "anna", "a secret of anna", &["--admin"]);
    await_some("a login to be needed", || {
        (curl(&gateway, "/hall/auth", &STATUS) == "401").then_some(())
    });
    let anna = ["-u", "anna:a secret of anna"];
    attach(&gateway, &content, &anna);
    let (status, answer) = put(&gateway, &content, &anna);
    assert!(status == "200", "{answer}");
    let (status, answer) = put(&gateway, &content, &anna);
    assert!(status == "413" || status == "507", "{answer}");
    assert_eq!(stored(folder.path()).len(), 4);
    let none = Gateway::start(&format!("{PLAIN}attachments.file_max = \"0B\"\n"));
    let (status, answer) = put(&none, &content, &["-H", "Filename: a"]);
    assert!(status == "200" && !answer.contains("/file/"), "{answer}");
}

#[test]
fn files_survive_a_crash_and_are_removed_at_their_expiry() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    let attachment = attach(&gateway, GIF, &["-H", "Filename: hall.gif"]);
    let path = attachment["url"].as_str().expect("a link");
    let path = path.trim_start_matches(&gateway.url("")).to_owned();
    gateway.kill();
    let files = stored(folder.path());
    assert_eq!(files.len(), 1);
    // Remains of a crash: a write that was not complete, and one without its record.
    let inside = folder.path().join("gatepost-data/attachments");
    for name in [format!("{}.part", "a".repeat(32)), "b".repeat(32)] {
        fs::write(inside.join(name), b"part").expect("written");
    }
    let short = format!("{PLAIN}attachments.expiry = \"1s\"\n");
    let gateway = Gateway::start_in(folder.path(), &short);
    assert_eq!(
        stored(folder.path()),
        files,
        "orphans are removed, files are not"
    );
    assert_eq!(curl(&gateway, &path, &STATUS), "200");
    let delayed = ["-H", "Filename: a", "-H", "Delay: 1h"];
    let (status, answer) = put(&gateway, GIF, &delayed);
    assert!(status == "400" && answer.contains("expire"), "{answer}");
    let attachment = attach(&gateway, GIF, &["-H", "Filename: b.gif"]);
    await_some("the link to expire", || {
        load(&attachment["url"])
            .0
            .starts_with("http/1.1 404")
            .then_some(())
    });
    await_some("the file to be removed", || {
        (stored(folder.path()) == files).then_some(())
    });
    gateway.kill();
    // A file that was removed by hand has no record for long.
    fs::remove_file(inside.join(&files[0])).expect("removed");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    assert_eq!(curl(&gateway, &path, &STATUS), "404");
    let metrics = curl(&gateway, "/metrics", &[]);
    assert!(
        metrics.contains("gatepost_attachment_bytes 0\n"),
        "{metrics}"
    );
    gateway.kill();
    let full = "rules.paths = []\nstore.reserve = \"9000000GB\"\n";
    let gateway = Gateway::start_in(folder.path(), full);
    let (status, answer) = put(&gateway, GIF, &["-H", "Filename: a"]);
    assert_eq!(status, "507", "{answer}");
    assert_eq!(stored(folder.path()), Vec::<String>::new());
}

#[test]
fn the_file_itself_is_judged_and_a_refused_one_is_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    fs::create_dir(&procedures).expect("a folder");
    let program = "return function(message) \
        if message:contains('EICAR') then return 'reject', 'a virus' end end";
    fs::write(procedures.join("virus.luau"), program).expect("written");
    let settings = format!(
        "{PLAIN}[[scope]]\npath = \"/files\"\nlisteners = [\"http\"]\nrun = [\"/virus\"]\n"
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let (status, answer) = put(&gateway, b"EICAR", &["-H", "Filename: a.txt"]);
    assert!(status == "422" && answer.contains("a virus"), "{answer}");
    assert_eq!(stored(folder.path()), Vec::<String>::new());
    attach(&gateway, b"harmless", &["-H", "Filename: a.txt"]);
    assert_eq!(stored(folder.path()).len(), 1);
    let journal = curl(&gateway, "/admin/messages?search=harmless", &[]);
    assert!(!journal.contains("harmless\""), "{journal}");
}

#[test]
fn a_cameras_mail_has_its_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("hall.gif");
    fs::write(&image, GIF).expect("written");
    let settings = format!("{PLAIN}attachments.base_url = \"https://push.example.org/\"\n");
    let gateway = Gateway::start_in(folder.path(), &settings);
    let image = format!("@{}", image.display());
    let more = [
        "--header",
        "Subject: Motion",
        "--body",
        "in the hall",
        "--attach-type",
        "image/gif",
        "--attach-name",
        "hall.gif",
        "--attach",
        &image,
    ];
    let send = |gateway: &Gateway, listener: &str, more: &[&str]| {
        let address = gateway.address(listener).to_string();
        let sent = swaks(&address, "camera@example.org", "hall@localhost", more);
        assert!(sent.status.success(), "{}", text_of(&sent));
    };
    send(&gateway, "smtp", &more);
    let read: Value = message(&gateway);
    assert_eq!(read["title"], "Motion");
    let attachment = &read["attachment"];
    assert_eq!(attachment["name"], "hall.gif");
    assert_eq!(attachment["type"], "image/gif");
    let link = attachment["url"].as_str().expect("a link");
    let path = link
        .strip_prefix("https://push.example.org")
        .expect("the base");
    let (_, body) = load(&Value::from(gateway.url(path)));
    assert_eq!(body, GIF);
    let lmtp = [&["--protocol", "LMTP"], &more[..]].concat();
    send(&gateway, "lmtp", &lmtp);
    assert_eq!(stored(folder.path()).len(), 2);
    // A mail without an image, and one whose image is none.
    send(&gateway, "smtp", &["--body", "text"]);
    let html = folder.path().join("a.gif");
    fs::write(&html, "<html>").expect("written");
    let html = format!("@{}", html.display());
    send(
        &gateway,
        "smtp",
        &["--attach-type", "image/gif", "--attach", &html],
    );
    assert_eq!(stored(folder.path()).len(), 2);
    let off = Gateway::start(&format!("{PLAIN}listeners.smtp.attach_image = false\n"));
    send(&off, "smtp", &more);
    let read: Value = message(&off);
    assert!(read["attachment"].is_null(), "{read}");
}
