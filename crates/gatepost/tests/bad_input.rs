//! Bad input gets its protocol's error, and never disturbs another connection.

mod support;

use std::fs;
use std::path::Path;

use support::cases::blocks;
use support::{Client, Gateway, root, run, send_raw_greeted, text_of};

/// One case of `tests/data/bad-input/*.txt`: `listener`, the bytes to send (escapes as in Rust
/// strings, and `\{3:abc}` for three times `abc`), and a part of the answer; an empty part means
/// that closing without a reply is right.
struct Case {
    name: String,
    listener: String,
    bytes: Vec<u8>,
    expected: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bad-input");
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a file").path();
        let listener = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        for block in blocks(&path) {
            cases.push(Case {
                listener: listener.clone(),
                bytes: block.bytes("send"),
                expected: block.bytes("expect"),
                name: block.name,
            });
        }
    }
    assert!(cases.len() >= 20, "the cases are there");
    cases
}

#[test]
fn each_malformed_input_gets_its_answer_and_disturbs_no_client() {
    let mut gateway = Gateway::start("");
    let mut witness = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-t", "witness", "-d"],
    );
    witness.await_line("SUBACK");
    for case in cases() {
        let answer = send_raw_greeted(&gateway, &case.listener, b"", &case.bytes);
        let end = answer
            .get(answer.len().saturating_sub(300)..)
            .unwrap_or_default();
        assert!(
            case.expected.is_empty() || memchr_find(&answer, &case.expected),
            "{} ({}): it ends with \"{}\"",
            case.name,
            case.listener,
            end.escape_ascii()
        );
        assert!(gateway.is_running(), "{} ({})", case.name, case.listener);
    }
    // The connection that was open all the time still works.
    let output = run(
        "mosquitto_pub",
        &[
            "-p",
            &gateway.port("mqtt"),
            "-t",
            "witness",
            "-m",
            "undisturbed",
            "-q",
            "1",
        ],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    witness.await_line("undisturbed");
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

fn memchr_find(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[test]
fn noise_on_every_listener_disturbs_no_client() {
    // A fixed sequence (xorshift), so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = |length: usize| -> Vec<u8> {
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    };
    let mut gateway = Gateway::start("");
    for round in 0..20 {
        for listener in [
            "smtp", "lmtp", "milter", "pop3", "spamd", "call", "mqtt", "http",
        ] {
            send_raw_greeted(&gateway, listener, b"", &noise(1 + round * 97));
            assert!(gateway.is_running(), "{listener}, round {round}");
        }
    }
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
    let output = run("curl", &["-sf", &gateway.url("/healthz")], b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn a_wrong_config_is_reported_with_file_line_and_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gatepost.toml");
    fs::write(
        &config,
        "data = \"d\"\nlisteners.mqtt.bnd = [\"127.0.0.1:1\"]\n\
         listeners.smtp.bind = [\"everywhere\"]\n\n[[scope]]\npath = \"/mail\"\n\
         listeners = [\"smtp\"]\nrun = [\"/sizechek\"]\n",
    )
    .expect("a config");
    let gatepost = env!("CARGO_BIN_EXE_gatepost");
    let file = config.to_str().expect("a path in UTF-8");
    let output = run(gatepost, &["check", "--config", file], b"");
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(78), "{text}");
    for part in [
        "gatepost.toml:2: listeners.mqtt.bnd: unknown key; did you mean 'bind'?",
        "gatepost.toml:3: listeners.smtp.bind",
        "'everywhere' is not an address to listen on",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    fs::write(
        &config,
        "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/sizechek\"]\n",
    )
    .expect("a config");
    let output = run(gatepost, &["check", "--config", file], b"");
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(78), "{text}");
    assert!(text.contains("gatepost.toml:4: "), "{text}");
    assert!(
        text.contains("/sizecheck"),
        "the fix names what exists: {text}"
    );
}

#[test]
fn the_errors_of_pages_are_reported_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("pages");
    fs::create_dir_all(pages.join("below")).expect("a folder");
    let page = |name: &str, text: &str| fs::write(pages.join(name), text).expect("a page");
    page(
        "good.html",
        "{{ live('a', 'b.c') | round(1) }}{{ request.user }}",
    );
    page(
        "below/wrong.html",
        "<p>\n{% if x %}{{ live('alarms/#') }}{% endif %}",
    );
    page("_part.html", "\n\n{{ live('x').json.text }}");
    page("syntax.html", "{% if %}");
    let set = format!("pages.path={}", pages.display());
    let arguments = ["check", "--set", &set, "--set", "rules.paths=[]"];
    let check = || run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    let output = check();
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(78), "{text}");
    for part in [
        "below/wrong.html:2: ",
        "live_list()",
        "_part.html:3: ",
        "syntax.html:1: ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("good.html"), "{text}");
    for name in ["below/wrong.html", "_part.html", "syntax.html"] {
        fs::remove_file(pages.join(name)).expect("removed");
    }
    let output = check();
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn an_address_in_use_is_reported() {
    let gateway = Gateway::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let address = gateway.address("mqtt").to_string();
    // The others get ports of their own: their usual ones may be in use by another server, of which
    // would then be reported instead.
    let mut settings = vec![format!("listeners.mqtt.bind=[\"{address}\"]")];
    let others = ["smtp", "lmtp", "milter", "pop3", "spamd", "call", "http"];
    settings.extend(others.map(|name| format!("listeners.{name}.bind=[\"127.0.0.1:0\"]")));
    let output = support::command(env!("CARGO_BIN_EXE_gatepost"))
        .arg("serve")
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains(&address) && text.contains("mqtt"), "{text}");
    assert!(root().join("README.md").exists());
}
