//! Cases of views and eval functions in data files.
//!
//! A file of `tests/data/views` contains cases separated by lines of equals signs. A case is the
//! name of a view, a message, a line of minus signs, and the lines of the view, quoted; for a
//! function, its value.

use std::path::Path;

use gatepost_mail::HeaderSelector;
use gatepost_rules::Configuration;
use gatepost_rules::eval::ScannedMail;
use gatepost_rules::eval::prepare;

fn configuration() -> Configuration {
    let mut configuration = Configuration::default();
    for (name, value) in [
        ("util_rb_tld", "com org net c f"),
        ("freemail_domains", "freemail.example.com"),
        ("enlist_uri_host", "(LISTED) listed.example.com"),
        ("blacklist_from", "*@blocked.example.com"),
    ] {
        configuration.directive(name, value);
    }
    configuration
}

fn quoted(text: &[u8]) -> String {
    format!("\"{}\"", text.escape_ascii())
}

/// The lines of a view.
fn view(name: &str, mail: &ScannedMail<'_>) -> Vec<String> {
    let (kind, rest) = name.split_once(' ').unwrap_or((name, ""));
    match kind {
        "body" => mail.body().iter().map(quoted).collect(),
        "visible" => mail.visible_body().iter().map(quoted).collect(),
        "invisible" => mail.invisible_body().iter().map(quoted).collect(),
        "rawbody" => mail.rawbody().iter().map(quoted).collect(),
        "uris" => mail.uris().iter().map(quoted).collect(),
        "header" => mail
            .header(&HeaderSelector::parse(rest))
            .iter()
            .map(|text| quoted(text))
            .collect(),
        "eval" => {
            let words: Vec<String> = rest.split(' ').map(str::to_owned).collect();
            let (function, arguments) = words.split_first().expect("a function is named");
            let function =
                prepare(function, arguments).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            vec![function.run(mail).to_string()]
        }
        other => panic!("there is no view {other}"),
    }
}

#[test]
fn views_are_as_the_cases_say() {
    let configuration = configuration();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/views");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder of cases is readable") {
        let path = entry.expect("its entries are readable").path();
        let text = std::fs::read_to_string(&path).expect("cases are text");
        for case in text.split("======\n") {
            let (name, rest) = case.split_once('\n').expect("a case begins with a view");
            let (message, expected) = rest
                .split_once("------\n")
                .expect("a case has an expectation");
            let mail = configuration.scanned(message.as_bytes(), None);
            let found = view(name, &mail);
            let expected: Vec<&str> = expected.lines().collect();
            if found != expected {
                wrong.push(format!(
                    "{}: {name}\n{message}\nexpected {expected:#?}\nfound {found:#?}",
                    path.display()
                ));
            }
            count += 1;
        }
    }
    println!("{count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count > 30);
}
