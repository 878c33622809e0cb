//! `gatepost-call` as XMail's filter: lines of a filter file as XMail reads them, its macros
//! expanded, its spool files, and its reading of the exit code.

mod support;

use std::path::Path;
use std::process::Command;

use support::{Gateway, call_client, root};

const JUDGE: &str = r#"
return function(message)
    local asked = message.body:match("verdict: (%a+)")
    if asked == nil then return "accept" end
    return {action = asked, reason = "asked to " .. asked, tags = {["X-Tag"] = "1"}}
end"#;

/// The action of XMail after a filter.
#[derive(Debug, PartialEq, Eq)]
struct Filtered {
    outcome: Outcome,
    /// Whether later filters run.
    stops: bool,
    /// The text in the .rej file.
    text: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passes,
    Rejected,
    RejectedFrozen,
    RejectedWithNotice,
    Reloaded,
}

/// Quoted fields, separated by TABs.
fn fields(line: &str) -> Vec<String> {
    let unquoted = |field: &str| field.trim_matches('"').to_owned();
    line.split('\t').map(unquoted).collect()
}

/// `@@NAME` as a whole argument, `$(NAME)` anywhere in one.
fn expanded(field: &str, macros: &[(&str, &str)]) -> String {
    if let Some(name) = field.strip_prefix("@@") {
        let found = macros.iter().find(|(known, _)| *known == name);
        return found.map_or_else(String::new, |(_, value)| (*value).to_owned());
    }
    let mut text = field.to_owned();
    for (name, value) in macros {
        text = text.replace(&format!("$({name})"), value);
    }
    text
}

/// Runs the line of a filter file on a spool file.
fn filter(line: &str, gateway: &Gateway, spool: &Path, is_offline: bool) -> Filtered {
    let file = spool.to_str().expect("UTF-8");
    let macros = [
        ("FILE", file),
        ("USERAUTH", "-"),
        ("FROM", "otto@example.org"),
        ("RCPT", "anna@example.org"),
        ("REMOTEADDR", "[192.0.2.9]:4012"),
        ("LOCALADDR", "[192.0.2.1]:25"),
    ];
    let words: Vec<String> = fields(line)
        .iter()
        .map(|field| expanded(field, &macros))
        .collect();
    assert_eq!(words[0], "gatepost-call");
    let status = Command::new(call_client())
        .args(["--server", &gateway.address("call").to_string()])
        .args(&words[1..])
        .status()
        .expect("it runs");
    let code = status.code().expect("an exit code");
    let stops = code & 16 != 0;
    let outcome = match (is_offline, code & !16) {
        (true, 4) | (false, 3) => Outcome::Rejected,
        (true, 5) => Outcome::RejectedFrozen,
        (true, 6) => Outcome::RejectedWithNotice,
        (true, 7) => Outcome::Reloaded,
        _ => Outcome::Passes,
    };
    let text = std::fs::read_to_string(spool.with_extension("rej")).ok();
    Filtered {
        outcome,
        stops,
        text,
    }
}

/// The two heads that XMail writes above a message.
fn head(is_offline: bool) -> &'static str {
    if is_offline {
        "[192.0.2.9]:4012;[192.0.2.1]:25;Sat, 21 Nov 2026 08:00:00 +0000\r\nexample.org\r\n\
         S1A2B\r\n\
         MAIL FROM:<otto@example.org>\r\nRCPT TO:<anna@example.org>\r\n<<MAIL-DATA>>\r\n"
    } else {
        "client.example;[192.0.2.9]:4012;mx.example;[192.0.2.1]:25;Sat, 21 Nov 2026 08:00:00 \
         +0000;XMail\r\n\
         MAIL FROM:<otto@example.org>\r\nRCPT TO:<anna@example.org> {ra=anna@example.org}\r\n\
         RCPT TO:<bert@example.org> {ra=bert@example.org}\r\n<<MAIL-DATA>>\r\n"
    }
}

/// The documentation contains the lines that people paste; this is the command that is run.
fn documented(option: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/calling.md")).expect("the page");
    let wanted = format!("\"--exit\"\t\"{option}\"");
    let line = page.lines().find(|line| line.contains(&wanted));
    line.unwrap_or_else(|| panic!("docs/calling.md has a line for {option}"))
        .to_owned()
}

