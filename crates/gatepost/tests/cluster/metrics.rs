//! The metrics of a node, and the dashboard and the alerts that use them.

use super::nats::{self, Nats};
use super::support::{root, run, text_of};
use super::{await_joined, metrics_on, node};
use crate::network::Host;

#[test]
fn board_and_alerts_use_the_metrics_of_a_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let one = node(&nats, 1);
    await_joined(&one, 0);
    let metrics = metrics_on(&Host::loopback(), &one);
    let checked = run("promtool", &["check", "metrics"], metrics.as_bytes());
    assert!(checked.status.success(), "{}", text_of(&checked));
    for file in ["docs/grafana-dashboard.json", "docs/prometheus-alerts.yml"] {
        let text = std::fs::read_to_string(root().join(file)).expect("a file");
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let names = text.split(|character| !is_name(character));
        let names: Vec<&str> = names
            .filter(|name| name.starts_with("gatepost_backbone_"))
            .collect();
        assert!(names.len() > 5, "{file} uses {names:?}");
        for name in names {
            let line = format!("# TYPE {name} ");
            assert!(
                metrics.contains(&line),
                "{file}: {name} is not a metric of a node"
            );
        }
    }
}
