//! Pages as their visitors meet them: what procedures decide of an answer, forms, loops that hold
//! up nobody, files and folders. The visitor is curl, which knows cookies, ranges and codings.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::support::{Client, Gateway, run, text_of};

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    }
}

fn start(files: &[(&str, &str)], settings: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), files);
    let settings = format!("rules.paths = []\n{settings}");
    (Gateway::start_in(folder.path(), &settings), folder)
}

/// Head and body of what curl was answered.
fn curl(gateway: &Gateway, path: &str, arguments: &[&str]) -> String {
    let url = gateway.url(path);
    let all = [&["-s", "-i"], arguments, &[&url]].concat();
    text_of(&run("curl", &all, b""))
}

fn expect(answer: &str, parts: &[&str]) {
    for part in parts {
        assert!(answer.contains(part), "no {part:?} in {answer}");
    }
}

/// Says what it was told, and decides the rest by the first argument.
const DESK: &str = r#"
return function(message, arguments)
    local text = `{arguments.name}|{arguments.agent}|{arguments.seen}|{message.user}|{message.address}`
    if arguments.name == "away" then
        return { redirect = "/other?a=1" }
    elseif arguments.name == "gone" then
        return { text = text, status = 410, headers = { ["X-Desk"] = { "one", "two" }, ["Content-Type"] = "text/plain" } }
    elseif arguments.name == "split" then
        return { text = text, headers = { ["X-Desk"] = "a\r\nSet-Cookie: stolen=1" } }
    end
    return { text = text, cookies = { seen = "yes", theme = { value = "dark", max_age = 60, http_only = false, same_site = "strict" }, old = false } }
end"#;

#[test]
fn a_procedure_decides_the_answer_and_is_told_of_the_request() {
    let call = "call('/desk', name=request.query.name, agent=request.headers['user-agent'], seen=request.cookies.seen)";
    let (gateway, folder) = start(
        &[
            ("procedures/desk.luau", DESK),
            ("pages/quick.html", &format!("<p>{{{{ {call} }}}}</p>")),
            (
                "pages/engine.html",
                &format!(
                    "{{% extends '_frame.html' %}}{{% block main %}}<p>{{{{ {call} }}}}</p>{{% endblock %}}"
                ),
            ),
            ("pages/_frame.html", "{% block main %}{% endblock %}"),
            (
                "pages/404.html",
                "no {{ request.path }}: {{ request.error.text }}",
            ),
            ("pages/500.html", "error {{ request.error.id }}"),
            ("pages/faulty.html", "{% for %}"),
        ],
        "",
    );
    for page in ["/quick", "/engine"] {
        let plain = curl(
            &gateway,
            &format!("{page}?name=%3Canna%3E"),
            &["-A", "a browser", "-b", "seen=before; other=1"],
        );
        expect(
            &plain,
            &[
                "HTTP/1.1 200 OK\r\n",
                "<p>&lt;anna&gt;|a browser|before|nil|127.0.0.1</p>",
                "\r\nSet-Cookie: seen=yes; Path=/; HttpOnly; SameSite=Lax\r\n",
                "\r\nSet-Cookie: theme=dark; Path=/; Max-Age=60; SameSite=Strict\r\n",
                "\r\nSet-Cookie: old=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax\r\n",
                "\r\nCache-Control: private, no-cache\r\n",
            ],
        );
        let away = curl(&gateway, &format!("{page}?name=away"), &[]);
        expect(
            &away,
            &[
                "HTTP/1.1 302 Found\r\n",
                "\r\nLocation: /other?a=1\r\n",
                "\r\nContent-Length: 0\r\n",
            ],
        );
        let gone = curl(
            &gateway,
            &format!("{page}?name=gone"),
            &["--http2-prior-knowledge"],
        );
        expect(
            &gone,
            &[
                "HTTP/2 410 ",
                "\r\nx-desk: one\r\n",
                "\r\nx-desk: two\r\n",
                "\r\ncontent-type: text/plain\r\n",
                "gone|",
            ],
        );
        // What cannot be sent is the procedure's failure: its place stays empty, the rest stands.
        let split = curl(&gateway, &format!("{page}?name=split"), &[]);
        expect(
            &split,
            &["HTTP/1.1 200 OK\r\n", "<p><!-- gatepost error ", " --></p>"],
        );
        assert!(!split.contains("stolen"), "{split}");
    }
    assert!(
        gateway
            .log()
            .contains("the value of X-Desk holds what no header field can carry")
    );
    let browser = ["-H", "Accept: text/html"];
    expect(
        &curl(&gateway, "/nothing", &browser),
        &["HTTP/1.1 404 Not Found\r\n", "no &#x2f;nothing: not found"],
    );
    let faulty = curl(&gateway, "/faulty", &browser);
    expect(
        &faulty,
        &["HTTP/1.1 500 Internal Server Error\r\n", "\r\n\r\nerror "],
    );
    let id = faulty.rsplit("error ").next().expect("an id").trim();
    expect(&gateway.log(), &[id, "faulty.html:1"]);
    drop((gateway, folder));
}

