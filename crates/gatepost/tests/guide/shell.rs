//! Commands of the guide, page by page, as a reader enters them: against a server with its default
//! ports, in a network of its own, so that the ports are free and nothing leaves the machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::blocks::Block;
use crate::runnable;
use crate::support::{call_client, text_of};

const MESSAGE: &str = "From: anna@example.org\nTo: ben@example.org\nSubject: tea\n\
    Date: Sat, 21 Nov 2026 10:00:00 +0000\n\
    Message-ID: <1@example.org>\n\nShall we meet on Thursday?\n";

/// Before the commands of a page. The server's output goes to a file, and it ends with the shell.
const PRELUDE: &str = r#"
ip link set lo up
trap 'kill $(jobs -p) 2>/dev/null' EXIT
gatepost serve $SERVE_OPTIONS >serve.log 2>&1 &
server=$!
until grep -q '^  dashboard' serve.log; do
    kill -0 $server || { cat serve.log; exit 1; }
    sleep 0.05
done
# What is asked for at a terminal: passwords.
exec < <(while echo secret; do sleep 0.5; done)
curl() { command curl --fail-with-body -sS "$@"; }
until_ended() { timeout --signal INT 2 bash -c "$1" || [ $? = 124 ]; }
set -e
"#;

/// The longest that the commands of a page may take: generous, so that a busy machine fails
/// nothing.
const PAGE_SECONDS_MAX: &str = "300";

/// A shell in a network of its own.
fn isolated() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    // A command that does not end fails the test, instead of holding it up.
    command.args(["--net", "timeout", PAGE_SECONDS_MAX, "bash", "-c"]);
    command
}

/// Files that the guide's commands name.
fn write_files(folder: &Path) {
    for maildir in ["Maildir", "Maildir/.Junk"] {
        for part in ["cur", "new", "tmp"] {
            fs::create_dir_all(folder.join(maildir).join(part)).expect("a folder");
        }
    }
    let mbox = format!("From anna@example.org Sat Nov 21 10:00:00 2026\n{MESSAGE}\n");
    for (name, text) in [
        ("message", MESSAGE),
        ("message.eml", MESSAGE),
        ("folder/1.eml", MESSAGE),
        ("spam/1.eml", MESSAGE),
        ("Maildir/new/1", MESSAGE),
        ("inbox.mbox", &mbox),
        ("archive/2025.mbox", &mbox),
        ("gatepost.toml", ""),
        ("my.cf", "score MISSING_SUBJECT 1\n"),
        ("rules/my.cf", "body CHEAP /cheap watches/i\n"),
        ("secret", "secret\n"),
        ("log", "a line\n"),
        ("hall.jpg", "a picture\n"),
        (
            "procedures/mail/large.luau",
            "return function(message)\n    return \"accept\"\nend\n",
        ),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("written");
    }
}

/// The commands of a page's blocks, in order.
fn script(blocks: &[Block]) -> String {
    let mut script = PRELUDE.to_owned();
    for block in blocks {
        // A write to a string succeeds.
        let _ = writeln!(script, "echo '== {}'", block.place());
        match block.note.as_str() {
            "" => script += &block.text,
            "streams" => {
                for line in block.text.lines() {
                    let quoted = line.replace('\'', r"'\''");
                    let _ = writeln!(script, "until_ended '{quoted}'");
                }
            }
            note => panic!("{}: unknown note {note:?}", block.place()),
        }
    }
    script
}

fn run(page: &str, blocks: &[Block]) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let programs = Path::new(env!("CARGO_BIN_EXE_gatepost")).with_file_name("");
    let call = call_client().with_file_name("");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!(
        "{}:{}:{path}:/usr/sbin:/sbin",
        programs.display(),
        call.display()
    );
    let output = isolated()
        .arg(script(blocks))
        .env("PATH", path)
        .env("HOME", folder.path())
        .env(
            "SERVE_OPTIONS",
            "--config gatepost.toml --set rules.warm_up=false",
        )
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare (util-linux) runs");
    if output.status.success() {
        return Ok(());
    }
    let log = fs::read_to_string(folder.path().join("serve.log")).unwrap_or_default();
    let log: Vec<&str> = log.lines().rev().take(10).collect();
    Err(format!(
        "{page}: {:?}\n{}\nthe server's log, latest first:\n{}",
        output.status.code(),
        text_of(&output),
        log.join("\n")
    ))
}

#[test]
fn commands_behave_as_the_guide_describes() {
    let can_isolate = isolated()
        .arg("PATH=$PATH:/usr/sbin:/sbin ip link set lo up")
        .status();
    if !can_isolate.is_ok_and(|status| status.success()) {
        eprintln!(
            "\n*** NETWORK NAMESPACES CANNOT BE MADE HERE: the guide's commands are not run. ***\n"
        );
        return;
    }
    let mut pages: BTreeMap<String, Vec<Block>> = BTreeMap::new();
    for block in runnable("sh") {
        pages.entry(block.page.clone()).or_default().push(block);
    }
    let failed: Vec<String> = pages
        .iter()
        .filter_map(|(page, blocks)| run(page, blocks).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
