//! Agents of the bench, with the gateway as the broker of agents and conductor.

use std::path::Path;

use super::support::authority::Authority;
use super::support::{Client, Gateway, add_user, await_some, free_port, run, text_of};
use super::{GATEPOST, gateway};

/// A gateway in this folder with a login for its only listener of MQTT, which is over TLS.
fn start_control(folder: &Path, port: u16) -> Gateway {
    let path = |name: &str| folder.join(name).display().to_string();
    let settings = format!(
        "rules.paths = []\nlisteners.mqtt.bind = []\nlisteners.mqtt.anonymous = \"no\"\n\
         listeners.mqtt.tls = {{ bind = [\"127.0.0.1:{port}\"], cert = '{}', key = '{}' }}\n",
        path("server.pem"),
        path("server.key")
    );
    Gateway::start_in(folder, &settings)
}

/// An agent, or a conductor, that joins by these words.
fn joining<'a>(words: &[&'a str], join: &[&'a str]) -> Vec<&'a str> {
    [&["bench"], words, join].concat()
}

/// Checks that a run of FANOUT on the agent loses nothing.
fn assert_measures(target: &str, join: &[&str]) {
    let fanout = "fanout --publishers 1 --subscribers 4 --rate 50 --size 100 --seconds 1 \
                  --warm-up 0 --drain 20 --quiet";
    let mut words: Vec<&str> = fanout.split_ascii_whitespace().collect();
    words.push(target);
    let output = run(GATEPOST, &joining(&words, join), b"");
    let text = text_of(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("CPU of one"), "{text}");
}

#[test]
fn an_agent_joins_over_tls_by_a_login_and_again_after_a_restart_of_the_broker() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    Authority::new(folder.path(), "first").sign("server", "localhost", &["localhost"]);
    Authority::new(folder.path(), "other");
    std::fs::write(folder.path().join("password"), "secret\n").expect("written");
    let port = free_port();
    let control = start_control(folder.path(), port);
    let added = add_user(&control, "bench", "secret", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let url = format!("mqtts://localhost:{port}");
    let (ca, other, password) = (path("first.pem"), path("other.pem"), path("password"));
    let by_login = ["--join-user", "bench", "--join-password-file", &password];
    let trusting = |ca| [&["--join", &url, "--join-cafile", ca], &by_login[..]].concat();
    let join = trusting(ca.as_str());
    let agent = ["agent", "--name", "one"];
    for (join, reason) in [
        (trusting(&other), "certificate"),
        (
            vec!["--join", &url, "--join-cafile", &ca],
            "CONNACK refuses",
        ),
    ] {
        let refused = run(GATEPOST, &joining(&agent, &join), b"");
        assert!(!refused.status.success());
        assert!(text_of(&refused).contains(reason), "{}", text_of(&refused));
    }
    await_some("the login is in force", || {
        let client = [
            "pub", "-L", &url, "--cafile", &ca, "-t", "x", "-m", "x", "-q", "1",
        ];
        let login = ["-u", "bench", "--pw-file", &password];
        let output = run(GATEPOST, &[&client[..], &login].concat(), b"");
        output.status.success().then_some(())
    });
    let both = ["-c", "exec \"$@\" 2>&1", "sh", GATEPOST];
    let mut agent = Client::start("sh", &[&both, &joining(&agent, &join)[..]].concat());
    agent.await_line("joined");
    let target_gateway = gateway();
    let target = format!("mqtt://127.0.0.1:{}", target_gateway.port("mqtt"));
    assert_measures(&target, &join);

    assert_eq!(control.terminate(), Some(0));
    agent.await_line("it joins again in");
    let _control = start_control(folder.path(), port);
    agent.await_line(&format!("joined {url} again"));
    assert_measures(&target, &join);
}