const BOOK: &str = "<form method=post>{{ form_publish('visitors/book', then='/thanks') }}</form>";
const ASK: &str = "<form method=post>{{ form_call('/answer') }}</form>[{{ request.result.verdict }}|{{ request.result.text }}|{{ request.result.reason }}|{{ request.form.question }}]";
const SHOW: &str = "<form method=post>{{ form_token() }}</form>{{ call('/answer', question=request.form.question) }}";
const ANSWER: &str = r#"
return function(message, arguments)
    if arguments.question == "no" then return "reject", "not that" end
    if arguments.question == "go" then return { redirect = "/thanks" } end
    return { text = `{arguments.question}? {message.body}`, cookies = { asked = "1" } }
end"#;

/// The hidden field of a page's form; the cookie goes into the jar.
fn form_of(gateway: &Gateway, page: &str, jar: &str) -> String {
    let html = curl(gateway, page, &["-b", jar, "-c", jar]);
    expect(
        &html,
        &["<input type=\"hidden\" name=\"gatepost-form\" value=\""],
    );
    let value = html
        .split("value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    format!("gatepost-form={}", value.expect("a value"))
}

/// The pages with forms.
fn start_with_forms() -> (Gateway, tempfile::TempDir) {
    start(
        &[
            ("procedures/answer.luau", ANSWER),
            (
                "procedures/never.luau",
                "return function() return 'reject', 'never' end",
            ),
            ("pages/book.html", BOOK),
            (
                "pages/never.html",
                "{{ form_publish('never') }}{{ request.form.name }}: {{ request.result.reason }}",
            ),
            ("pages/ask.html", ASK),
            ("pages/show.html", SHOW),
        ],
        "[[scope]]\npath = \"/n\"\ntopics = [\"never\"]\nrun = [\"/never\"]\n",
    )
}

#[test]
fn a_form_publishes_and_is_taken_from_its_page_only() {
    let (gateway, folder) = start_with_forms();
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-V", "5", "-F", "%t|%p|%C", "-t", "#", "-d"];
    let mut subscriber = Client::start("mosquitto_sub", &arguments);
    subscriber.await_line("SUBACK");
    let jar = folder.path().join("jar").display().to_string();
    let field = form_of(&gateway, "/book", &jar);

    let sent = [
        "-b",
        &jar,
        "-d",
        &field,
        "-d",
        "name=Anna",
        "--data-urlencode",
        "text=a & b",
    ];
    let done = curl(&gateway, "/book", &sent);
    expect(
        &done,
        &["HTTP/1.1 303 See Other\r\n", "\r\nLocation: /thanks\r\n"],
    );
    subscriber.await_line(r#"visitors/book|{"name":"Anna","text":"a & b"}|application/json"#);
    let part = format!(
        "gatepost-form={}",
        field.split_once('=').expect("a field").1
    );
    let done = curl(
        &gateway,
        "/book",
        &["-b", &jar, "-F", &part, "-F", "payload=as it is"],
    );
    expect(&done, &["HTTP/1.1 303 "]);
    subscriber.await_line("visitors/book|as it is|text/plain; charset=utf-8");

    let same = format!("Origin: {}", gateway.url(""));
    let refused = [
        // Without the field, without the cookie, on another page, or sent by another site.
        curl(&gateway, "/book", &["-b", &jar, "-d", "name=x"]),
        curl(&gateway, "/book", &["-d", &field]),
        curl(&gateway, "/ask", &["-b", &jar, "-d", &field]),
        curl(
            &gateway,
            "/book",
            &[
                "-b",
                &jar,
                "-d",
                &field,
                "-H",
                "Origin: https://example.org",
            ],
        ),
        curl(
            &gateway,
            "/book",
            &[
                "-b",
                &jar,
                "-d",
                &field,
                "-H",
                &same,
                "-H",
                "Sec-Fetch-Site: cross-site",
            ],
        ),
        curl(
            &gateway,
            "/book",
            &["-b", &jar, "-d", &field, "-e", "https://example.org/a"],
        ),
    ];
    for answer in refused {
        expect(&answer, &["HTTP/1.1 403 Forbidden\r\n"]);
    }
    let own = [
        "-b",
        &jar,
        "-d",
        &field,
        "-H",
        &same,
        "-H",
        "Sec-Fetch-Site: same-origin",
        "-d",
        "payload=last",
    ];
    expect(&curl(&gateway, "/book", &own), &["HTTP/1.1 303 "]);
    subscriber.await_line("visitors/book|last");
    assert_eq!(
        subscriber
            .seen()
            .iter()
            .filter(|line| line.starts_with("visitors/"))
            .count(),
        3
    );
}

#[test]
fn a_form_that_is_refused_or_calls_shows_its_page_again() {
    let (gateway, folder) = start_with_forms();
    let jar = folder.path().join("jar").display().to_string();
    // What is refused shows the page again, with what was typed.
    let field = form_of(&gateway, "/never", &jar);
    let never = curl(
        &gateway,
        "/never",
        &["-b", &jar, "-d", &field, "-d", "name=Anna"],
    );
    expect(&never, &["HTTP/1.1 422 ", "Anna: never"]);

    let field = form_of(&gateway, "/ask", &jar);
    let ask = |question: &str| {
        curl(
            &gateway,
            "/ask",
            &["-b", &jar, "-d", &field, "-d", question],
        )
    };
    let answer = ask("question=why");
    expect(
        &answer,
        &[
            "HTTP/1.1 200 ",
            "[accept|why? {&quot;question&quot;:&quot;why&quot;}||why]",
            "\r\nSet-Cookie: asked=1;",
        ],
    );
    expect(
        &ask("question=no"),
        &["HTTP/1.1 422 ", "[reject||not that|no]"],
    );
    expect(
        &ask("question=go"),
        &["HTTP/1.1 303 See Other\r\n", "\r\nLocation: /thanks\r\n"],
    );

    let field = form_of(&gateway, "/show", &jar);
    let show = curl(
        &gateway,
        "/show",
        &["-b", &jar, "-d", &field, "-d", "question=how"],
    );
    expect(
        &show,
        &[
            "HTTP/1.1 200 ",
            "</form>how? {&quot;question&quot;:&quot;how&quot;}",
        ],
    );
}

const LOOP: &str = "return function() while true do end end";
/// Steps that no page gets to the end of in the time of this test.
const COUNT: &str =
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";

/// Asks for a page in the background.
fn asking(gateway: &Gateway, path: &str) -> Child {
    Command::new("curl")
        .args(["-s", "-o", "/dev/null", &gateway.url(path)])
        .stdout(Stdio::null())
        .spawn()
        .expect("curl starts")
}

#[test]
fn pages_that_loop_hold_up_neither_pages_nor_the_broker_nor_mail() {
    let (gateway, folder) = start(
        &[
            ("procedures/loop.luau", LOOP),
            (
                "procedures/hello.luau",
                "return function(_, arguments) return 'Hello ' .. arguments.name end",
            ),
            ("pages/one.html", "{{ call('/loop') }}"),
            ("pages/two.html", "{% if 1 %}{{ call('/loop') }}{% endif %}"),
            ("pages/three.html", COUNT),
            ("pages/four.html", "{{ now() }} {{ call('/loop') }}"),
            (
                "pages/hello.html",
                "<p>{{ call('/hello', name=request.query.name) }}</p>",
            ),
            (
                "pages/listed.html",
                "{% for n in range(3) %}{{ n }}{% endfor %}",
            ),
            ("pages/still.html", "{{ now() }}"),
        ],
        "procedures.luau.time_max = \"10m\"\n\
        [pages]\nworkers = 2\ntime_max = \"10m\"\nsteps_max = 1000000000000\nstragglers_max = 32\n\
        [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/hello\"]\n",
    );
    let mut loops: Vec<_> = ["/one", "/two", "/three", "/four", "/one", "/three"]
        .map(|path| asking(&gateway, path))
        .into();
    // They loop when all have straggled: a worker each was started in their place.
    super::support::await_some("the loops run", || {
        let metrics = curl(&gateway, "/metrics", &[]);
        let line = metrics
            .lines()
            .find(|line| line.starts_with("gatepost_page_workers_replaced_total "));
        let replaced: u64 = line?.split(' ').nth(1)?.parse().ok()?;
        (replaced >= 4).then_some(())
    });
    for number in 0..20 {
        let name = format!("n{number}");
        let hello = curl(&gateway, &format!("/hello?name={name}"), &[]);
        expect(
            &hello,
            &["HTTP/1.1 200 OK\r\n", &format!("<p>Hello {name}</p>")],
        );
        expect(&curl(&gateway, "/listed", &[]), &["\r\n\r\n012"]);
        expect(&curl(&gateway, "/still", &[]), &["HTTP/1.1 200 OK\r\n"]);
    }
    let port = gateway.port("mqtt");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &port, "-F", "%t|%p", "-t", "a/#", "-d"],
    );
    subscriber.await_line("SUBACK");
    let published = run(
        "mosquitto_pub",
        &["-p", &port, "-q", "1", "-t", "a/b", "-m", "c"],
        b"",
    );
    assert!(published.status.success());
    subscriber.await_line("a/b|c");
    let server = gateway.address("smtp").to_string();
    let mail = [
        "--server",
        &server,
        "--from",
        "anna@example.org",
        "--to",
        "alarms+fire@localhost",
    ];
    expect(&text_of(&run("swaks", &mail, b"")), &["250 2.0.0"]);
    // All that while the loops went on.
    for one in &mut loops {
        assert!(
            one.try_wait().expect("our child").is_none(),
            "a loop has ended"
        );
        one.kill().expect("our child");
        one.wait().expect("our child");
    }
    drop((gateway, folder));
}

