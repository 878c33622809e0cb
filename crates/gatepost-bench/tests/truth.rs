//! The accuracy of the generator: against brokers with known faults, it must find each fault and
//! count it exactly.

mod broker;

use std::time::{Duration, Instant};

use clap::Parser;
use gatepost_bench::arguments::{BenchArguments, BenchSubcommand};
use gatepost_bench::outcome::RunOutcome;
use gatepost_bench::progress::RunProgress;
use gatepost_bench::scenario::Scenario;
use gatepost_bench::scenario::fanout::Fanout;
use gatepost_bench::scenario::idle::Idle;
use gatepost_bench::scenario::subscribe::SubscribeBurst;
use gatepost_bench::target::RunningTarget;

use broker::Faults;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    bench: BenchArguments,
}

fn command(words: &str) -> BenchSubcommand {
    CommandLine::parse_from(words.split_whitespace())
        .bench
        .command
}

fn target(faults: Faults) -> RunningTarget {
    let url = format!("mqtt://{}", broker::start_counting("127.0.0.1", faults).0);
    RunningTarget::from_endpoint(url.parse().expect("a URL"))
}

/// 10 subscribers at 2 topics, 100 messages each.
fn fanout(faults: Faults) -> RunOutcome {
    fanout_with(
        faults,
        "bench fanout --publishers 2 --subscribers 10 --rate 100 --size 100 --seconds 1 \
         --warm-up 0 --drain 1",
    )
}

fn fanout_with(faults: Faults, words: &str) -> RunOutcome {
    let BenchSubcommand::Fanout { scenario, .. } = command(words) else {
        panic!("another command");
    };
    let fanout = Fanout::new(*scenario).expect("settings");
    fanout
        .run(&target(faults), &RunProgress::hidden())
        .expect("an outcome")
}

fn counts(outcome: &RunOutcome) -> [u64; 3] {
    ["lost", "duplicates", "out of order"].map(|name| outcome.value(name).expect(name) as u64)
}

#[test]
fn a_faultless_broker_is_found_faultless() {
    let outcome = fanout(Faults::default());
    assert_eq!(counts(&outcome), [0, 0, 0]);
    assert_eq!(outcome.counts_by_second.iter().sum::<u64>(), 1_000);
    assert_eq!(outcome.latencies[0].summary.count, 1_000);
}

