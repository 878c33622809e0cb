//! The server's user places links in its data folder, and waits for a command of root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use crate::support::{Gateway, add_user, run, text_of};

/// The user id of `daemon`; any but root's is suitable.
const SERVER_USER: u32 = 1;
const CONTENT: &str = "root's own\n";

/// A file of root's that a link leads to; only root may read it.
fn victim(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("victim");
    std::fs::write(&path, CONTENT).expect("written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
    path
}

fn expect_untouched(victim: &Path) {
    assert_eq!(std::fs::read_to_string(victim).expect("a file"), CONTENT);
    let metadata = std::fs::metadata(victim).expect("a file");
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (0, 0o600));
}

/// Replaces a file of the data folder by a link to `target`.
fn link(data: &Path, name: &str, target: &Path) {
    let _ = std::fs::remove_file(data.join(name));
    symlink(target, data.join(name)).expect("a link");
}

fn gatepost(arguments: &[&str]) -> std::process::Output {
    run(env!("CARGO_BIN_EXE_gatepost"), arguments, b"")
}

#[test]
fn commands_of_root_follow_no_link_of_the_servers_user() {
    if !super::is_root("a command of root in the folder of another user") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("opened");
    let victim = victim(folder.path());
    let data = folder.path().join("gatepost-data");
    let settings = format!(
        "user = \"daemon\"\nrules.paths = []\ndata = '{}'\n",
        data.display()
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let backup = folder.path().join("backup.db").display().to_string();
    let set = format!("data={}", data.display());
    let saved = gatepost(&["backup", &backup, "--set", &set]);
    assert!(saved.status.success(), "{}", text_of(&saved));
    chown(&data, Some(SERVER_USER), Some(SERVER_USER)).expect("given");

    for name in ["audit.log", "users-exist"] {
        link(&data, name, &victim);
        let added = add_user(&gateway, name, "secret of anna", &[]);
        expect_untouched(&victim);
        // The user is there, whatever became of the note about it.
        assert!(added.status.success(), "{}", text_of(&added));
    }
    for name in ["audit.log", "users-exist"] {
        std::fs::remove_file(data.join(name)).expect("removed");
    }
    let added = add_user(&gateway, "anna", "secret of anna", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    for name in ["audit.log", "users-exist"] {
        let owner = std::fs::metadata(data.join(name)).expect("a file").uid();
        assert_eq!(owner, SERVER_USER, "{name} is the server's");
    }
    assert_eq!(gateway.terminate(), Some(0), "it ends cleanly");

    for name in ["gatepost.lock", "gatepost.db.lock"] {
        let is_there = data.join(name).exists();
        link(&data, name, &victim);
        let restored = gatepost(&["restore", "--replace", &backup, "--set", &set]);
        assert!(!restored.status.success(), "{name}: {}", text_of(&restored));
        expect_untouched(&victim);
        std::fs::remove_file(data.join(name)).expect("removed");
        assert!(is_there, "{name} is a file of a server");
    }
    let restored = gatepost(&["restore", "--replace", &backup, "--set", &set]);
    assert!(restored.status.success(), "{}", text_of(&restored));
    let owner = std::fs::metadata(data.join("gatepost.db")).expect("a file");
    assert_eq!(owner.uid(), SERVER_USER);
    expect_untouched(&victim);
}

/// The files that `learn`, `scan` and `backup` open: the database, its log, and the learner's lock.
#[test]
fn learning_as_root_follows_no_link_of_the_servers_user() {
    const SPAM: &[u8] = b"Subject: win\r\n\r\na lottery winner takes pills\r\n";
    if !super::is_root("a command of root in the folder of another user") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("opened");
    let victim = victim(folder.path());
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    let program = env!("CARGO_BIN_EXE_gatepost");
    let learn = |data: &Path| {
        let set = format!("data={}", data.display());
        let what = [
            "learn",
            "--spam",
            "-",
            "--set",
            &set,
            "--set",
            "rules.paths=[]",
        ];
        run(program, &what, SPAM)
    };
    // Another server's database, which root may change: nothing but the link is wrong with it.
    for made in [&data, &other] {
        let learned = learn(made);
        assert!(learned.status.success(), "{}", text_of(&learned));
    }
    chown(&data, Some(SERVER_USER), Some(SERVER_USER)).expect("given");
    let foreign = other.join("gatepost.db");
    let before = std::fs::read(&foreign).expect("a database");
    let backup = folder.path().join("backup.db").display().to_string();
    let set = format!("data={}", data.display());
    for target in [&foreign, &victim] {
        for name in ["gatepost.db", "gatepost.db-wal", "gatepost.db-shm"] {
            let _ = std::fs::remove_file(data.join(name));
        }
        link(&data, "gatepost.db", target);
        let commands = [learn(&data), gatepost(&["backup", &backup, "--set", &set])];
        for refused in commands {
            let said = text_of(&refused);
            assert!(!refused.status.success(), "{said}");
            assert!(said.contains("follows no symbolic link"), "{said}");
        }
        assert_eq!(std::fs::read(&foreign).expect("a database"), before);
        expect_untouched(&victim);
        std::fs::remove_file(data.join("gatepost.db")).expect("removed");
    }
    let new = folder.path().join("new");
    for name in ["learner.lock", "gatepost.db-wal", "gatepost.db-shm"] {
        for target in [&victim, &new] {
            link(&data, name, target);
            let learned = learn(&data);
            assert!(!learned.status.success(), "{name}: {}", text_of(&learned));
            expect_untouched(&victim);
            assert!(!new.exists(), "{name}");
            std::fs::remove_file(data.join(name)).expect("removed");
        }
    }
    // A link above the folder is the operator's.
    let by_link = folder.path().join("link");
    symlink(&data, &by_link).expect("a link");
    let learned = learn(&by_link);
    assert!(learned.status.success(), "{}", text_of(&learned));
    let lock = std::fs::metadata(data.join("learner.lock")).expect("a file");
    assert_eq!(lock.uid(), SERVER_USER, "the server's learner can open it");
}
