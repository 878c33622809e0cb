//! `gatepost import`, compared with mosquitto itself: clients have the same rights before and after
//! the import.

mod mosquitto_lines;
mod ntfy;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use support::{Client, Gateway, await_some, command, free_port, run, text_of};

/// A running mosquitto; ended when dropped.
struct Mosquitto(Child);

impl Mosquitto {
    fn start(config: &Path, port: u16) -> Self {
        let child = command("mosquitto")
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mosquitto starts");
        let broker = Self(child);
        await_some("mosquitto listens", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        broker
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ACL: &str = "\
# Clients without a login.
topic read news/#
topic write inbox
topic readwrite end

user anna
topic readwrite home/anna/#
topic deny home/anna/secret
topic read shared

user bert
topic write shared
topic home/bert

user watch
topic readwrite #

pattern readwrite by-user/%u/+
pattern write by-client/%c
pattern read end
";

const TOPICS: [&str; 13] = [
    "news/a",
    "inbox",
    "home/anna/door",
    "home/anna/secret",
    "home/bert",
    "shared",
    "by-user/anna/x",
    "by-user/bert/x",
    "by-client/phone-anna",
    "by-client/phone-bert",
    "by-client/phone",
    "other",
    "end",
];

/// Name and password; no name is a client without a login.
const CLIENTS: [(&str, &str); 3] = [("", ""), ("anna", "anna's own"), ("bert", "bert's own")];
const WATCH: [&str; 4] = ["-u", "watch", "-P", "sees all"];

fn login<'a>(name: &'a str, password: &'a str) -> Vec<&'a str> {
    if name.is_empty() {
        Vec::new()
    } else {
        vec!["-u", name, "-P", password]
    }
}

fn client_id(name: &str) -> String {
    if name.is_empty() {
        "phone".to_owned()
    } else {
        format!("phone-{name}")
    }
}

fn publish(port: &str, id: &str, login: &[&str], topic: &str, text: &str) -> bool {
    let own = ["-p", port, "-q", "1", "-i", id, "-t", topic, "-m", text];
    run("mosquitto_pub", &[&own[..], login].concat(), b"")
        .status
        .success()
}

/// The messages that this broker passes: `NAME > TOPIC` for a client that publishes, and `NAME <
/// TOPIC` for one that receives.
fn permitted(port: u16) -> BTreeSet<String> {
    let port = port.to_string();
    let mut all = BTreeSet::new();
    let format = ["-p", &port, "-q", "1", "-F", "%t|%p", "-d"];
    let mut watcher = Client::start(
        "mosquitto_sub",
        &[&format[..], &WATCH, &["-t", "#"]].concat(),
    );
    watcher.await_line("SUBACK");
    for (name, password) in CLIENTS {
        for topic in TOPICS.iter().filter(|topic| **topic != "end") {
            publish(
                &port,
                &client_id(name),
                &login(name, password),
                topic,
                &format!("from {name}"),
            );
        }
    }
    publish(&port, "last", &WATCH, "end", "published");
    watcher.await_line("end|published");
    for line in watcher.seen() {
        if let Some((topic, name)) = line.split_once("|from ") {
            all.insert(format!("{name} > {topic}"));
        }
    }
    for (name, password) in CLIENTS {
        let mut arguments = [&format[..], &login(name, password)].concat();
        let id = client_id(name);
        arguments.extend(["-i", &id]);
        // mosquitto accepts every subscription, and does not deliver messages that may not be read.
        for topic in TOPICS {
            arguments.extend(["-t", topic]);
        }
        let mut reader = Client::start("mosquitto_sub", &arguments);
        reader.await_line("SUBACK");
        for topic in TOPICS {
            assert!(publish(&port, "writer", &WATCH, topic, "to all"), "{topic}");
        }
        reader.await_line("end|to all");
        for line in reader.seen() {
            if let Some((topic, _)) = line.split_once("|to all") {
                all.insert(format!("{name} < {topic}"));
            }
        }
    }
    let wrong = ["-u", "anna", "-P", "wrong"];
    assert!(!publish(&port, "x", &wrong, "end", "x"), "a wrong password");
    all
}

fn write_mosquitto(folder: &Path, port: u16) -> std::path::PathBuf {
    let (passwords, acl) = (folder.join("passwords"), folder.join("acl"));
    fs::write(&passwords, "").expect("written");
    for (name, password) in [CLIENTS[1], CLIENTS[2], (WATCH[1], WATCH[3])] {
        let file = passwords.display().to_string();
        let made = run("mosquitto_passwd", &["-b", &file, name, password], b"");
        assert!(made.status.success(), "{}", text_of(&made));
    }
    fs::write(&acl, ACL).expect("written");
    let text = format!(
        "# Everything in one file.\n\
         listener {port} 127.0.0.1\n\
         allow_anonymous true\n\
         password_file {}\n\
         acl_file {}\n\
         max_inflight_messages 15\n\
         max_queued_messages 500\n\
         max_queued_bytes 1000000\n\
         message_size_limit 100000\n\
         max_keepalive 600\n\
         persistent_client_expiration 2w\n\
         sys_interval 5\n\
         max_connections 400\n\
         persistence false\n\
         log_type error\n\
         set_tcp_nodelay true\n",
        passwords.display(),
        acl.display()
    );
    let config = folder.join("mosquitto.conf");
    fs::write(&config, text).expect("written");
    config
}

fn import(arguments: &[&str]) -> (bool, String) {
    let output = run(
        env!("CARGO_BIN_EXE_gatepost"),
        &[&["import"], arguments].concat(),
        b"",
    );
    (output.status.success(), text_of(&output))
}

#[test]
fn clients_of_mosquitto_may_do_the_same_after_the_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = write_mosquitto(folder.path(), port);
    let broker = Mosquitto::start(&config, port);
    let before = permitted(port);
    drop(broker);
    assert!(before.contains("anna > home/anna/door"), "{before:?}");
    assert!(
        before.contains(" < news/a") && !before.contains("anna < other"),
        "{before:?}"
    );

    let target = folder.path().join("new");
    let (config, target) = (config.display().to_string(), target.display().to_string());
    let (done, said) = import(&[&config, "--write", &target]);
    assert!(done, "{said}");
    assert!(said.contains("3 users"), "{said}");
    assert!(said.contains("no user is an administrator"), "{said}");
    let (done, said) = import(&[&config, "--write", &target]);
    assert!(!done && said.contains("exists already"), "{said}");
    let settings = fs::read_to_string(Path::new(&target).join("gatepost.toml")).expect("written");
    let gateway = Gateway::start_in(Path::new(&target), &settings);
    assert_eq!(gateway.port("mqtt"), port.to_string());
    assert_eq!(permitted(port), before);

    // The first login has replaced mosquitto's hash, and the second is checked against ours.
    let data = format!("data={target}/gatepost-data");
    let list = ["user", "list", "--json", "--set", &data];
    let list = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &list, b""));
    let users: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let users = users
        .as_array()
        .or(users["users"].as_array())
        .expect("users");
    assert!(users.iter().all(|user| user["scram"] == true), "{users:?}");
}

