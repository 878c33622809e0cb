//! Files outside of the data folder that the sandbox must permit.

use super::support::{Gateway, await_some, post};

/// A schema that a scope names, and one of the settings, are read again by a reload.
#[test]
fn schemas_in_another_folder_are_read_under_the_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    // Not among the temporary folders, which the server may use anyway.
    let elsewhere = |name: &str| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("another folder");
        let file = folder.path().join(name);
        std::fs::write(&file, r#"{"type": "number"}"#).expect("written");
        (folder, file)
    };
    let (_first, of_scope) = elsewhere("scope.json");
    let (_second, of_table) = elsewhere("table.json");
    let settings = format!(
        "sandbox = \"required\"\nrules.paths = []\n\
         [procedure.\"/jsoncheck\"]\nschema = \"{}\"\n\
         [[scope]]\npath = \"/a\"\ntopics = [\"a\"]\nrun = [\"/jsoncheck -schema {}\"]\n\
         [[scope]]\npath = \"/b\"\ntopics = [\"b\"]\nrun = [\"/jsoncheck\"]\n",
        of_table.display(),
        of_scope.display()
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let is_accepted = |topic: &str, body: &str| {
        let answer = post(&gateway, topic, body);
        answer.starts_with("HTTP/1.1 200")
    };
    for topic in ["a", "b"] {
        assert!(is_accepted(topic, "1"), "{topic}");
        assert!(!is_accepted(topic, "\"x\""), "{topic}");
    }
    for file in [&of_scope, &of_table] {
        std::fs::write(file, r#"{"type": "string"}"#).expect("written");
    }
    gateway.signal("HUP");
    for topic in ["a", "b"] {
        await_some("the new schema", || {
            (is_accepted(topic, "\"x\"") && !is_accepted(topic, "1")).then_some(())
        });
    }
}

/// Runs the rest of its arguments on a kernel without Landlock: a seccomp filter answers
/// `landlock_create_ruleset` (444 on every architecture) with ENOSYS.
const WITHOUT_LANDLOCK: &str = "\
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 + 38), (0x06, 0, 0, 0x7FFF0000)]
steps = ctypes.create_string_buffer(b\"\".join(struct.pack(\"HBBI\", *step) for step in code))
program = struct.pack(\"HxxxxxxQ\", len(code), ctypes.addressof(steps))
kernel = ctypes.CDLL(None, use_errno=True)
assert kernel.prctl(38, 1, 0, 0, 0) == 0
assert kernel.prctl(22, 2, program) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
";

fn start_without_landlock(sandbox: &str) -> Result<Gateway, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("set -- python3 -c '{WITHOUT_LANDLOCK}' \"$@\"");
    let settings = format!("rules.paths = []\n{sandbox}");
    let mut gateway = Gateway::try_after(&script, folder.path(), &settings)?;
    gateway.keep(folder);
    Ok(gateway)
}

#[test]
fn a_sandbox_that_is_required_is_complete_or_the_start_is_refused() {
    let refused = start_without_landlock("sandbox = \"required\"\n");
    let log = refused.err().expect("a refusal");
    let reason = "sandbox = \"required\": the kernel does not provide it: Landlock: ";
    assert!(log.contains(reason), "{log}");
}

/// On is the default: the server starts with the available parts, and reports the missing ones.
#[test]
fn without_landlock_the_default_sandbox_is_incomplete_and_reported() {
    for setting in ["", "sandbox = \"on\"\n"] {
        let gateway = start_without_landlock(setting).expect("a start");
        let answer = post(&gateway, "a", "x");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let log = gateway.log();
        let warning = "the sandbox is incomplete: Landlock: ";
        assert!(log.contains(warning), "{log}");
        assert!(!log.contains("seccomp: "), "seccomp is there: {log}");
    }
}

#[test]
fn a_sandbox_that_is_off_confines_nothing() {
    for (setting, filters) in [("", "2"), ("sandbox = \"off\"\n", "0")] {
        let gateway = Gateway::start(&format!("rules.paths = []\n{setting}"));
        assert_eq!(gateway.process_status("Seccomp:"), filters, "{setting}");
        let is_reported = gateway.log().contains("confined by Landlock and seccomp");
        assert_eq!(is_reported, filters == "2", "{setting}");
    }
}
