//! Forms of pages: accepted from their own page only, and answered by a page, a redirection or a
//! message for subscribers.

use super::pages::{curl, expect, start};
use super::support::{Client, Gateway};

const BOOK: &str = "<form method=post>{{ form_publish('visitors/book', then='/thanks') }}</form>";
const ASK: &str = "<form method=post>{{ form_call('/answer') }}</form>[{{ request.result.verdict \
    }}|{{ request.result.text }}|{{ request.result.reason }}|{{ request.form.question }}]";
const SHOW: &str = "<form method=post>{{ form_token() }}</form>{{ call('/answer', \
    question=request.form.question) }}";
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
    let mut subscriber = Client::subscribe(&gateway, "#", "%t|%p|%C");
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
    let rooms = ["-b", &jar, "-d", &field, "-d", "room=hall&room=attic"];
    expect(&curl(&gateway, "/book", &rooms), &["HTTP/1.1 303 "]);
    subscriber.await_line(r#"visitors/book|{"room":["hall","attic"]}|application/json"#);

    let same = format!("Origin: {}", gateway.url(""));
    let book = |more: &[&str]| {
        let form = ["-b", &jar, "-d", &field];
        curl(&gateway, "/book", &[&form, more].concat())
    };
    let refused = [
        // Without the field, without the cookie, on another page, or sent by another site.
        curl(&gateway, "/book", &["-b", &jar, "-d", "name=x"]),
        curl(&gateway, "/book", &["-d", &field]),
        curl(&gateway, "/ask", &["-b", &jar, "-d", &field]),
        book(&["-H", "Origin: https://example.org"]),
        book(&["-H", &same, "-H", "Sec-Fetch-Site: cross-site"]),
        book(&["-e", "https://example.org/a"]),
    ];
    for answer in refused {
        expect(&answer, &["HTTP/1.1 403 Forbidden\r\n"]);
    }
    let own = [
        "-H",
        &same,
        "-H",
        "Sec-Fetch-Site: same-origin",
        "-d",
        "payload=last",
    ];
    expect(&book(&own), &["HTTP/1.1 303 "]);
    subscriber.await_line("visitors/book|last");
    assert_eq!(
        subscriber
            .seen()
            .iter()
            .filter(|line| line.starts_with("visitors/"))
            .count(),
        4
    );
}

#[test]
fn a_form_that_is_refused_or_calls_shows_its_page_again() {
    let (gateway, folder) = start_with_forms();
    let jar = folder.path().join("jar").display().to_string();
    // A refused form shows the page again, with the text that was typed.
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
