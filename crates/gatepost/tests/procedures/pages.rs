//! Pages as their visitors get them, and the parts of a response that procedures determine. The
//! visitor is curl, which supports cookies, ranges and codings.

use std::path::Path;

use super::support::{Gateway, run, text_of};

pub(super) fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    }
}

pub(super) fn start(files: &[(&str, &str)], settings: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), files);
    let settings = format!("rules.paths = []\n{settings}");
    (Gateway::start_in(folder.path(), &settings), folder)
}

/// Head and body of the response to curl.
pub(super) fn curl(gateway: &Gateway, path: &str, arguments: &[&str]) -> String {
    let url = gateway.url(path);
    let all = [&["-s", "-i"], arguments, &[&url]].concat();
    text_of(&run("curl", &all, b""))
}

pub(super) fn expect(answer: &str, parts: &[&str]) {
    for part in parts {
        assert!(answer.contains(part), "no {part:?} in {answer}");
    }
}

/// Prints its request, and decides the rest by the first argument.
const DESK: &str = r#"
return function(message, arguments)
    local seen = `{arguments.name}|{arguments.agent}|{arguments.seen}`
    local text = `{seen}|{message.user}|{message.address}`
    if arguments.name == "away" then
        return { redirect = "/other?a=1" }
    elseif arguments.name == "gone" then
        local headers = { ["X-Desk"] = { "one", "two" }, ["Content-Type"] = "text/plain" }
        return { text = text, status = 410, headers = headers }
    elseif arguments.name == "split" then
        return { text = text, headers = { ["X-Desk"] = "a\r\nSet-Cookie: stolen=1" } }
    end
    local theme = { value = "dark", max_age = 60, http_only = false, same_site = "strict" }
    return { text = text, cookies = { seen = "yes", theme = theme, old = false } }
end"#;

#[test]
fn a_procedure_decides_the_answer_and_sees_the_request() {
    let call = "call('/desk', name=request.query.name, agent=request.headers['user-agent'], \
        seen=request.cookies.seen)";
    let (gateway, folder) = start(
        &[
            ("procedures/desk.luau", DESK),
            ("pages/quick.html", &format!("<p>{{{{ {call} }}}}</p>")),
            (
                "pages/engine.html",
                &format!(
                    "{{% extends '_frame.html' %}}{{% block main %}}<p>{{{{ {call} }}}}</p>{{% \
                     endblock %}}"
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
        // A message that cannot be sent is the procedure's failure: its place stays empty, the rest
        // stands.
        let split = curl(&gateway, &format!("{page}?name=split"), &[]);
        expect(
            &split,
            &["HTTP/1.1 200 OK\r\n", "<p><!-- gatepost error ", " --></p>"],
        );
        assert!(!split.contains("stolen"), "{split}");
    }
    assert!(
        gateway.log().contains(
            "the value of X-Desk contains characters that a header field must not contain"
        )
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