/// A page whose values grow by `step` in each of so many turns.
fn growing(turns: &str, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x='0123456789') %}}{{% for n in {turns} %}}{step}{{% endfor %}}"
    )
}

#[test]
fn pages_that_grow_without_end_hold_up_neither_pages_nor_mail() {
    let doubled = "{% set x = x ~ x %}".repeat(60);
    let pages = [
        (
            "doubled",
            growing("range(60)", "{% set ns.x = ns.x ~ ns.x %}"),
        ),
        (
            "joined",
            growing("range(60)", "{% set ns.x = [ns.x, ns.x]|join(ns.x) %}"),
        ),
        (
            "captured",
            growing(
                "range(60)",
                "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
            ),
        ),
        (
            "listed",
            growing("range(100000)", "{% set ns.x = (ns.x ~ '0' * 1000000) %}"),
        ),
        // Nobody is asked in these: their threads are set aside.
        (
            "called",
            "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('0123456789' * 1000) }}".to_owned(),
        ),
        ("unasked", format!("{{% set x = 'a' %}}{doubled}")),
        (
            "replaced",
            growing("[1] * 60", "{% set ns.x = ns.x|replace('', ns.x) %}"),
        ),
        (
            "constant",
            format!("{{% set x = {} %}}", ["'a' * 100000000"; 60].join(" ~ ")),
        ),
        ("deep", growing("[1] * 10000000", "{% set ns.x = [ns.x] %}")),
    ];
    let (gateway, folder) = start(
        &[(
            "pages/well.html",
            "{% for n in range(3) %}{{ n }}{% endfor %}",
        )],
        "[pages]\nworkers = 1\ntime_max = \"1m\"\nrecheck = \"always\"\n",
    );
    for (name, source) in &pages {
        write(folder.path(), &[(&format!("pages/{name}.html"), source)]);
        // A page that was given up is not begun again.
        for _ in 0..2 {
            expect(
                &curl(&gateway, &format!("/{name}"), &[]),
                &["HTTP/1.1 500 "],
            );
        }
        expect(
            &curl(&gateway, "/well", &[]),
            &["HTTP/1.1 200 ", "\r\n\r\n012"],
        );
    }
    expect(
        &curl(&gateway, "/metrics", &[]),
        &["\ngatepost_page_threads_set_aside 5\n"],
    );
    let server = gateway.address("smtp").to_string();
    let mail = [
        "--server",
        &server,
        "--from",
        "anna@example.org",
        "--to",
        "alarms+fire@localhost",
    ];
    expect(&text_of(&run("swaks", &mail, b"")), &["250 2.0.0"]);
    expect(
        &gateway.log(),
        &[
            "doubled.html:1: invalid operation: the page's values grew larger than memory_max",
            "unasked.html:0: its values grew far over memory_max",
        ],
    );
    // Mended, it is made again.
    write(
        folder.path(),
        &[("pages/unasked.html", "{% if 1 %}mended{% endif %}")],
    );
    expect(&curl(&gateway, "/unasked", &[]), &["\r\n\r\nmended"]);
}

