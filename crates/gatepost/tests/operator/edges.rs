//! Edge cases of the command line and of the API that users reported.

use std::process::{Command, Stdio};

use super::support::{Gateway, run, text_of};
use super::{STATUS, curl};

#[test]
fn the_servers_own_topics_take_no_publication_over_http() {
    let gateway = Gateway::start("rules.paths = []\n");
    for (path, method) in [
        ("/topics/$SYS/broker/uptime", "POST"),
        ("/topics/$SYS/broker/uptime", "PUT"),
        ("/topics/$other", "POST"),
    ] {
        let post = [&STATUS[..], &["-X", method, "-d", "x"]].concat();
        assert_eq!(curl(&gateway, path, &post), "403", "{method} {path}");
    }
    let ours = [&STATUS[..], &["-d", "x"]].concat();
    assert_eq!(curl(&gateway, "/topics/own/$topic", &ours), "200");
}

#[test]
fn a_wildcard_is_no_topic_to_publish_to() {
    let gateway = Gateway::start("rules.paths = []\n");
    let port = gateway.port("mqtt");
    let publish = ["pub", "-p", &port, "-t", "a/#", "-m", "x"];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &publish, b"");
    assert_eq!(output.status.code(), Some(64), "{}", text_of(&output));
    assert!(
        text_of(&output).contains("wildcard"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let gatepost = env!("CARGO_BIN_EXE_gatepost");
    for command in [
        "completions bash",
        "bench peers",
        "config --explain",
        "procedures types",
    ] {
        let script = format!("{gatepost} {command} | head -n 1 >/dev/null");
        let output = Command::new("bash").args(["-c", &script]).output();
        let said = text_of(&output.expect("a shell"));
        assert!(
            !said.contains("panicked") && !said.contains("Broken pipe"),
            "{command}: {said}"
        );
    }
}

#[test]
fn a_trial_of_a_procedure_that_fails_fails_without_colours_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let trial = |code: &str| {
        let file = folder.path().join("tried.luau");
        std::fs::write(&file, code).expect("written");
        let file = file.display().to_string();
        let arguments = ["procedures", "test", &file, "-"];
        let output = run(
            env!("CARGO_BIN_EXE_gatepost"),
            &arguments,
            b"Subject: x\n\nx\n",
        );
        (output.status.code(), text_of(&output))
    };
    let (code, said) = trial("return function() error('boom') end");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("tried.luau:1: boom") && !said.contains('\u{1b}'),
        "{said}"
    );
    let (code, said) = trial("return function() return 'reject', 'meant' end");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = trial("local verdict = 'rejct' return function() return verdict, 'no' end");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no verdict is named 'rejct'"), "{said}");
}

#[test]
fn misspelt_verdicts_and_fields_are_found_before_they_accept_mail() {
    let folder = tempfile::tempdir().expect("a folder");
    let procedures = folder.path().join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code =
        "return function(message)\n  if message.subjct then return \"rejct\", \"spam\" end\nend";
    std::fs::write(procedures.join("strict.luau"), code).expect("written");
    let settings = format!(
        "procedures.path = \"{}\"\nrules.paths = []\n[[scope]]\npath = \"/mail\"\n\
         listeners = [\"smtp\"]\nrun = [\"/strikt\", \"/strict\"]\n",
        procedures.display()
    );
    let config = folder.path().join("gatepost.toml");
    std::fs::write(&config, settings).expect("written");
    let config = config.display().to_string();
    let output = run(
        env!("CARGO_BIN_EXE_gatepost"),
        &["check", "--config", &config],
        b"",
    );
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(78), "{said}");
    for part in [
        "strict.luau:2: 'rejct' is not a verdict; did you mean 'reject'?",
        "strict.luau:2: a message has no 'subjct'; did you mean 'subject'?",
        "there is no procedure /strikt; did you mean /strict?",
    ] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}

/// Runs `gatepost check` on this config in the folder; the exit code and the output.
fn check(folder: &std::path::Path, config: &str) -> (Option<i32>, String) {
    let file = folder.join("gatepost.toml");
    std::fs::write(&file, config).expect("written");
    let checked = Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(["check", "--config"])
        .arg(&file)
        .current_dir(folder)
        .output()
        .expect("it runs");
    (checked.status.code(), text_of(&checked))
}

#[test]
fn check_reports_mistakes_of_settings_and_of_procedures_together() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("procedures")).expect("a folder");
    let code = "return function(message) return (";
    std::fs::write(folder.path().join("procedures/broken.luau"), code).expect("written");
    let scope = "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
                 run = [\"/sizechek\", \"/broken\", \"noop.luau\"]\n";
    for mistake in ["dta = \"x\"\n", "listeners.smtp.bind = [\"0.0.0.0:25\"]\n"] {
        let (code, said) = check(folder.path(), &format!("{mistake}{scope}"));
        assert_eq!(code, Some(78), "{said}");
        let key = mistake.split(' ').next().expect("a key");
        for part in [
            key,
            "there is no procedure /sizechek; did you mean /sizecheck?",
            "there is no procedure noop.luau; its name has no .luau: \"/noop\"",
            "procedures/broken.luau:1: ",
            "the procedure /broken cannot be used, since procedures/broken.luau has an error",
        ] {
            assert!(said.contains(part), "{part:?} is missing in\n{said}");
        }
    }

    let second = "[[scope]]\npath = \"/b\"\ntopics = \"b/#\"\nrun = [\"/noop\"]\n";
    let first = scope.replace("smtp", "smtpp");
    let (_, said) = check(folder.path(), &format!("data = 5\n{first}{second}"));
    for part in [
        "gatepost.toml:1: data: 5 is not possible here; write a path in quotes",
        "scope.0.listeners: no listener is named 'smtpp'",
        "gatepost.toml:8: scope.1.topics: \"b/#\" is not possible here; write a list in brackets",
    ] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
    assert!(
        !said.contains("there is no procedure"),
        "scopes are unknown\n{said}"
    );
}

#[test]
fn a_user_without_a_password_makes_no_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let added = Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(["user", "add", "anna"])
        .stdin(Stdio::null())
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = text_of(&added);
    assert_eq!(added.status.code(), Some(66), "{said}");
    assert!(said.contains("the password cannot be read"), "{said}");
    let data = folder.path().join("gatepost-data");
    assert!(!data.exists(), "{said}");
}
