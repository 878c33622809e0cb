//! `gatepost scan` and `gatepost learn` on a terminal, with Ctrl-C and on a full disk.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{run, text_of};

const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

const MAIL: &[u8] = b"Subject: offer\n\ncheap watches\n";

/// A folder with rules that all hit one mail, whose names do not fit into a line.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rule = |number| format!("body A_RATHER_LONG_NAME_{number} /cheap watches/\n");
    let rules: String = (0..8).map(rule).collect();
    std::fs::write(folder.path().join("rules.cf"), rules).expect("written");
    std::fs::write(folder.path().join("mail.eml"), MAIL).expect("written");
    folder
}

/// The output of a command at a terminal, whose lines end in CR LF.
fn at_terminal(folder: &Path, command: &str) -> String {
    let output = Command::new("script")
        .args(["-qefc", command, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("script (util-linux) runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_scan_has_colours_wrapped_lines_and_a_bar_at_a_terminal_only() {
    let folder = folder();
    let scan = format!("{GATEPOST} scan --rules rules.cf mail.eml");
    let shown = at_terminal(folder.path(), &format!("stty cols 80; {scan}"));
    assert!(shown.contains("\u{1b}[1;31mspam\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("messages/s"), "the bar: {shown:?}");
    let names = || shown.lines().filter(|line| line.contains("A_RATHER"));
    assert!(names().count() > 2, "{shown:?}");
    assert!(names().all(|line| line.len() < 100), "{shown:?}");

    let piped = at_terminal(folder.path(), &format!("{scan} 2>/dev/null | cat"));
    assert!(!piped.contains('\u{1b}'), "{piped:?}");
    assert_eq!(piped.lines().count(), 1, "{piped:?}");
    let plain = at_terminal(folder.path(), &format!("NO_COLOR=1 {scan} 2>/dev/null"));
    assert!(plain.contains("spam") && !plain.contains("[1;31m"));
}

/// More results than a pipe holds, so that a command waits for their reader.
const MANY: usize = 5000;

/// Presses Ctrl-C at a command that waits for the reader of `stream`, and reads the rest.
fn interrupted(
    mut child: Child,
    stream: impl FnOnce(&mut Child) -> Box<dyn Read>,
) -> (Option<i32>, String) {
    let mut stream = stream(&mut child);
    let mut said = vec![0; 1];
    stream.read_exact(&mut said).expect("a first result");
    let signal = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signal.expect("kill runs").success());
    stream.read_to_end(&mut said).expect("read");
    drop(stream);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&said).into_owned() + &text_of(&output);
    (output.status.code(), said)
}

#[test]
fn ctrl_c_keeps_and_reports_what_was_scanned() {
    let folder = folder();
    let mail = String::from_utf8_lossy(MAIL);
    let mbox = format!("From a@example.org Sat Nov 21 10:00:00 2026\n{mail}\n").repeat(MANY);
    std::fs::write(folder.path().join("many.mbox"), mbox).expect("written");
    let child = Command::new(GATEPOST)
        .args(["scan", "--rules", "rules.cf", "many.mbox"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let (code, said) = interrupted(child.expect("gatepost starts"), |child| {
        Box::new(child.stdout.take().expect("piped"))
    });
    let results = said.lines().filter(|line| line.starts_with("spam")).count();
    assert_eq!(code, Some(130), "{results} results");
    assert!(results < MANY, "all were scanned");
    let summary = format!("interrupted: {results} messages, {results} spam");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains(&summary), "{summary}: {last}");
}

#[test]
fn ctrl_c_keeps_and_reports_what_was_learned() {
    let folder = folder();
    std::fs::write(folder.path().join("last.eml"), "Subject: last\n\nlast\n").expect("written");
    let settings = ["--set", "data=data", "--set", "rules.paths=[]"];
    let status = || {
        let command = Command::new(GATEPOST)
            .args(["learn", "--status"])
            .args(settings)
            .current_dir(folder.path())
            .output();
        text_of(&command.expect("it runs"))
    };
    assert!(status().contains("which is new"));
    let missing = (0..MANY).map(|number| format!("there-is-no-such-mail-{number}.eml"));
    let child = Command::new(GATEPOST)
        .args(["learn", "--quiet", "--spam"])
        .args(settings)
        .arg("mail.eml")
        .args(missing)
        .arg("last.eml")
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let (code, said) = interrupted(child.expect("gatepost starts"), |child| {
        Box::new(child.stderr.take().expect("piped"))
    });
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("the messages learned so far are kept"),
        "{said}"
    );
    assert!(status().contains("1 spam, 0 ham"), "{}", status());
}

#[test]
fn learning_names_the_database_that_it_creates() {
    let folder = folder();
    let data = format!("data={}", folder.path().join("data").display());
    let mail = folder.path().join("mail.eml").display().to_string();
    let learn = |more: &[&str]| {
        let settings = ["learn", "--set", &data, "--set", "rules.paths=[]"];
        let output = run(GATEPOST, &[&settings, more].concat(), b"");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let first = learn(&["--quiet", "--ham", &mail]);
    assert!(first.contains("data/gatepost.db, which is new"), "{first}");
    let second = learn(&["--ham", &mail]);
    assert!(second.contains("data/gatepost.db\n"), "{second}");
    assert_eq!(learn(&["--status"]), "");
}

#[test]
fn results_that_cannot_be_written_are_an_error_and_a_closed_pipe_is_none() {
    let folder = folder();
    let shell = |redirection: &str| {
        let scan = format!("{GATEPOST} scan --rules rules.cf mail.eml {redirection}");
        let mut command = Command::new("bash");
        command.args(["-c", &scan]).current_dir(folder.path());
        let output = command.output().expect("a shell");
        (output.status.code(), text_of(&output))
    };
    let (code, said) = shell("> /dev/full");
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("standard output: No space left"), "{said}");
    let (_, said) = shell("| head -n 0");
    assert_eq!(said, "");
}
