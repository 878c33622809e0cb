//! Pages and files that are kept for users (`pages.access`), by requests as browsers, programs and
//! attackers send them.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::support::{Gateway, add_user, await_some, run, send_raw, text_of};

const HTML: &str = "Accept: text/html";

const SETTINGS: &str = "rules.paths = []\npages.listings = true\n\
    [pages.access]\n\"/office\" = \"login\"\n\"/office/pay\" = [\"Anna\"]\n\
    \"/office/menu\" = \"everyone\"\n\"/home\" = \"rules\"\n\"/mounted/in\" = \"login\"\n\
    \"/big.txt\" = \"login\"\n[pages.mounts]\n\"/mounted\" = \"mounted\"\n";

/// A server with pages for all, for users, for anna and by access rules.
fn gateway() -> Gateway {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &[u8]| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, content).expect("a file");
    };
    for (name, text) in [
        (
            "pages/office/index.html",
            "<p>OFFICE {{ request.user }}</p>",
        ),
        ("pages/office/list.html", "<p>LIST {{ latest('a') }}</p>"),
        ("pages/office/pay.html", "<p>PAY {{ now() }}</p>"),
        ("pages/office/pay/may.txt", "PAY of May"),
        ("pages/office/menu.html", "<p>MENU</p>"),
        ("pages/office/a.css", "OFFICE{}"),
        ("pages/office/a.css.gz", "OFFICE in gzip"),
        (
            "pages/office/form.html",
            "<form>{{ form_token() }}</form>FORM",
        ),
        ("pages/home/anna/index.html", "<p>HOME</p>"),
        ("pages/open/a.txt", "OPEN"),
        ("pages/404.html", "<p>OWN 404</p>"),
        ("mounted/in/a.html", "<p>OFFICE mounted</p>"),
        ("mounted/out.html", "<p>OPEN mounted</p>"),
    ] {
        write(name, text.as_bytes());
    }
    write("pages/big.txt", &b"OFFICE ".repeat(300_000));
    let link = folder.path().join("pages/open/link.css");
    std::os::unix::fs::symlink("../office/a.css", link).expect("a link");
    let mut gateway = Gateway::start_in(folder.path(), SETTINGS);
    gateway.keep(folder);
    for (name, more) in [("root", &["--admin"][..]), ("anna", &[]), ("berta", &[])] {
        let added = add_user(&gateway, name, &format!("secret of {name}"), more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    // Before the first user is known, every program of this machine may read all.
    await_some("the server knows them", || {
        let is_open = status(&visit(&gateway, "", "GET /office/")) == "200";
        let is_known = status(&visit(&gateway, "berta", "GET /office/")) == "200";
        (!is_open && is_known).then_some(())
    });
    gateway
}

fn user_command(gateway: &Gateway, arguments: &[&str]) -> String {
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let all = [&["user"], arguments, &["--set", &data]].concat();
    let done = run(env!("CARGO_BIN_EXE_gatepost"), &all, b"");
    assert!(done.status.success(), "{}", text_of(&done));
    text_of(&done)
}

/// Sends a request with these further fields.
fn request(gateway: &Gateway, line: &str, fields: &[&str]) -> String {
    let host = gateway.address("http");
    let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for field in fields {
        let _ = write!(head, "{field}\r\n");
    }
    let answer = send_raw(host, format!("{head}\r\n").as_bytes());
    String::from_utf8_lossy(&answer).into_owned()
}

fn basic(login: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(login);
    format!("Authorization: Basic {encoded}")
}

/// A request of a user who logs in with it, or of a visitor without a login for the empty name.
fn visit(gateway: &Gateway, user: &str, line: &str) -> String {
    if user.is_empty() {
        return request(gateway, line, &[]);
    }
    let login = basic(&format!("{user}:secret of {user}"));
    request(gateway, line, &[&login])
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
}

/// Whether an answer has content that is kept for users.
fn leaks(answer: &str) -> bool {
    ["OFFICE", "LIST", "PAY", "FORM", "HOME"]
        .iter()
        .any(|secret| answer.contains(secret))
}

#[test]
fn kept_pages_are_for_their_readers_only() {
    let gateway = gateway();
    for (path, anonymous, berta, anna) in [
        ("/office", "401", "301", "301"),
        ("/office/", "401", "200", "200"),
        ("/office/index.html", "401", "200", "200"),
        ("/office/list", "401", "200", "200"),
        ("/office/list.html", "401", "200", "200"),
        ("/office/a.css", "401", "200", "200"),
        ("/office/a.css.gz", "401", "200", "200"),
        ("/office/pay", "401", "403", "200"),
        ("/office/pay.html", "401", "403", "200"),
        ("/office/pay/", "401", "403", "200"),
        ("/office/pay/may.txt", "401", "403", "200"),
        ("/office/pay/none", "401", "403", "404"),
        ("/office/menu", "200", "200", "200"),
        ("/open/link.css", "401", "200", "200"),
        ("/big.txt", "401", "200", "200"),
        ("/mounted/in/a", "401", "200", "200"),
        ("/mounted/out", "200", "200", "200"),
        ("/open/a.txt", "200", "200", "200"),
    ] {
        // From the disk, from memory, and from memory after the visit of a user who may.
        for round in 0..2 {
            for (user, expected) in [("anna", anna), ("", anonymous), ("berta", berta)] {
                let answer = visit(&gateway, user, &format!("GET {path}"));
                let what = format!("{path} {user} {round}: {answer}");
                assert_eq!(status(&answer), expected, "{what}");
                let is_kept = anonymous == "401";
                if expected.starts_with('4') {
                    assert!(!leaks(&answer), "{what}");
                } else if is_kept {
                    let caching = field(&answer, "cache-control");
                    assert_eq!(caching, Some("private, no-cache"), "{what}");
                }
                let head = visit(&gateway, user, &format!("HEAD {path}"));
                assert_eq!(status(&head), expected, "HEAD {what}");
                if expected == "401" {
                    let challenge = field(&answer, "www-authenticate").unwrap_or_default();
                    assert!(challenge.starts_with("Basic "), "{what}");
                }
            }
        }
    }
    assert!(visit(&gateway, "berta", "GET /office/").contains("OFFICE berta"));
    assert!(visit(&gateway, "anna", "GET /office/").contains("OFFICE anna"));
    let root = visit(&gateway, "root", "GET /office/pay");
    assert_eq!(status(&root), "200", "an administrator reads all: {root}");
    let wrong = request(&gateway, "GET /office/", &[&basic("anna:wrong")]);
    assert_eq!(status(&wrong), "401", "{wrong}");
    let browser = request(&gateway, "GET /office/list?a=b", &[HTML]);
    assert_eq!(
        field(&browser, "location"),
        Some("/gatepost/login?next=/office/list%3Fa%3Db"),
        "{browser}"
    );
    let browser = request(
        &gateway,
        "GET /office/pay",
        &[HTML, &basic("berta:secret of berta")],
    );
    assert_eq!(status(&browser), "403", "{browser}");
}

#[test]
fn no_spelling_of_a_path_opens_a_kept_page() {
    let gateway = gateway();
    // With the content in the cache.
    for path in ["/office/list", "/office/a.css", "/office/", "/big.txt"] {
        assert_eq!(
            status(&visit(&gateway, "anna", &format!("GET {path}"))),
            "200"
        );
    }
    for path in [
        "//office/list",
        "/office//list",
        "/./office/list",
        "/open/../office/list",
        "/open/%2e%2e/office/list",
        "/office/%2e/list",
        "/%6Fffice/list",
        "/office%2Flist",
        "/office%2flist.html",
        "/OFFICE/list",
        "/Office/list.HTML",
        "/office/list/",
        "/office/list.html/",
        "/office/list%00",
        "/office/list%2ehtml",
        "/office/a%2Ecss",
        "/office/index",
        "/office/list;a=b",
        "/office/list?a=b",
        "/office\\list",
        "/open/..%5coffice/list",
        "http://elsewhere/office/list",
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let answer = visit(&gateway, "", &format!("{method} {path}"));
            assert!(!leaks(&answer), "{method} {path}: {answer}");
            assert!(status(&answer) != "200", "{method} {path}: {answer}");
        }
    }
    // Parts, other codings, conditions and HTTP/1.0 and 2 have the same answer.
    for fields in [
        &["Range: bytes=0-3"][..],
        &["Accept-Encoding: gzip"],
        &["If-None-Match: *"],
        &["If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"],
        &["Range: bytes=99999999-"],
        &["If-Match: \"none\""],
        &["X-Original-URL: /open/a.txt"],
    ] {
        for path in ["/office/a.css", "/office/list", "/big.txt"] {
            let answer = request(&gateway, &format!("GET {path}"), fields);
            assert_eq!(status(&answer), "401", "{path} {fields:?}: {answer}");
            assert!(!leaks(&answer), "{path} {fields:?}: {answer}");
        }
    }
    let url = gateway.url("/office/list");
    for version in ["--http1.0", "--http2-prior-knowledge"] {
        let asked = ["-s", version, "-w", "%{http_code}", "-o", "/dev/null", &url];
        assert_eq!(text_of(&run("curl", &asked, b"")), "401", "{version}");
    }
    let part = ["Range: bytes=0-5", &basic("anna:secret of anna")];
    let part = request(&gateway, "GET /big.txt", &part);
    assert_eq!(status(&part), "206", "{part}");
    assert_eq!(field(&part, "cache-control"), Some("private, no-cache"));
    assert!(part.ends_with("OFFICE"), "{part}");
    let form = "Content-Type: application/x-www-form-urlencoded";
    let form = request(&gateway, "POST /office/form", &[form, "Content-Length: 0"]);
    assert_eq!(status(&form), "401", "{form}");
}

