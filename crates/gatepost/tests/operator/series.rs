//! Figures over time: the activity of clients appears in them, and they survive a restart.

use serde_json::Value;

use super::support::{Gateway, add_user, await_some, post, run, swaks, text_of};
use super::{STATUS, curl, json};

const SETTINGS: &str = "
rules.paths = []
store.series_interval = '1s'
store.series_averages_interval = '2s'
[[scope]]
path = '/mail'
listeners = ['smtp']
run = ['/sizecheck']
";

/// The values of one figure over the last five minutes that are not null.
fn values(answer: &Value, name: &str) -> Vec<f64> {
    let series = answer["series"].as_array().expect("a list");
    let found = series.iter().find(|one| one["name"] == name);
    let values = found.and_then(|one| one["values"].as_array());
    values
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect()
}

fn await_rate(gateway: &Gateway, name: &str) -> Vec<f64> {
    await_some(name, || {
        let answer = json(gateway, "/admin/series?from=5m", &[]);
        let found = values(&answer, name);
        found.iter().any(|value| *value > 0.0).then_some(found)
    })
}

#[test]
fn what_bayes_has_learned_appears_over_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    for (class, text) in [("spam", "cheap watches"), ("ham", "the minutes of monday")] {
        let mail = format!("From: a@example.org\r\nSubject: {text}\r\n\r\n{text}\r\n");
        let options = ["-H", "Content-Type: message/rfc822", "--data-binary", &mail];
        let answer = json(&gateway, &format!("/admin/learn?as={class}"), &options);
        assert_eq!(answer["learned"], "new", "{answer}");
    }
    for (name, expected_min) in [
        ("bayes_spam", 1.0),
        ("bayes_ham", 1.0),
        ("bayes_tokens", 4.0),
    ] {
        // A point is an average, so the first one may be below the latest value.
        let latest = await_some(name, || {
            let latest = await_rate(&gateway, name).pop();
            latest.filter(|latest| *latest >= expected_min)
        });
        assert!(name == "bayes_tokens" || latest <= 1.0, "{name}: {latest}");
    }
}

#[test]
fn traffic_appears_over_time_and_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    post(&gateway, "hall/door", "open");
    let mail = swaks(
        &gateway.address("smtp").to_string(),
        "anna@example.org",
        "alarms+fire@localhost",
        &[],
    );
    assert!(mail.status.success(), "{}", text_of(&mail));
    for name in [
        "messages.http",
        "messages.smtp",
        "verdicts.accept",
        "publications",
        "memory_bytes",
        "cpu_cores",
        "judge_p50_ms",
        "judge_p99_ms",
    ] {
        await_rate(&gateway, name);
    }
    let one = json(
        &gateway,
        "/admin/series?name=messages.smtp,sessions&points=10",
        &[],
    );
    let names = one["series"].as_array().expect("a list").iter();
    let names: Vec<&Value> = names.map(|one| &one["name"]).collect();
    assert_eq!(names, ["messages.smtp", "sessions"]);
    let times = one["times_unix_ms"].as_array().expect("times").len();
    assert!(
        (10..=12).contains(&times),
        "{times} points, at the edges of whole steps"
    );
    assert_eq!(
        one["series"][0]["values"].as_array().map(Vec::len),
        Some(times)
    );
    assert_eq!(gateway.terminate(), Some(0));

    // No mail has arrived since, and the averages are those of the previous run.
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    for range in ["5m", "30d"] {
        let answer = json(&gateway, &format!("/admin/series?from={range}"), &[]);
        assert!(
            values(&answer, "messages.smtp")
                .iter()
                .any(|value| *value > 0.0),
            "{range}"
        );
    }
}

#[test]
fn figures_over_time_are_for_administrators() {
    let gateway = Gateway::start(SETTINGS);
    for (name, more) in [("root", &["--admin"][..]), ("reader", &[])] {
        let added = add_user(&gateway, name, "secret", more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    let status = |login: &[&str]| curl(&gateway, "/admin/series", &[&STATUS[..], login].concat());
    // The server sees users that a command adds a moment later.
    await_some("the users", || {
        let as_reader = status(&["--user", "reader:secret"]);
        (status(&[]) == "401" && as_reader == "403").then_some(())
    });
    assert_eq!(status(&["--user", "root:secret"]), "200");
}

#[test]
fn a_full_disk_drops_samples_with_a_count() {
    let gateway = Gateway::start(&format!("store.reserve = '9000000GB'\n{SETTINGS}"));
    await_some("dropped samples", || {
        let metrics = curl(&gateway, "/metrics", &[]);
        let name = "\ngatepost_series_samples_dropped_total ";
        let (_, rest) = metrics.split_once(name).expect("the metric");
        (!rest.starts_with('0')).then_some(())
    });
    let answer = json(&gateway, "/admin/series", &[]);
    assert!(answer["dropped"].as_u64() > Some(0));
    assert_eq!(answer["series"], serde_json::json!([]));
    let health = run("curl", &["-sf", &gateway.url("/healthz")], b"");
    assert!(health.status.success(), "{}", text_of(&health));
}