#[test]
fn a_bridge_of_mosquitto_is_a_sink_after_the_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let (near, far) = (free_port(), free_port());
    let passwords = folder.path().join("passwords");
    let file = passwords.display().to_string();
    let made = run(
        "mosquitto_passwd",
        &["-c", "-b", &file, "plant", "its own"],
        b"",
    );
    assert!(made.status.success(), "{}", text_of(&made));
    let elsewhere = folder.path().join("elsewhere.conf");
    let text = format!("listener {far} 127.0.0.1\nallow_anonymous false\npassword_file {file}\n");
    fs::write(&elsewhere, text).expect("written");
    let _elsewhere = Mosquitto::start(&elsewhere, far);
    let config = folder.path().join("mosquitto.conf");
    let text = format!(
        "listener {near} 127.0.0.1\nallow_anonymous true\n\
         connection plant\naddress 127.0.0.1:{far}\nremote_username plant\n\
         remote_password its own\nbridge_protocol_version mqttv50\n\
         topic sensors/# out 1 \"\" plant/\ntopic commands/# in 1 \"\" plant/\n"
    );
    fs::write(&config, text).expect("written");
    let target = folder.path().join("new");
    let (done, said) = import(&[
        &config.display().to_string(),
        "--write",
        &target.display().to_string(),
    ]);
    assert!(done && !said.contains("not imported"), "{said}");
    let settings = fs::read_to_string(target.join("gatepost.toml")).expect("written");
    assert!(!settings.contains("its own"), "{settings}");
    let gateway = Gateway::start_in(&target, &settings);
    assert_eq!(gateway.port("mqtt"), near.to_string());

    let (near, far) = (near.to_string(), far.to_string());
    let login = ["-u", "plant", "-P", "its own"];
    let subscribe = |port: &str, login: &[&str], topic: &str| {
        let own = ["-p", port, "-q", "1", "-F", "%t|%p", "-d", "-t", topic];
        let mut client = Client::start("mosquitto_sub", &[&own[..], login].concat());
        client.await_line("SUBACK");
        client
    };
    let mut there = subscribe(&far, &login, "plant/sensors/#");
    assert!(publish(&near, "sensor", &[], "sensors/one", "20.5"));
    there.await_line("plant/sensors/one|20.5");
    let mut here = subscribe(&near, &[], "commands/#");
    assert!(publish(&far, "desk", &login, "plant/commands/one", "off"));
    here.await_line("commands/one|off");
}

#[test]
fn certificates_of_mosquitto_stay_where_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("mosquitto.conf");
    let text = "listener 8883\ncertfile /etc/c.pem\nkeyfile /etc/k.pem\ncafile /etc/ca.pem\n\
         require_certificate true\nuse_identity_as_username true\nlistener 9001 ::1\n\
         protocol websockets\nlistener 0 /run/m.sock\nlistener 1884 broker.example\n";
    fs::write(&config, text).expect("written");
    let (done, said) = import(&[&config.display().to_string()]);
    assert!(done, "{said}");
    for line in [
        "listeners.mqtt.tls.bind = [\"0.0.0.0:8883\"]",
        "listeners.mqtt.tls.cert = \"/etc/c.pem\"",
        "listeners.mqtt.tls.key = \"/etc/k.pem\"",
        "listeners.mqtt.tls.client_ca = \"/etc/ca.pem\"",
        "listeners.mqtt.tls.client_required = true",
        "listeners.mqtt.tls.client_is_user = true",
        "listeners.http.bind = [\"[::1]:9001\"]",
        "listeners.mqtt.bind = [\"unix:/run/m.sock\"]",
        "listeners.mqtt.anonymous = \"no\"",
    ] {
        assert!(
            said.contains(&format!("\n{line}\n")),
            "no {line} in\n{said}"
        );
    }
    assert!(
        said.contains("listener 1884 broker.example\n#     the host is a name"),
        "{said}"
    );
}
