//! Files and folders as the server sends them: with content codings, in part, conditionally, and by
//! host.

use super::pages::{curl, expect, start};
use super::support::Gateway;

/// The text of a file that is worth compressing.
fn css() -> String {
    "p { color: red }\n".repeat(500)
}

fn start_with_files() -> (Gateway, tempfile::TempDir) {
    let css = css();
    let page = format!(
        "{}<p>{{{{ now('%Y') }}}}</p>{}",
        "<p>text</p>\n".repeat(300),
        "<p>more</p>\n".repeat(300)
    );
    start(
        &[
            ("pages/a.css", &css),
            ("pages/a.css.br", "stands for brotli"),
            ("pages/small.txt", "0123456789"),
            ("pages/page.html", &page),
            (
                "pages/engine.html",
                &format!("{page}{{% if 0 %}}{{% endif %}}"),
            ),
            ("other/a.css", "other"),
            ("manual/one/a.txt", "manual"),
        ],
        "[pages]\nlistings = true\n[pages.hosts]\n\"www.example.org\" = \"other\"\n[pages.mounts]\n\
         \"/manual\" = \"manual\"\n",
    )
}

#[test]
fn files_and_pages_have_the_coding_that_the_client_prefers() {
    let (gateway, folder) = start_with_files();
    let css = css();
    let get = |path: &str, arguments: &[&str]| curl(&gateway, path, arguments);
    let accept_encoding = "Accept-Encoding: br;q=0.5, gzip;q=0.9";
    let brotli = get("/a.css", &["-H", "Accept-Encoding: gzip, br"]);
    expect(
        &brotli,
        &[
            "\r\nContent-Encoding: br\r\n",
            "\r\nVary: Accept-Encoding\r\n",
            "\r\n\r\nstands for brotli",
            "\r\nContent-Type: text/css; charset=utf-8\r\n",
        ],
    );
    expect(
        &get("/a.css", &["-H", accept_encoding]),
        &["\r\nContent-Encoding: gzip\r\n"],
    );
    let plain = get("/a.css", &[]);
    expect(&plain, &["\r\nVary: Accept-Encoding\r\n", &css]);
    assert!(!plain.contains("Content-Encoding"), "{plain}");
    // curl decodes the codings that it accepts: the page is the same in each of them.
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/a.css", "/page", "/engine"] {
            let answer = |arguments: &[&str]| get(path, &[&[version], arguments].concat());
            let body = |answer: &str| answer.split_once("\r\n\r\n").expect("a head").1.to_owned();
            let packed = answer(&["--compressed", "-H", "Accept-Encoding: gzip"]);
            assert!(
                packed.to_lowercase().contains("content-encoding: gzip"),
                "{packed}"
            );
            assert_eq!(body(&packed), body(&answer(&[])), "{path}");
        }
    }
    drop((gateway, folder));
}

#[test]
fn files_come_in_part_by_condition_and_from_the_folder_of_the_host() {
    let (gateway, folder) = start_with_files();
    let get = |path: &str, arguments: &[&str]| curl(&gateway, path, arguments);
    let accept_encoding = "Accept-Encoding: br;q=0.5, gzip;q=0.9";
    let plain = get("/a.css", &[]);
    let small = get("/small.txt", &["-H", accept_encoding]);
    assert!(
        !small.contains("Vary") && !small.contains("Content-Encoding"),
        "{small}"
    );

    let field = |answer: &str, name: &str| {
        let start = format!("{name}: ");
        let line = answer.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {name} in {answer}"))
            .trim()
            .to_owned()
    };
    let etag = field(&small, "ETag");
    expect(
        &get("/small.txt", &["-H", &format!("If-None-Match: {etag}")]),
        &["HTTP/1.1 304 "],
    );
    expect(
        &get("/small.txt", &["-r", "2-4"]),
        &[
            "HTTP/1.1 206 ",
            "\r\nContent-Range: bytes 2-4/10\r\n",
            "\r\n\r\n234",
        ],
    );
    expect(
        &get("/small.txt", &["-r", "20-"]),
        &["HTTP/1.1 416 ", "\r\nContent-Range: bytes */10\r\n"],
    );
    expect(
        &get("/small.txt", &["-r", "2-4", "-H", "If-Range: \"x\""]),
        &["HTTP/1.1 200 ", "0123456789"],
    );
    let head = get("/small.txt", &["-I"]);
    expect(&head, &["HTTP/1.1 200 ", "\r\nContent-Length: 10\r\n"]);
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    // A tag is of one coding only.
    let gzip_tag = field(&get("/a.css", &["-H", accept_encoding]), "ETag");
    assert_ne!(gzip_tag, field(&plain, "ETag"));
    expect(
        &get(
            "/a.css",
            &[
                "-H",
                accept_encoding,
                "-H",
                &format!("If-None-Match: {gzip_tag}"),
            ],
        ),
        &["HTTP/1.1 304 "],
    );

    expect(
        &get("/a.css", &["-H", "Host: www.example.org:80"]),
        &["\r\n\r\nother"],
    );
    expect(
        &get("/manual/one", &[]),
        &["HTTP/1.1 301 ", "\r\nLocation: /manual/one/\r\n"],
    );
    expect(
        &get("/manual/one/", &[]),
        &[
            "<h1>&#x2f;manual&#x2f;one&#x2f;</h1>",
            "href=\"./a.txt\">a.txt</a>",
        ],
    );
    expect(&get("/manual/one/a.txt", &[]), &["\r\n\r\nmanual"]);
    expect(
        &get("/manual/../../gatepost.toml", &["--path-as-is"]),
        &["HTTP/1.1 404 "],
    );
    drop((gateway, folder));
}
