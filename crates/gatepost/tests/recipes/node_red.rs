//! The flow of the how-to guide for Node-RED, as it is printed there, in a real Node-RED.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::block_of;
use crate::support::{Gateway, await_some, root, run, text_of};

/// Neither an editor nor a request to another host.
const SETTINGS: &str = r#"module.exports = {
    flowFile: "flows.json", uiHost: "127.0.0.1", uiPort: 0,
    httpAdminRoot: false, httpNodeRoot: false, credentialSecret: false,
    telemetry: { enabled: false },
    externalModules: { autoInstall: false, palette: { allowInstall: false } },
};
"#;

struct NodeRed(Child);

impl NodeRed {
    fn start(folder: &Path) -> Self {
        let program = root().join(".peers/node-red/node_modules/node-red/red.js");
        let child = Command::new("node")
            .arg(program)
            .arg("--userDir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(folder.join("log")).expect("a file"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer node of tests/install-peers");
        Self(child)
    }
}

impl Drop for NodeRed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A subscriber whose session keeps what arrives between its commands.
struct Watcher {
    port: String,
    name: &'static str,
    topic: &'static str,
    log: PathBuf,
}

impl Watcher {
    fn new(gateway: &Gateway, name: &'static str, topic: &'static str, log: PathBuf) -> Self {
        let port = gateway.port("mqtt");
        let watcher = Self {
            port,
            name,
            topic,
            log,
        };
        watcher.run(&["-E"]).expect("subscribed");
        watcher
    }

    fn run(&self, more: &[&str]) -> Result<String, String> {
        let session = ["-p", &self.port, "-V", "5", "-c", "-i", self.name];
        let topic = ["-x", "3600", "-q", "1", "-t", self.topic];
        let output = run("mosquitto_sub", &[&session[..], &topic, more].concat(), b"");
        let text = text_of(&output).trim_end().to_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(text)
        }
    }

    /// The next message's payload and user properties, if one arrives within some seconds.
    fn next_within(&self, seconds: &str) -> Result<String, String> {
        // Each command subscribes again, and gets the retained messages: only new ones count.
        self.run(&["-R", "-C", "1", "-W", seconds, "-F", "%p %P"])
    }

    fn next(&self) -> String {
        self.next_within("60").unwrap_or_else(|error| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            panic!("{}: {error}\n{log}", self.topic)
        })
    }
}

fn publish(gateway: &Gateway, topic: &str, payload: &str) {
    let port = gateway.port("mqtt");
    let message = ["-p", &port, "-q", "1", "-t", topic, "-m", payload];
    let output = run("mosquitto_pub", &message, b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn a_flow_reads_publishes_and_misses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start("rules.paths = []\n");
    let flow = block_of("docs/how-to/node-red.md", "A flow", "json");
    let port = format!("\"port\": \"{}\"", gateway.port("mqtt"));
    let flow = flow.replace("\"port\": \"1883\"", &port);
    std::fs::write(folder.path().join("flows.json"), flow).expect("written");
    std::fs::write(folder.path().join("settings.js"), SETTINGS).expect("written");
    let watch = |name, topic| Watcher::new(&gateway, name, topic, folder.path().join("log"));
    let (status, warnings) = (
        watch("status", "node-red/status"),
        watch("warnings", "home/warnings"),
    );

    let node_red = NodeRed::start(folder.path());
    assert_eq!(status.next(), "online");
    // Node-RED subscribes after its birth message: the first value is offered until it is read.
    let text = await_some("the flow reads", || {
        publish(&gateway, "home/freezer/state", r#"{"temperature": -30}"#);
        publish(&gateway, "home/freezer/state", r#"{"temperature": -10}"#);
        warnings.next_within("2").ok()
    });
    assert_eq!(
        text,
        "The freezer has -10 °C title:Freezer priority:5 tags:warning"
    );

    // Killed: the will reports it, and the session keeps the messages that arrive meanwhile.
    drop(node_red);
    assert_eq!(status.next(), "offline");
    publish(&gateway, "home/freezer/state", r#"{"temperature": -1}"#);
    let _node_red = NodeRed::start(folder.path());
    assert_eq!(status.next(), "online");
    let missed = std::iter::repeat_with(|| warnings.next())
        .find(|text| !text.starts_with("The freezer has -10 °C"));
    assert!(missed.is_some_and(|text| text.starts_with("The freezer has -1 °C")));
}