#[test]
fn a_page_that_took_its_time_has_an_empty_place() {
    let (gateway, folder) = start(
        &[
            ("procedures/loop.luau", LOOP),
            (
                "pages/page.html",
                "<p>before</p>{{ call('/loop') }}<p>{{ now('%Y') }} after</p>",
            ),
        ],
        "procedures.luau.time_max = \"10m\"\npages.time_max = \"200ms\"\n",
    );
    let page = curl(&gateway, "/page", &[]);
    expect(
        &page,
        &[
            "HTTP/1.1 200 OK\r\n",
            "<p>before</p><!-- gatepost error ",
            " after</p>",
        ],
    );
    let id = page
        .split("error ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    expect(
        &gateway.log(),
        &[id.expect("an id"), "insertion point failed: /loop"],
    );
    drop((gateway, folder));
}

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
        "[pages]\nlistings = true\n[pages.hosts]\n\"www.example.org\" = \"other\"\n[pages.mounts]\n\"/manual\" = \"manual\"\n",
    )
}

#[test]
fn files_and_pages_come_in_the_coding_that_the_client_likes() {
    let (gateway, folder) = start_with_files();
    let css = css();
    let get = |path: &str, arguments: &[&str]| curl(&gateway, path, arguments);
    let coded = "Accept-Encoding: br;q=0.5, gzip;q=0.9";
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
        &get("/a.css", &["-H", coded]),
        &["\r\nContent-Encoding: gzip\r\n"],
    );
    let plain = get("/a.css", &[]);
    expect(&plain, &["\r\nVary: Accept-Encoding\r\n", &css]);
    assert!(!plain.contains("Content-Encoding"), "{plain}");
    // curl unpacks what it says it takes: every way of making a page is the same page.
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
    let coded = "Accept-Encoding: br;q=0.5, gzip;q=0.9";
    let plain = get("/a.css", &[]);
    let small = get("/small.txt", &["-H", coded]);
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
    let gzip_tag = field(&get("/a.css", &["-H", coded]), "ETag");
    assert_ne!(gzip_tag, field(&plain, "ETag"));
    expect(
        &get(
            "/a.css",
            &["-H", coded, "-H", &format!("If-None-Match: {gzip_tag}")],
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
