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
