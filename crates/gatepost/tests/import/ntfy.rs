//! ntfy's server.yml and its user database, whose tables are made here.

use std::fs;
use std::path::Path;

use super::import;
use super::support::{Gateway, free_port, run, text_of};

/// The tables that ntfy 2 has.
const NTFY_SCHEMA: &str = "
    CREATE TABLE user (
        id TEXT PRIMARY KEY, tier_id TEXT, user TEXT NOT NULL, pass TEXT NOT NULL,
        role TEXT CHECK (role IN ('anonymous', 'admin', 'user')) NOT NULL,
        prefs JSON NOT NULL DEFAULT '{}', sync_topic TEXT NOT NULL
    );
    CREATE TABLE user_access (
        user_id TEXT NOT NULL, topic TEXT NOT NULL, read INT NOT NULL, write INT NOT NULL,
        owner_user_id INT, PRIMARY KEY (user_id, topic)
    );
    CREATE TABLE user_token (user_id TEXT NOT NULL, token TEXT NOT NULL, label TEXT NOT NULL);
    INSERT INTO user VALUES ('u_everyone', NULL, '*', '', 'anonymous', '{}', '');
    INSERT INTO user_access VALUES ('u_everyone', 'announcements', 1, 0, NULL);
    INSERT INTO user_access VALUES ('u_1', 'alerts', 1, 1, NULL);
    INSERT INTO user_access VALUES ('u_1', 'my\\_notes', 0, 1, NULL);
    INSERT INTO user_access VALUES ('u_1', 'up%', 1, 1, NULL);
    INSERT INTO user_token VALUES ('u_1', 'tk_aaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '');
";
/// By `crypt(3)`; the password is `correct horse`.
const BCRYPT: &str = "$2b$04$HLvV8qZpeoLVbsFU3sfBtu4xT4uhPOGk/z/IMcZ.g/JwkgdQHf8Ce";

#[test]
fn users_of_ntfy_log_in_as_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("user.db");
    let users = rusqlite::Connection::open(&database).expect("a database");
    users.execute_batch(NTFY_SCHEMA).expect("ntfy's tables");
    for (id, name, role) in [("u_1", "anna", "user"), ("u_2", "root", "admin")] {
        let row = "INSERT INTO user VALUES (?, NULL, ?, ?, ?, '{}', '')";
        users
            .execute(row, [id, name, BCRYPT, role])
            .expect("a user");
    }
    drop(users);
    let port = free_port();
    let config = folder.path().join("server.yml");
    let text = format!(
        "base-url: \"https://ntfy.example\" # how others call it\n\
         listen-http: \"127.0.0.1:{port}\"\n\
         auth-file: {}\n\
         auth-default-access: deny-all\n\
         cache-duration: \"12h\"\n\
         message-size-limit: 8k\n\
         attachment-cache-dir: /var/cache/ntfy\n\
         visitor-request-limit-burst: 60\n",
        database.display()
    );
    fs::write(&config, text).expect("written");
    let target = folder.path().join("new").display().to_string();
    let (done, said) = import(&[&config.display().to_string(), "--write", &target]);
    assert!(done && said.contains("2 users, 5 rules"), "{said}");
    let settings = fs::read_to_string(Path::new(&target).join("gatepost.toml")).expect("written");
    for part in [
        "store.history_age_max = \"12h\"",
        "attachments.message_max = \"8192B\"",
        "access anna up%\n#     the pattern up* has no filter",
        "1 tokens",
        "/var/cache/ntfy\n#     attachments are always kept in the data folder",
        "attachments.base_url = \"https://ntfy.example\"",
    ] {
        assert!(settings.contains(part), "no {part} in\n{settings}");
    }
    let _gateway = Gateway::start_in(Path::new(&target), &settings);
    let status = |login: &str, method: &str, topic: &str| {
        let url = format!("http://127.0.0.1:{port}/{topic}");
        let own = [
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            method,
            &url,
        ];
        let login: &[&str] = if login.is_empty() {
            &[]
        } else {
            &["-u", login]
        };
        text_of(&run("curl", &[&own[..], login].concat(), b""))
    };
    let anna = "anna:correct horse";
    for (login, method, topic, expected) in [
        (anna, "POST", "alerts", "200"),
        (anna, "GET", "alerts/json?poll=1", "200"),
        (anna, "POST", "my_notes", "200"),
        (anna, "GET", "my_notes/json?poll=1", "403"),
        (anna, "POST", "announcements", "403"),
        (anna, "GET", "announcements/json?poll=1", "200"),
        ("anna:wrong", "POST", "alerts", "401"),
        ("", "GET", "announcements/json?poll=1", "200"),
        ("", "POST", "announcements", "401"),
        ("root:correct horse", "GET", "admin/sessions", "200"),
    ] {
        assert_eq!(
            status(login, method, topic),
            expected,
            "{login} {method} {topic}"
        );
    }
}

/// ntfy accepts `_` for `-` in names, and listens on port 80 if the file names no port.
#[test]
fn options_of_ntfy_are_read_in_each_form_and_secrets_are_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("server.yml");
    let text = "base_url: https://ntfy.example\nlisten-unix: /run/ntfy.sock\n\
         cache-duration: \"0\"\nmessage_delay_limit: 3d\n\
         smtp-sender-pass: hidden1\nupstream_access_token: hidden2\n\
         auth-users: [\"phil:hidden3:admin\"]\nstripe-secret-key: hidden4\n";
    fs::write(&config, text).expect("written");
    let target = folder.path().join("new");
    let (done, said) = import(&[
        &config.display().to_string(),
        "--write",
        &target.display().to_string(),
    ]);
    assert!(done, "{said}");
    let file = target.join("gatepost.toml");
    let settings = fs::read_to_string(&file).expect("written");
    for part in [
        "attachments.base_url = \"https://ntfy.example\"\n",
        "listeners.http.bind = [\"unix:/run/ntfy.sock\", \"0.0.0.0:80\"]\n",
        "store.history_messages_max = 0\n",
        "delayed.delay_max = \"3d\"\n",
        ": smtp-sender-pass:\n",
        ": upstream_access_token:\n",
        ": auth-users:\n",
    ] {
        assert!(settings.contains(part), "no {part} in\n{settings}");
    }
    assert!(!(said + &settings).contains("hidden"), "{settings}");

    fs::write(&config, "listen-http: \"-\"\nlisten-unix: /run/ntfy.sock\n").expect("written");
    let (done, said) = import(&[&config.display().to_string()]);
    let bind = "listeners.http.bind = [\"unix:/run/ntfy.sock\"]\n";
    assert!(done && said.contains(bind), "{said}");
    let show = ["config", "--config", &file.display().to_string()];
    let shown = run(env!("CARGO_BIN_EXE_gatepost"), &show, b"");
    assert!(shown.status.success(), "{}", text_of(&shown));
}
