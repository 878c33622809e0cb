//! A start that would need more memory than it may: the server serves the sessions that fit,
//! reports the others, and loses nothing.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Client, Gateway, await_some, run, text_of};

/// Without rules, which would be loaded beside the messages.
const SETTINGS: &str = "scope = []\nlisteners.spamd.bind = []\nlisteners.call.bind = []\n\
                        broker.queue_bytes_max = \"1GB\"\n";
/// Bytes of a message, and how many each session waits for.
const MESSAGE: usize = 200_000;
const QUEUES: [(&str, usize); 3] = [("small", 5), ("large", 290), ("larger", 300)];
/// Beyond what the server needs alone: enough for the small and the large queue (59 MB), and not
/// for the larger one (60 MB) as well.
const ROOM_MEGABYTES: usize = 104;

fn publish(gateway: &Gateway, topic: &str, count: usize) -> Output {
    let port = gateway.port("mqtt");
    let count = count.to_string();
    let arguments = [
        "-V", "mqttv5", "-p", &port, "-q", "1", "-t", topic, "-s", "--repeat", &count, "-d",
    ];
    run("mosquitto_pub", &arguments, &vec![b'x'; MESSAGE])
}

/// Receives as this client; returns the received bytes.
fn take(gateway: &Gateway, client: &str, further: &[&str]) -> Output {
    let port = gateway.port("mqtt");
    let topic = format!("queues/{client}");
    let mut arguments = vec![
        "-V", "mqttv5", "-p", &port, "-c", "-x", "600", "-q", "1", "-i", client, "-t", &topic,
    ];
    arguments.extend(further);
    run("mosquitto_sub", &arguments, b"")
}

fn take_all(gateway: &Gateway, client: &str, count: usize) -> Option<()> {
    let output = take(gateway, client, &["-C", &count.to_string(), "-W", "60"]);
    (output.stdout.len() == count * (MESSAGE + 1)).then_some(())
}

fn resident_megabytes(gateway: &Gateway) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid()));
    let status = status.expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kibibytes.expect("a number") / 1024
}

/// Resident memory without messages, in megabytes. The code of publications and subscriptions
/// counts only after its first use.
fn resident_megabytes_alone(gateway: &Gateway) -> usize {
    take(gateway, "first", &["-E"]);
    let published = publish(gateway, "queues/first", 1);
    assert!(published.status.success(), "{}", text_of(&published));
    take_all(gateway, "first", 1).expect("the first message");
    resident_megabytes(gateway)
}

/// Fills the queues; the memory that a start may then have, in megabytes.
fn fill(folder: &Path) -> usize {
    let gateway = Gateway::start_in(folder, SETTINGS);
    let alone = resident_megabytes_alone(&gateway);
    for (client, count) in QUEUES {
        take(&gateway, client, &["-E"]);
        let published = publish(&gateway, &format!("queues/{client}"), count);
        assert!(published.status.success(), "{}", text_of(&published));
    }
    gateway.kill();
    alone + ROOM_MEGABYTES
}

/// Publications for the larger queue are refused; the small one is served.
fn expect_the_larger_on_disk(gateway: &Gateway) {
    assert!(gateway.log().contains("stay on disk"), "{}", gateway.log());
    take_all(gateway, "small", 5).expect("the small queue");
    let refused = text_of(&take(gateway, "larger", &["-C", "1", "-W", "5"]));
    assert!(refused.contains("Quota exceeded"), "{refused}");
    let refused = text_of(&publish(gateway, "queues/larger", 1));
    assert!(refused.contains("RC:151"), "{refused}");
    let taken = text_of(&publish(gateway, "queues/small", 1));
    assert!(!taken.contains("RC:151"), "{taken}");
}

/// Nothing is lost, and refused messages are not stored.
fn expect_everything(folder: &Path) {
    let gateway = Gateway::start_in(folder, SETTINGS);
    take_all(&gateway, "small", 1).expect("the later one");
    take_all(&gateway, "larger", 300).expect("the larger queue");
    take_all(&gateway, "large", 290).expect("the large queue");
}

#[test]
fn queues_that_do_not_fit_wait_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let megabytes = fill(folder.path());
    let bound = format!("{SETTINGS}broker.memory_max = \"{megabytes}MB\"\n");
    let gateway = Gateway::start_in(folder.path(), &bound);
    expect_the_larger_on_disk(&gateway);
    gateway.kill();
    expect_everything(folder.path());
}

#[test]
fn a_queue_is_loaded_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let megabytes = fill(folder.path());
    let bound = format!("{SETTINGS}broker.memory_max = \"{megabytes}MB\"\n");
    let gateway = Gateway::start_in(folder.path(), &bound);
    lose_client_with_will(&gateway);
    take_all(&gateway, "large", 290).expect("the large queue");
    // Refused until the housekeeper has loaded it.
    let received = await_some("the larger queue is loaded", || {
        let output = take(&gateway, "larger", &["-C", "301", "-W", "60"]);
        (!output.stdout.is_empty()).then_some(output.stdout)
    });
    assert_eq!(received.len(), 300 * (MESSAGE + 1) + WILL.len() + 1);
    assert!(received.ends_with(b"\ngone\n"), "the will comes last");
}

