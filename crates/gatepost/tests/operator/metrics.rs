//! Metrics for Prometheus, and the dashboard and alerts that use them.

use super::support::{Gateway, root, run, text_of};
use super::{curl, json};

#[test]
fn metrics_are_as_prometheus_wants_them_and_board_and_alerts_ask_for_no_others() {
    let gateway = Gateway::start("rules.paths = []\n");
    json(&gateway, "/topics/a", &["-d", "x"]);
    let metrics = curl(&gateway, "/metrics", &[]);
    let checked = run("promtool", &["check", "metrics"], metrics.as_bytes());
    assert!(checked.status.success(), "{}", text_of(&checked));
    for name in ["docs/grafana-dashboard.json", "docs/prometheus-alerts.yml"] {
        expect_known(&metrics, name);
    }
    let alerts = root().join("docs/prometheus-alerts.yml");
    let checked = run(
        "promtool",
        &["check", "rules", &alerts.display().to_string()],
        b"",
    );
    assert!(checked.status.success(), "{}", text_of(&checked));
}

/// The metrics of several nodes, which the tests of these compare.
const OF_CLUSTER: &str = "gatepost_backbone_";

/// Every metric that this file names is among those of the server.
fn expect_known(metrics: &str, file: &str) {
    let text = std::fs::read_to_string(root().join(file)).expect("a file");
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let names = text.split(|character| !is_name(character));
    let mut expressions = 0;
    for name in names.filter(|name| name.starts_with("gatepost_")) {
        let line = format!("# TYPE {name} ");
        assert!(
            metrics.contains(&line) || name.starts_with(OF_CLUSTER),
            "{file}: {name} is not a metric of ours"
        );
        expressions += 1;
    }
    assert!(expressions > 5, "{file} asks for {expressions}");
}