#[test]
fn the_documented_lines_work_with_xmail() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    std::fs::create_dir(&procedures).expect("a folder");
    std::fs::write(procedures.join("judge.luau"), JUDGE).expect("written");
    let gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = []\n[[scope]]\npath = \"/mail\"\nrun = [\"/judge\"]\n",
    );
    let rejection = |verdict: &str| Some(format!("asked to {verdict}\r\n"));
    for (is_offline, verdict, outcome, text) in [
        (true, "accept", Outcome::Passes, None),
        (true, "tag", Outcome::Reloaded, None),
        (
            true,
            "reject",
            Outcome::RejectedWithNotice,
            rejection("reject"),
        ),
        (true, "drop", Outcome::Rejected, rejection("drop")),
        (
            true,
            "quarantine",
            Outcome::RejectedFrozen,
            rejection("quarantine"),
        ),
        (true, "defer", Outcome::Passes, None),
        (false, "accept", Outcome::Passes, None),
        (false, "tag", Outcome::Passes, None),
        (false, "reject", Outcome::Rejected, rejection("reject")),
        (false, "drop", Outcome::Rejected, rejection("drop")),
    ] {
        let mode = if is_offline {
            "xmail-offline"
        } else {
            "xmail-smtp"
        };
        let line = documented(mode);
        for stop in [false, true] {
            let line = if stop {
                line.replace("\t\"/mail\"", "\t\"--stop\"\t\"/mail\"")
            } else {
                line.clone()
            };
            let spool = tempfile::tempdir().expect("a spool");
            let file = spool.path().join("1032595200");
            let mail = format!("Subject: hi\r\n\r\nverdict: {verdict}\r\n");
            std::fs::write(&file, [head(is_offline), &mail].concat()).expect("spooled");
            let filtered = filter(&line, &gateway, &file, is_offline);
            assert_eq!(filtered.outcome, outcome, "{mode} {verdict}");
            // XMail has no result for "later": the message passes, and XMail continues with it.
            assert_eq!(
                filtered.stops,
                stop && verdict != "defer",
                "{mode} {verdict}"
            );
            assert_eq!(filtered.text, text, "{mode} {verdict}");
            let after = std::fs::read_to_string(&file).expect("the file");
            assert!(
                after.starts_with(head(is_offline)),
                "{mode} {verdict}: {after}"
            );
            assert!(
                !after.replace("\r\n", "").contains('\n'),
                "{mode} {verdict}"
            );
            let is_marked = after.contains("<<MAIL-DATA>>\r\nX-Tag: 1\r\n");
            assert_eq!(is_marked, filtered.outcome == Outcome::Reloaded, "{after}");
        }
    }
}

#[test]
fn an_unreachable_gateway_passes_mail_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), "rules.paths = []\n");
    let address = gateway.address("call").to_string();
    gateway.kill();
    let file = folder.path().join("spooled");
    std::fs::write(&file, [head(true), "Subject: hi\r\n\r\n"].concat()).expect("spooled");
    for (options, expected) in [
        (&[][..], 202),
        (&["--on-failure", "reject"], 6),
        (&["--on-failure", "reject", "--silent", "--stop"], 20),
    ] {
        let status = Command::new(call_client())
            .args(["--server", &address, "--exit", "xmail-offline"])
            .args(options)
            .arg("/mail")
            .arg(&file)
            .status()
            .expect("it runs");
        assert_eq!(status.code(), Some(expected), "{options:?}");
    }
}

#[test]
fn the_line_of_the_old_client_signs_a_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "rules.paths = []\n[procedure.\"/signature\"]\ntext = \"Anna, Office\"\n";
    let gateway = Gateway::start_in(folder.path(), settings);
    let file = folder.path().join("spooled");
    let mail = "Subject: hi\r\n\r\nhello\r\n";
    std::fs::write(&file, [head(true), mail].concat()).expect("spooled");
    let call = || {
        let status = Command::new(call_client())
            .args(["-s", "127.0.0.1", "-p", &gateway.port("call")])
            .args(["--exit", "xmail-offline", "/signature", "-file"])
            .arg(&file)
            .args(["-user", "anna"])
            .status();
        status.expect("it runs").code()
    };
    assert_eq!(call(), Some(7), "rewritten");
    let signed = std::fs::read_to_string(&file).expect("the file");
    let expected = [
        head(true),
        "Subject: hi\r\n\r\nhello\r\n-- \r\nAnna, Office\r\n",
    ]
    .concat();
    assert_eq!(signed, expected);
    assert_eq!(call(), Some(0), "it is signed already");
}
