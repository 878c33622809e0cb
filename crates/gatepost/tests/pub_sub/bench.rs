//! `gatepost bench` with a gateway that it starts itself: every scenario loses nothing.

use super::support::{Gateway, add_user, await_some, run, text_of};

/// Runs a scenario of our own bench against a gateway that it starts by its own definition; gives
/// the first run of the result.
fn bench(words: &str) -> serde_json::Value {
    bench_of("gatepost", words)
}

/// The same of another definition of the gateway.
fn bench_of(peer: &str, words: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let gatepost = env!("CARGO_BIN_EXE_gatepost");
    let output = std::process::Command::new(gatepost)
        .arg("bench")
        .args(words.split(' '))
        .args(["--peer", peer, "--quiet", "--json"])
        .arg(&json)
        .env("BENCH_GATEPOST", gatepost)
        // The scenarios judge nothing by rules, and folders of rules would be compiled first.
        .env("GATEPOST_RULES__PATHS", "[]")
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {error}");
    let text = std::fs::read_to_string(&json).expect("a result");
    let mut report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    report["targets"][0]["runs"][0].take()
}

fn figure(run: &serde_json::Value, name: &str) -> f64 {
    let figures = run["figures"].as_array().expect("figures");
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name}"))["value"]
        .as_f64()
        .expect("a number")
}

/// Checks that none of them was counted.
fn assert_none(run: &serde_json::Value, name: &str, way: &str) {
    let count = figure(run, name);
    assert!(count.abs() < f64::EPSILON, "{way}: {count} {name}");
}

#[test]
fn the_bench_finds_nothing_lost_over_any_protocol() {
    let fanout = "fanout --publishers 2 --subscribers 20 --rate 50 --size 200 --seconds 1 \
                  --warm-up 0 --drain 20";
    for way in ["", " --over mqtt5", " --over ws", " --over sse"] {
        let run = bench(&format!("{fanout}{way}"));
        for fault in ["lost", "duplicates", "out of order"] {
            assert_none(&run, fault, way);
        }
        // 100 messages in all, to 10 subscribers each.
        let latency = &run["latencies"][0];
        assert_eq!(
            (&latency["name"], &latency["count"]),
            (&"delivery".into(), &1_000.into()),
            "{way}"
        );
    }
    // Faster than each message can be sent to each subscriber by itself: the server collects their
    // messages, and still all of them arrive, once and in order.
    let run = bench(
        "fanout --publishers 2 --subscribers 300 --rate 400 --size 100 --seconds 1 --warm-up 0 \
         --drain 20",
    );
    for fault in ["lost", "duplicates", "out of order"] {
        assert_none(&run, fault, "in a hurry");
    }
    let run = bench("subscribe --users 5 --topics 100");
    assert_none(&run, "failed", "subscribe");
    // A storm: 500 clients are disconnected and reconnect at the same time under their names,
    // twice.
    let run = bench("idle --connections 500 --seconds 0.2 --storms 2");
    assert_none(&run, "connections lost", "idle");
    assert_none(&run, "connections lost after storms", "idle");
    let run = bench("web --sizes 317 --seconds 0.5 --warm-up 0.1");
    assert_none(&run, "317 B errors per second", "web");
    assert!(figure(&run, "317 B pages per second") > 0.0);
    for way in ["", " --rate 200"] {
        let run = bench(&format!(
            "calls --connections 4 --in-flight 4 --seconds 1 --warm-up 0.1{way}"
        ));
        assert_none(&run, "failed", way);
        assert!(figure(&run, "calls per second") > 0.0);
    }
    for peer in ["gatepost-sizecheck", "gatepost-transit"] {
        let run = bench_of(peer, "smtp --sessions 4 --seconds 0.5 --warm-up 0.1");
        assert_none(&run, "refused", peer);
        assert!(figure(&run, "messages per second") > 0.0);
    }
}

#[test]
fn the_bench_finds_nothing_lost_over_tls() {
    let fanout = "fanout --publishers 2 --subscribers 20 --rate 50 --size 20000 --seconds 1 \
                  --warm-up 0 --drain 20";
    for way in ["", " --over ws"] {
        let run = bench_of("gatepost-tls", &format!("{fanout}{way}"));
        for fault in ["lost", "duplicates", "out of order"] {
            assert_none(&run, fault, way);
        }
        assert_eq!(run["latencies"][0]["count"], 1_000, "{way}");
    }
    let run = bench_of("gatepost-tls", "subscribe --users 5 --topics 1000");
    assert_none(&run, "failed", "subscribe");
    for way in ["", " --keep-alive"] {
        let web = "web --sizes 204800 --seconds 0.5 --warm-up 0.1";
        let run = bench_of("gatepost-tls", &format!("{web}{way}"));
        assert_none(&run, "204800 B errors per second", way);
        assert!(figure(&run, "204800 B pages per second") > 0.0, "{way}");
    }
}

#[test]
fn the_bench_finds_nothing_lost_over_a_bridge() {
    // At QoS 1, so that nothing is lost before the bridge is connected.
    let fanout = "fanout --publishers 2 --subscribers 2 --rate 50 --size 100 --seconds 1 \
                  --warm-up 0 --drain 20 --qos 1";
    for peer in ["gatepost-bridge", "mosquitto-bridge"] {
        let run = bench_of(peer, fanout);
        for fault in ["lost", "duplicates", "out of order"] {
            assert_none(&run, fault, peer);
        }
        assert_eq!(run["latencies"][0]["count"], 100, "{peer}");
    }
}

#[test]
fn clients_of_the_bench_log_in_each_by_its_own_name() {
    let gateway = Gateway::start("rules.paths = []\nlisteners.mqtt.anonymous = \"no\"\n");
    for number in ["0", "1"] {
        let (name, password) = (format!("dev{number}"), format!("secret {number}"));
        let added = add_user(&gateway, &name, &password, &[]);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    let file = gateway.folder.join("password").display().to_string();
    let target = format!("mqtt5://127.0.0.1:{}", gateway.port("mqtt"));
    let log_in = |user: &str, password: &str| {
        std::fs::write(&file, password).expect("written");
        let words = [
            "bench",
            "subscribe",
            "--users",
            "2",
            "--topics",
            "10",
            "--quiet",
        ];
        let login = ["--user", user, "--password-file", &file, &target];
        run(super::GATEPOST, &[&words[..], &login].concat(), b"")
    };
    let output = await_some("both users are known", || {
        let output = log_in("dev%i", "secret %i\n");
        output.status.success().then_some(output)
    });
    assert!(!text_of(&output).contains("secret"), "{}", text_of(&output));
    for (user, password) in [("dev%i", "secret 0"), ("dev0", "secret %i")] {
        let refused = log_in(user, password);
        assert!(!refused.status.success());
        assert!(
            text_of(&refused).contains("Reason(134), with 1 users"),
            "{}",
            text_of(&refused)
        );
    }
}