/// Topics that retain a message, and its bytes: 100 MB in all.
const RETAINED_TOPICS: usize = 200;
const RETAINED: usize = 500_000;
/// Beyond what the server needs alone: for half of them.
const RETAINED_ROOM_MEGABYTES: usize = 60;

/// Subscribes in this version of MQTT, which shows the codes of SUBACK too.
fn subscribe(gateway: &Gateway, version: &str, filter: &str, further: &[&str]) -> Output {
    let port = gateway.port("mqtt");
    let arguments = ["-V", version, "-p", &port, "-q", "1", "-t", filter];
    run("mosquitto_sub", &[&arguments[..], further].concat(), b"")
}

fn retain(gateway: &Gateway) {
    let port = gateway.port("mqtt");
    let payload = vec![b'x'; RETAINED];
    for number in 0..RETAINED_TOPICS {
        let topic = format!("retained/{number}");
        let arguments = ["-p", &port, "-q", "1", "-r", "-t", &topic, "-s"];
        let published = run("mosquitto_pub", &arguments, &payload);
        assert!(published.status.success(), "{}", text_of(&published));
    }
}

#[test]
fn a_subscription_whose_retained_messages_do_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    let megabytes = resident_megabytes_alone(&gateway) + RETAINED_ROOM_MEGABYTES;
    retain(&gateway);
    gateway.kill();

    let bound = format!("{SETTINGS}broker.memory_max = \"{megabytes}MB\"\n");
    let gateway = Gateway::start_in(folder.path(), &bound);
    assert!(gateway.log().contains("retained"), "{}", gateway.log());
    for (version, code) in [("mqttv5", "): 151"), ("mqttv311", "): 128")] {
        let refused = text_of(&subscribe(
            &gateway,
            version,
            "retained/#",
            &["-d", "-W", "30"],
        ));
        assert!(refused.contains(code), "{version}: {refused}");
        assert!(!refused.contains("PUBLISH"), "{version}: {refused}");
    }
    for number in [0, RETAINED_TOPICS - 1] {
        let topic = format!("retained/{number}");
        let one = subscribe(&gateway, "mqttv5", &topic, &["-C", "1", "-W", "60"]);
        assert_eq!(one.stdout.len(), RETAINED + 1, "{topic} is read");
    }
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    let count = RETAINED_TOPICS.to_string();
    let all = subscribe(
        &gateway,
        "mqttv5",
        "retained/#",
        &["-C", &count, "-W", "60"],
    );
    assert_eq!(all.stdout.len(), RETAINED_TOPICS * (RETAINED + 1));
}

const WILL: &str = "gone";

/// Its will is for the queue that is on disk.
fn lose_client_with_will(gateway: &Gateway) {
    let port = gateway.port("mqtt");
    let will = ["--will-topic", "queues/larger", "--will-qos", "1"];
    let client = ["-V", "mqttv5", "-p", &port, "-t", "lost", "-d"];
    let arguments = [&client[..], &will, &["--will-payload", WILL]].concat();
    let mut client = Client::start("mosquitto_sub", &arguments);
    client.await_line("SUBACK");
    drop(client); // killed
}

/// A control group below the test's own.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None` where none may be made.
    fn new(megabytes: usize) -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (base, limit) = match parts.next()? {
                "" => ("/sys/fs/cgroup", "memory.max"),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                _ => return None,
            };
            let own = Path::new(base).join(parts.next()?.trim_start_matches('/'));
            let path = own.join(format!("gatepost-test-{}", std::process::id()));
            std::fs::create_dir(&path).ok()?;
            let group = Self(path);
            // The file is there where the group controls memory; dropped, the group is removed.
            let limit = group.0.join(limit);
            let bytes = (megabytes * 1_000_000).to_string();
            (limit.exists() && std::fs::write(limit, bytes).is_ok()).then_some(group)
        })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// As in a container: no setting limits the memory.
#[test]
fn the_bound_of_a_control_group_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let megabytes = fill(folder.path());
    // The server takes three quarters of it.
    let Some(group) = ControlGroup::new(megabytes * 4 / 3) else {
        println!("no control group can be made here; the settings' bound is tested instead");
        return;
    };
    let enter = format!("echo $$ > '{}/cgroup.procs'", group.0.display());
    let gateway = Gateway::start_after(&enter, folder.path(), SETTINGS);
    expect_the_larger_on_disk(&gateway);
    gateway.kill();
    expect_everything(folder.path());
}
