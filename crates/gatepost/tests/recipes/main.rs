//! The recipes of the documentation, exactly as written, run by the programs that they are for.

#[path = "../support/mod.rs"]
mod support;

mod clamav;
mod exim;
mod home_assistant;
mod node_red;
mod opensmtpd;
mod postfix;

use std::path::Path;
use std::process::Command;

use support::{Gateway, call_client, root, text_of};

/// The first block without a language below a heading of the recipes' page.
fn recipe(heading: &str) -> String {
    block(heading, "")
}

/// The first block in this language below a heading of the recipes' page.
fn block(heading: &str, language: &str) -> String {
    block_of("docs/recipes.md", heading, language)
}

/// The first block in this language below a heading of a page.
fn block_of(page: &str, heading: &str, language: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
    let (_, section) = text
        .split_once(&format!("## {heading}\n"))
        .unwrap_or_else(|| panic!("{page} has {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    // Between fences every second piece is a block, and begins with the name of its language.
    let mut blocks = section.split("```").skip(1).step_by(2);
    let block = blocks.find_map(|block| {
        let (info, text) = block.split_once('\n')?;
        (info.split(' ').next() == Some(language)).then_some(text)
    });
    let block = block.unwrap_or_else(|| panic!("{heading} has a block in '{language}'"));
    block.to_owned()
}

/// The recipe with the gateway of the test in place of the default address.
fn adapted(recipe: &str, gateway: &Gateway) -> String {
    let call = format!("{} -p {}", call_client().display(), gateway.port("call"));
    recipe.replace("gatepost-call", &call)
}

/// Returns the verdict that the body of the message names, with its envelope as the reason. If a
/// recipe passes the header alone, every message is accepted.
const JUDGE: &str = r#"
return function(message)
    local text = message.body:match("\r?\n\r?\n(.*)") or ""
    local asked = text:match("verdict: (%a+)")
    if asked == nil then return "accept" end
    local from = tostring(message.sender) .. " at " .. tostring(message.address)
    local reason = from .. " to " .. table.concat(message.recipients, " ")
    return {action = asked, reason = reason, tags = {["X-Tag"] = "1"}}
end"#;

/// A gateway whose `/mail` returns the verdict that each message names.
fn gateway(folder: &Path) -> Gateway {
    let settings = "rules.paths = []\n[[scope]]\npath = \"/mail\"\nrun = [\"/judge\"]\n";
    judging_gateway(folder, settings)
}

/// A gateway that has the procedure `/judge`.
fn judging_gateway(folder: &Path, settings: &str) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    std::fs::write(procedures.join("judge.luau"), JUDGE).expect("written");
    Gateway::start_in(folder, settings)
}

/// The gateway's part of the recipe for a proxy, on a free port, handing mail on to this one.
fn proxy_settings(next_hop: u16) -> String {
    let recipe = block("Postfix, by a proxy before its queue", "toml");
    let recipe = recipe
        .replace("[\"127.0.0.1:10025\"]", "[\"127.0.0.1:0\"]")
        .replace(":10026", &format!(":{next_hop}"));
    // It names the address itself: listeners.smtp.bind
    format!("rules.paths = [\"rules.cf\"]\n# listeners.smtp.bind\n{recipe}")
}

/// Rules that know one spam, by its body.
fn write_rules(folder: &Path) {
    let rules = "rawbody BAD /^it is BAD/\nscore BAD 12.5\n";
    std::fs::write(folder.join("rules.cf"), rules).expect("written");
}

/// Sends by swaks a mail whose body names its subject; returns the conversation.
fn send(server: &str, to: &str, subject: &str, more: &[&str]) -> String {
    let body = format!("it is {subject}");
    let subject = format!("Subject: {subject}");
    let options = [
        "--helo",
        "client.example",
        "--header",
        &subject,
        "--body",
        &body,
    ];
    let more = [&options, more].concat();
    text_of(&support::swaks(server, "a@client.example", to, &more))
}

/// Runs a program that delivers a mail to its user, as a mail server runs it: with little around
/// it.
fn deliver(program: &str, arguments: &[&str], home: &Path, mail: &str) {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home);
    let output = support::feed(&mut command, mail.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Subjects of the messages in a maildir.
fn subjects(maildir: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(maildir.join("new")) else {
        return Vec::new();
    };
    let mut subjects: Vec<String> = files
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
        .filter_map(|mail| Some(mail.split_once("Subject: ")?.1.lines().next()?.to_owned()))
        .collect();
    subjects.sort();
    subjects
}

#[test]
fn procmail_sorts_by_the_verdict() {
    let home = tempfile::tempdir().expect("a folder");
    let gateway = gateway(home.path());
    let rules = format!(
        "SHELL=/bin/sh\nMAILDIR={home}\nDEFAULT={home}/Inbox/\n{}",
        adapted(&recipe("procmail"), &gateway),
        home = home.path().display(),
    );
    let file = home.path().join("procmailrc");
    std::fs::write(&file, rules).expect("written");
    let file = file.to_str().expect("UTF-8");
    for (subject, body) in [("good", "text"), ("bad", "verdict: reject")] {
        let mail = format!("From: a@example.org\nSubject: {subject}\n\n{body}\n");
        deliver("procmail", &["-m", file], home.path(), &mail);
    }
    assert_eq!(subjects(&home.path().join("Inbox")), ["good"]);
    assert_eq!(subjects(&home.path().join("Spam")), ["bad"]);
    // Without a gateway mail is not lost.
    gateway.kill();
    let mail = "From: a@example.org\nSubject: unjudged\n\ntext\n";
    deliver("procmail", &["-m", file], home.path(), mail);
    assert_eq!(subjects(&home.path().join("Inbox")), ["good", "unjudged"]);
}

#[test]
fn maildrop_sorts_by_the_verdict() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let gateway = gateway(home.path());
    for maildir in ["Maildir", "Maildir/.Spam"] {
        for part in ["cur", "new", "tmp"] {
            std::fs::create_dir_all(home.path().join(maildir).join(part)).expect("a folder");
        }
    }
    let rules = format!(
        // For root it takes the home of the password file otherwise.
        "SHELL=\"/bin/sh\"\nHOME=\"{}\"\nDEFAULT=\"$HOME/Maildir\"\n{}",
        home.path().display(),
        adapted(&recipe("maildrop"), &gateway)
    );
    let file = home.path().join("filter");
    std::fs::write(&file, rules).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("private");
    let file = file.to_str().expect("UTF-8");
    for (subject, body) in [("good", "text"), ("bad", "verdict: reject")] {
        let mail = format!("From: a@example.org\nSubject: {subject}\n\n{body}\n");
        deliver("maildrop", &[file], home.path(), &mail);
    }
    assert_eq!(subjects(&home.path().join("Maildir")), ["good"]);
    assert_eq!(subjects(&home.path().join("Maildir/.Spam")), ["bad"]);
}
