//! Deeply nested input: templates, JSON of requests, and JSON that procedures read. Input that is
//! too deep is an error, and none ends the process.

use std::process::Command;

use super::pages::{curl, expect, start, write};
use super::support::{Gateway, post, text_of};

/// Far deeper than any stack of a thread.
const DEPTH: usize = 200_000;

fn expect_alive(gateway: &mut Gateway, after: &str) {
    assert!(gateway.is_running(), "{after}: the server has ended");
    let answer = curl(gateway, "/well", &[]);
    assert!(answer.contains("\r\n\r\nwell"), "{after}: {answer}");
}

#[test]
fn templates_are_as_deep_as_their_limits_and_no_deeper() {
    let nested = |open: &str, inner: &str, close: &str| {
        [&open.repeat(DEPTH), inner, &close.repeat(DEPTH)].concat()
    };
    let value = |expression: String| format!("{{% if 1 %}}{{{{ {expression} }}}}{{% endif %}}");
    let pages = [
        ("parentheses", value(nested("(", "1", ")"))),
        ("lists", value(nested("[", "1", "]"))),
        ("maps", value(nested("{'a':", "1", "}"))),
        ("calls", value(nested("range(", "1", ")"))),
        ("negations", value(nested("not ", "1", ""))),
        ("signs", value(nested("-", "1", ""))),
        ("choices", value(nested("1 if 0 else ", "1", ""))),
        ("sums", value(nested("", "1", "+1"))),
        ("powers", value(nested("1**", "1", ""))),
        ("filters", value(nested("", "'a'", "|upper"))),
        ("attributes", value(nested("", "a", ".a"))),
        ("items", value(nested("", "a", "[0]"))),
        ("blocks", nested("{% if 1 %}", "1", "{% endif %}")),
        (
            "branches",
            nested("", "{% if 0 %}", "{% elif 0 %}") + "{% endif %}",
        ),
        ("loops", nested("{% for a in [1] %}", "1", "{% endfor %}")),
        (
            "macro",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        ),
        (
            "caller",
            "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}\
             {% endcall %}{% endmacro %}{{ n() }}"
                .to_owned(),
        ),
        (
            "recursive",
            "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        ),
        ("include", "{% include 'include.html' %}".to_owned()),
        ("extends", "{% extends 'extends.html' %}".to_owned()),
    ];
    let (mut gateway, folder) = start(
        &[("pages/well.html", "{% if 1 %}well{% endif %}")],
        "[pages]\nworkers = 1\ntime_max = \"1m\"\nrecheck = \"always\"\n",
    );
    for (name, source) in &pages {
        write(folder.path(), &[(&format!("pages/{name}.html"), source)]);
        let answer = curl(&gateway, &format!("/{name}"), &[]);
        // Some are long rather than deep, and may be rendered.
        let is_answered = ["HTTP/1.1 500 ", "HTTP/1.1 200 "]
            .iter()
            .any(|status| answer.starts_with(status));
        assert!(is_answered, "{name}: {answer}");
        expect_alive(&mut gateway, name);
    }
    expect(
        &gateway.log(),
        &["macro.html:1: ", "recursion limit exceeded"],
    );
}

#[test]
fn json_is_as_deep_as_its_limit_and_no_deeper() {
    let procedures = "return function(message)\n\
         local value, why = json.decode(message.body)\n\
         if value == nil then return {action = 'reject', reason = tostring(why)} end\n\
         return 'accept'\nend";
    let (mut gateway, folder) = start(
        &[
            ("pages/well.html", "{% if 1 %}well{% endif %}"),
            (
                "pages/shown.html",
                "{% if 1 %}{{ latest('deep').json }}|{% endif %}",
            ),
            ("procedures/decode.luau", procedures),
            ("schema.json", "{\"type\": [\"array\", \"object\"]}"),
        ],
        "[[scope]]\npath = '/luau'\ntopics = ['luau']\nrun = ['/decode']\n\
         [[scope]]\npath = '/schema'\ntopics = ['schema']\n\
         run = ['/jsoncheck -schema schema.json']\n",
    );
    let arrays = ["[".repeat(DEPTH), "]".repeat(DEPTH)].concat();
    let objects = ["{\"a\":".repeat(DEPTH), "1".to_owned(), "}".repeat(DEPTH)].concat();
    for deep in [arrays, objects, "[".repeat(DEPTH)] {
        // As an administrator, who gets the reason of the error.
        let file = folder.path().join("deep.json");
        std::fs::write(&file, &deep).expect("written");
        for path in ["/admin/users", "/admin/users/anna", "/admin/quarantine"] {
            let answer = Command::new("curl")
                .args([
                    "-si",
                    "-H",
                    "Content-Type: application/json",
                    "--data-binary",
                ])
                .arg(format!("@{}", file.display()))
                .arg(gateway.url(path))
                .output()
                .expect("curl runs");
            let answer = text_of(&answer);
            assert!(answer.contains("HTTP/1.1 4"), "{path}: {answer}");
        }
        // By procedures.
        for topic in ["luau", "schema"] {
            let answer = post(&gateway, topic, &deep);
            assert!(answer.contains("HTTP/1.1 422 "), "{topic}: {answer}");
        }
        // Shown on a page, it is not JSON.
        let answer = post(&gateway, "deep", &deep);
        assert!(answer.contains("HTTP/1.1 200 "), "{answer}");
        expect(&curl(&gateway, "/shown", &[]), &["HTTP/1.1 200"]);
        expect_alive(&mut gateway, "JSON");
    }
}
