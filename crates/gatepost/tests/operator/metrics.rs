//! Figures for Prometheus, and the board that asks for them.

use super::support::{Gateway, root, run, text_of};
use super::{curl, json};

#[test]
fn metrics_are_as_prometheus_wants_them_and_grafana_asks_for_no_others() {
    let gateway = Gateway::start("rules.paths = []\n");
    json(&gateway, "/topics/a", &["-d", "x"]);
    let metrics = curl(&gateway, "/metrics", &[]);
    let checked = run("promtool", &["check", "metrics"], metrics.as_bytes());
    assert!(checked.status.success(), "{}", text_of(&checked));
    let board =
        std::fs::read_to_string(root().join("docs/grafana-dashboard.json")).expect("a file");
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let names = board.split(|character| !is_name(character));
    let mut asked = 0;
    for name in names.filter(|name| name.starts_with("gatepost_")) {
        assert!(
            metrics.contains(&format!("# TYPE {name} ")),
            "{name} is no metric of ours"
        );
        asked += 1;
    }
    assert!(asked > 5, "the board asks for {asked}");
}