#[test]
fn dropped_messages_are_counted() {
    // Deliveries 7, 14, … 98 of each of the 10 subscribers.
    let outcome = fanout(Faults {
        drop_every: Some(7),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [140, 0, 0]);
    assert_eq!(outcome.latencies[0].summary.count, 860);
}

#[test]
fn a_drop_at_the_very_end_is_counted() {
    let outcome = fanout(Faults {
        drop_every: Some(100),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [10, 0, 0]);
}

#[test]
fn one_in_a_thousand_is_found() {
    // 2 subscribers of one topic, 2,500 messages each: the 1,000th and the 2,000th are dropped.
    let faults = Faults {
        drop_every: Some(1_000),
        ..Faults::default()
    };
    let words = "bench fanout --publishers 1 --subscribers 2 --rate 2500 --size 100 --seconds 1 \
                 --warm-up 0 --drain 1";
    let outcome = fanout_with(faults, words);
    assert_eq!(counts(&outcome), [4, 0, 0]);
    assert_eq!(outcome.latencies[0].summary.count, 4_996);
    assert!(
        outcome
            .warnings
            .contains(&"4 messages were lost".to_owned()),
        "{outcome:?}"
    );
}

#[test]
fn latencies_include_the_whole_delay() {
    let late = Duration::from_millis(80);
    let outcome = fanout(Faults {
        late: Some(late),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [0, 0, 0]);
    let latency = outcome.latencies[0].summary;
    // Every one of them, including the fastest; a histogram's value is accurate to 0.1 %.
    assert!(latency.minimum_us >= 79_900.0, "{latency:?}");
    assert_eq!(latency.count, 1_000);
}

#[test]
fn duplicates_are_counted() {
    let outcome = fanout(Faults {
        double_every: Some(10),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [0, 100, 0]);
    // The second arrival of a message is no delivery.
    assert_eq!(outcome.latencies[0].summary.count, 1_000);
    assert_eq!(outcome.counts_by_second.iter().sum::<u64>(), 1_000);
}

#[test]
fn a_rate_above_the_generators_limit_does_not_lengthen_the_run() {
    let words = "bench fanout --publishers 1 --subscribers 1 --rate 10000000 --size 100 \
                 --seconds 1 --warm-up 0 --drain 0.1";
    let begun = Instant::now();
    let outcome = fanout_with(Faults::default(), words);
    assert!(begun.elapsed() < Duration::from_mins(1));
    let says_so = |warning: &String| warning.contains("the generator could not send");
    assert!(outcome.warnings.iter().any(says_so), "{outcome:?}");
}

#[test]
fn messages_out_of_order_are_counted() {
    // Every 11th arrives one late: 9 times at each subscriber.
    let outcome = fanout(Faults {
        swap_every: Some(11),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [0, 0, 90]);
}

#[test]
fn a_stall_shows_in_every_message_that_was_due_meanwhile() {
    let stall = Duration::from_millis(200);
    let outcome = fanout(Faults {
        stall: Some((100, stall)),
        ..Faults::default()
    });
    assert_eq!(counts(&outcome), [0, 0, 0]);
    let latency = outcome.latencies[0].summary;
    assert!(latency.maximum_us >= 199_000.0, "{latency:?}");
    // 200 ms of 1,000 ms: a fifth of the messages were due during the stall, and waited 100 ms on
    // average. A generator that waited with its server would see one slow message in 200.
    assert!(latency.p90_us >= 90_000.0, "{latency:?}");
    assert!(latency.p50_us <= 50_000.0, "{latency:?}");
}

#[test]
fn refused_subscriptions_are_counted() {
    let words = "bench subscribe --users 5 --topics 100";
    let BenchSubcommand::Subscribe { scenario, .. } = command(words) else {
        panic!("another command");
    };
    let burst = SubscribeBurst::new(scenario).expect("settings");
    for (refuse_every, failed) in [(None, 0.0), (Some(25), 20.0)] {
        let target = target(Faults {
            refuse_every,
            ..Faults::default()
        });
        let outcome = burst
            .run(&target, &RunProgress::hidden())
            .expect("an outcome");
        assert_eq!(outcome.value("failed"), Some(failed));
        for user in 0..5 {
            let line = format!("user {user} login ok");
            assert!(outcome.original.contains(&line), "{line}");
        }
        let last = outcome.original.last().expect("lines");
        assert!(last.ends_with(&format!(" {}", 500.0 - failed)), "{last}");
    }
}

#[test]
fn a_login_counts_from_when_it_was_due() {
    let idle = |words: &str| {
        let BenchSubcommand::Idle { scenario, .. } = command(words) else {
            panic!("another command");
        };
        let slow_logins = Some(Duration::from_millis(10));
        let target = target(Faults {
            slow_logins,
            ..Faults::default()
        });
        let idle = Idle::new(scenario).expect("settings");
        idle.run(&target, &RunProgress::hidden()).expect("a result")
    };
    // All are due within 50 ms, and the last one is served after 500 ms.
    let outcome = idle("bench idle --connections 50 --connect-rate 1000 --seconds 0.1");
    let latency = outcome.latency_of("login").expect("latencies");
    assert_eq!(latency.count, 50);
    assert!(latency.minimum_us >= 9_900.0, "{latency:?}");
    assert!(latency.maximum_us >= 450_000.0, "{latency:?}");
    assert_eq!(outcome.value("offered"), Some(1_000.0));
    // The last of these is due after 180 ms.
    let outcome = idle("bench idle --connections 10 --connect-rate 50 --seconds 0.1");
    let seconds = outcome.value("time for all").expect("a time");
    assert!(seconds >= 0.18, "{outcome:?}");
    assert_eq!(outcome.latency_of("login").expect("latencies").count, 10);
    // Without a rate nothing is due at any time.
    let outcome = idle("bench idle --connections 10 --seconds 0.1");
    assert_eq!(outcome.latency_of("login").expect("latencies").count, 10);
    assert_eq!(outcome.value("offered"), None);
    assert_eq!(outcome.latency_of("schedule"), None);
}

/// As [`fanout`], at this quality of service.
fn fanout_at(qos: u8, faults: Faults) -> RunOutcome {
    let words = format!(
        "bench fanout --publishers 2 --subscribers 10 --rate 100 --size 100 --seconds 1 \
         --warm-up 0 --drain 1 --qos {qos}"
    );
    fanout_with(faults, &words)
}

#[test]
fn exchanges_are_completed_at_each_quality_of_service() {
    for qos in [1, 2] {
        // The broker sends a subscriber the next publication after the exchange of the last one.
        let outcome = fanout_at(qos, Faults::default());
        assert_eq!(counts(&outcome), [0, 0, 0], "{qos}");
        assert_eq!(outcome.value("unacknowledged"), Some(0.0), "{qos}");
        let latency = outcome.latency_of("acknowledgement").expect("latencies");
        assert_eq!(latency.count, 200, "{qos}");
    }
    let outcome = fanout(Faults::default());
    assert_eq!(outcome.value("unacknowledged"), None);
    assert!(outcome.latency_of("acknowledgement").is_none());
}

#[test]
fn missing_acknowledgements_are_counted() {
    for qos in [1, 2] {
        let outcome = fanout_at(
            qos,
            Faults {
                unacknowledged_every: Some(8),
                ..Faults::default()
            },
        );
        assert_eq!(counts(&outcome), [0, 0, 0], "{qos}");
        assert_eq!(outcome.value("unacknowledged"), Some(25.0), "{qos}");
        let warning = "25 publications were never acknowledged".to_owned();
        assert!(outcome.warnings.contains(&warning), "{outcome:?}");
    }
}

#[test]
fn latencies_of_acknowledgements_include_the_whole_delay() {
    let late = Duration::from_millis(3);
    for qos in [1, 2] {
        let outcome = fanout_at(
            qos,
            Faults {
                late_acknowledgements: Some(late),
                ..Faults::default()
            },
        );
        let latency = outcome.latency_of("acknowledgement").expect("latencies");
        assert!(latency.minimum_us >= 2_990.0, "{latency:?}");
        assert_eq!(latency.count, 200);
    }
}
