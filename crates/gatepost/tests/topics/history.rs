//! The history that each topic keeps, in memory and on disk.

use super::support::{Gateway, await_some};
use super::{curl, publish};

const RULES: &str = r#"
rules.paths = []
broker.recent_per_topic = 2

[[topics]]
filter = "kept/many"
history_messages_max = 4

[[topics]]
filter = "kept/none"
history_messages_max = 0

[[topics]]
filter = "kept/short"
history_age_max = "2s"
"#;

fn remembered(gateway: &Gateway, topic: &str) -> Vec<String> {
    let said = curl(gateway, &format!("/topics/{topic}"), &[]);
    let (body, _) = said.trim().rsplit_once('\n').expect("a status");
    let all: Vec<serde_json::Value> = serde_json::from_str(body).expect("a list");
    let text = |one: &serde_json::Value| one["payload"].as_str().expect("text").to_owned();
    all.iter().map(text).collect()
}

#[test]
fn each_topic_keeps_its_own_number_and_age_over_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), RULES);
    for topic in ["kept/many", "kept/none", "other"] {
        for number in 1..=6 {
            let payload = number.to_string();
            let said = publish(&gateway, "-V 5 -q 1 -t", &[topic, "-m", &payload]);
            assert!(said.contains("RC:"), "{said}");
        }
    }
    let many = ["3", "4", "5", "6"];
    assert_eq!(remembered(&gateway, "kept/many"), many);
    assert_eq!(remembered(&gateway, "other"), ["5", "6"]);
    assert!(remembered(&gateway, "kept/none").is_empty());
    publish(&gateway, "-V 5 -q 1 -t kept/short -m old", &[]);
    await_some("the end of the message", || {
        remembered(&gateway, "kept/short").is_empty().then_some(())
    });
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), RULES);
    assert_eq!(remembered(&gateway, "kept/many"), many);
    assert!(remembered(&gateway, "kept/none").is_empty());
    await_some("nothing old", || {
        remembered(&gateway, "kept/short").is_empty().then_some(())
    });
    let database = folder.path().join("gatepost-data/gatepost.db");
    assert!(database.exists(), "{database:?}");
}