#[test]
fn listings_and_error_pages_show_nothing_that_is_kept() {
    let gateway = gateway();
    let listing = |user: &str, path: &str| visit(&gateway, user, &format!("GET {path}"));
    let open = listing("", "/open/");
    assert!(
        open.contains("a.txt") && !open.contains("link.css"),
        "{open}"
    );
    let mounted = listing("", "/mounted/");
    assert!(mounted.contains("out.html"), "{mounted}");
    assert!(!mounted.contains("in/"), "{mounted}");
    let pay = listing("anna", "/office/pay/");
    assert!(pay.contains("may.txt"), "{pay}");
    let missing = request(
        &gateway,
        "GET /none",
        &[HTML, &basic("anna:secret of anna")],
    );
    assert!(missing.contains("OWN 404"), "{missing}");
}

#[test]
fn access_rules_and_tokens_decide_too() {
    let gateway = gateway();
    let home = |user: &str| status(&visit(&gateway, user, "GET /home/anna/")).to_owned();
    assert_eq!(home("anna"), "403");
    user_command(
        &gateway,
        &["grant", "everyone", "subscribe", "$pages/home/%u/#"],
    );
    await_some("the rule is in force", || {
        (home("anna") == "200").then_some(())
    });
    assert_eq!(home("berta"), "403");
    assert_eq!(home(""), "401");
    // A token for some topics is none for pages, unless it names them.
    let token = |allowed: &str| {
        let added = user_command(&gateway, &["token", "add", "anna", "--allow", allowed]);
        let token = added
            .split_whitespace()
            .find(|word| word.starts_with("gp_"));
        format!("Authorization: Bearer {}", token.expect("a token"))
    };
    let (sensor, reader) = (token("subscribe=#"), token("subscribe=$pages/office/#"));
    await_some("the tokens are known", || {
        let answer = request(&gateway, "GET /office/list", &[&reader]);
        (status(&answer) == "200").then_some(())
    });
    let answer = request(&gateway, "GET /office/list", &[&sensor]);
    assert_eq!(status(&answer), "403", "{answer}");
    // The page of a user who is removed is no longer shown, though it is in memory.
    user_command(&gateway, &["remove", "anna"]);
    await_some("anna is gone", || (home("anna") == "401").then_some(()));
}

#[test]
fn mistakes_in_the_setting_are_errors() {
    for (setting, reason) in [
        (
            "pages.access = { office = \"login\" }",
            "is no path of a site",
        ),
        (
            "pages.access = { \"/a%20b\" = \"login\" }",
            "is no path of a site",
        ),
        (
            "pages.access = { \"/a\" = \"users\" }",
            "or a list of users",
        ),
        ("pages.access = { \"/a\" = 1 }", "or a list of users"),
    ] {
        let mut config = tempfile::NamedTempFile::new().expect("a file");
        writeln!(config, "{setting}").expect("written");
        let path = config.path().display().to_string();
        let checked = run(
            env!("CARGO_BIN_EXE_gatepost"),
            &["check", "--config", &path],
            b"",
        );
        assert!(!checked.status.success(), "{setting}");
        assert!(text_of(&checked).contains(reason), "{}", text_of(&checked));
    }
}
