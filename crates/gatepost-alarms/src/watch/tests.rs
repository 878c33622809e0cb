//! Messages and times as inputs, and the resulting changes.

use gatepost_settings::Period;

use super::*;
use crate::limit::AlarmCause;

/// A watch with a clock that the test moves.
struct Fixture {
    watch: AlarmWatch,
    now: AlarmMoment,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut AlarmSettings)) -> Self {
        let mut settings = AlarmSettings {
            name: "freezer".to_owned(),
            filter: "freezer/+".to_owned(),
            ..AlarmSettings::default()
        };
        change(&mut settings);
        let filter = TopicFilter::new(&settings.filter).expect("a filter");
        let now = AlarmMoment {
            steady: Duration::ZERO,
            unix_ms: 1_800_000_000_000,
        };
        let mut watch = AlarmWatch::new(&settings, &filter);
        watch.begin(now);
        Self { watch, now }
    }

    /// Seconds pass, and each is checked.
    fn pass(&mut self, seconds: u64) -> Vec<String> {
        for _ in 0..seconds {
            self.now.steady += Duration::from_secs(1);
            self.now.unix_ms += 1_000;
            self.watch.elapse(self.now);
        }
        self.notices()
    }

    fn observe(&mut self, topic: &str, payload: &str) -> Vec<String> {
        self.watch.observe(message(topic, payload), self.now);
        self.notices()
    }

    fn notices(&mut self) -> Vec<String> {
        let changes = self.watch.take_changes();
        let notices: Vec<Notice> = changes
            .into_iter()
            .filter_map(|change| change.notice)
            .collect();
        for notice in &notices {
            if notice.state == NoticeState::Raised {
                self.watch.announced(&notice.topic, "alarms/freezer");
            }
        }
        let lines = notices.iter().map(|notice| {
            let state = match notice.state {
                NoticeState::Raised => "raised",
                NoticeState::Cleared => "cleared",
            };
            format!("{} {state} {}", notice.topic, notice.raised.cause.name())
        });
        lines.collect()
    }
}

fn message<'a>(topic: &'a str, payload: &'a str) -> ObservedMessage<'a> {
    ObservedMessage {
        topic,
        payload: payload.as_bytes(),
        retain: false,
    }
}

fn silence(settings: &mut AlarmSettings) {
    settings.silence = Period::seconds(600);
}

fn limit(settings: &mut AlarmSettings) {
    (settings.above, settings.hysteresis) = (Some(8.0), 1.0);
}

const NOTHING: [&str; 0] = [];

#[test]
fn each_topic_that_falls_silent_is_published_once_and_its_return_too() {
    let mut fixture = Fixture::new(silence);
    assert_eq!(fixture.pass(2_000), NOTHING, "no topic is known");
    fixture.observe("freezer/1", "x");
    fixture.pass(300);
    fixture.observe("freezer/2", "x");
    assert_eq!(fixture.pass(299), NOTHING);
    assert_eq!(fixture.pass(1), ["freezer/1 raised silence"]);
    assert_eq!(fixture.pass(300), ["freezer/2 raised silence"]);
    assert_eq!(fixture.pass(10_000), NOTHING);
    assert_eq!(
        fixture.observe("freezer/1", ""),
        ["freezer/1 cleared silence"]
    );
    for _ in 0..100 {
        assert_eq!(fixture.pass(599), NOTHING);
        assert_eq!(fixture.observe("freezer/1", ""), NOTHING);
    }
    assert_eq!(
        fixture.watch.due.len(),
        1,
        "one moment for each topic at most"
    );
}

#[test]
fn a_topic_that_is_named_is_missed_though_it_never_spoke() {
    let mut fixture = Fixture::new(|settings| {
        silence(settings);
        settings.filter = "backup/done".to_owned();
    });
    assert_eq!(fixture.pass(600), ["backup/done raised silence"]);
}

#[test]
fn a_value_is_published_when_it_holds_and_when_it_is_back() {
    let mut fixture = Fixture::new(|settings| {
        limit(settings);
        settings.hold = Period::seconds(60);
    });
    fixture.observe("freezer/1", "9");
    fixture.pass(59);
    fixture.observe("freezer/1", "6");
    assert_eq!(fixture.pass(100), NOTHING, "a short peak");
    fixture.observe("freezer/1", "9");
    assert_eq!(
        fixture.pass(60),
        ["freezer/1 raised above"],
        "without another message"
    );
    assert_eq!(fixture.observe("freezer/1", "7.5"), NOTHING);
    assert_eq!(fixture.observe("freezer/1", "no number"), NOTHING);
    assert_eq!(
        fixture.observe("freezer/1", "7"),
        ["freezer/1 cleared above"]
    );
}

#[test]
fn silence_replaces_a_value_alarm_and_restores_it() {
    let mut fixture = Fixture::new(|settings| {
        silence(settings);
        limit(settings);
    });
    assert_eq!(
        fixture.observe("freezer/1", "9"),
        ["freezer/1 raised above"]
    );
    assert_eq!(fixture.pass(600), ["freezer/1 raised silence"]);
    assert_eq!(
        fixture.observe("freezer/1", "9"),
        ["freezer/1 raised above"]
    );
    assert_eq!(
        fixture.observe("freezer/1", "1"),
        ["freezer/1 cleared above"]
    );
}

#[test]
fn reminders_end_with_the_acknowledgement() {
    let mut fixture = Fixture::new(|settings| {
        limit(settings);
        settings.repeat = Period::seconds(100);
    });
    fixture.observe("freezer/1", "9");
    assert_eq!(fixture.pass(250).len(), 2);
    assert_eq!(fixture.watch.acknowledge(Some("freezer/2"), "ann"), 0);
    assert_eq!(fixture.watch.acknowledge(None, "ann"), 1);
    assert_eq!(fixture.pass(1_000), NOTHING);
    assert_eq!(
        fixture.observe("freezer/1", "1"),
        ["freezer/1 cleared above"]
    );
    assert_eq!(
        fixture.observe("freezer/1", "9"),
        ["freezer/1 raised above"]
    );
    assert_eq!(
        fixture.pass(100).len(),
        1,
        "a new alarm is not acknowledged"
    );
}

#[test]
fn a_snoozed_alarm_is_published_at_the_end_if_it_lasts() {
    let mut fixture = Fixture::new(limit);
    fixture.observe("freezer/1", "1");
    let hour = Duration::from_hours(1);
    assert_eq!(
        fixture.watch.snooze(Some("freezer/1"), hour, fixture.now),
        1
    );
    assert_eq!(fixture.observe("freezer/1", "9"), NOTHING);
    assert_eq!(
        fixture.observe("freezer/1", "1"),
        NOTHING,
        "it was never published"
    );
    assert_eq!(fixture.observe("freezer/1", "9"), NOTHING);
    assert_eq!(fixture.pass(3_599), NOTHING);
    assert_eq!(fixture.pass(1), ["freezer/1 raised above"]);
    fixture.watch.snooze(None, hour, fixture.now);
    fixture.pass(10);
    fixture.watch.snooze(None, Duration::ZERO, fixture.now);
    assert_eq!(fixture.notices(), ["freezer/1 raised above"], "taken back");
}

#[test]
fn a_restart_neither_repeats_nor_forgets() {
    let mut fixture = Fixture::new(|settings| {
        silence(settings);
        limit(settings);
    });
    let topics = ["freezer/1", "freezer/2"].map(Arc::<str>::from);
    let raised = |cause| RaisedAlarm {
        cause,
        value: Some(9.0),
        since_unix_ms: 5,
        acknowledged_by: None,
        announced_on: Some("alarms/freezer/freezer/1".to_owned()),
    };
    let (now, heard) = (fixture.now, fixture.now.unix_ms - 700_000);
    let above = Some(raised(AlarmCause::Above));
    fixture.watch.restore(
        &topics[0],
        heard,
        Some(raised(AlarmCause::Silence)),
        None,
        now,
    );
    fixture
        .watch
        .restore(&topics[1], now.unix_ms, above, None, now);
    // The history has the last messages, from before.
    fixture
        .watch
        .observe_earlier(message("freezer/1", "1"), heard, now);
    fixture
        .watch
        .observe_earlier(message("freezer/2", "9"), now.unix_ms, now);
    fixture
        .watch
        .observe_earlier(message("freezer/9", "9"), heard, now);
    assert_eq!(fixture.notices(), NOTHING);
    assert_eq!(
        fixture.watch.topics().len(),
        2,
        "freezer/9 was silent already"
    );
    assert_eq!(
        fixture.observe("freezer/1", "1"),
        ["freezer/1 cleared silence"]
    );
    assert_eq!(
        fixture.observe("freezer/2", "1"),
        ["freezer/2 cleared above"]
    );
}

#[test]
fn clients_may_come_back_after_a_restart() {
    let mut fixture = Fixture::new(silence);
    let topic = Arc::from("freezer/1");
    let (now, heard) = (fixture.now, fixture.now.unix_ms - 550_000);
    fixture.watch.restore(&topic, heard, None, None, now);
    assert_eq!(fixture.pass(119), NOTHING);
    assert_eq!(fixture.pass(1), ["freezer/1 raised silence"]);
}

#[test]
fn a_removed_device_is_forgotten() {
    let mut fixture = Fixture::new(silence);
    fixture.observe("freezer/1", "x");
    fixture.pass(600);
    let removal = ObservedMessage {
        retain: true,
        ..message("freezer/1", "")
    };
    fixture.watch.observe(removal, fixture.now);
    assert_eq!(fixture.notices(), ["freezer/1 cleared silence"]);
    assert_eq!(fixture.pass(2_000), NOTHING);
    assert!(fixture.watch.due.is_empty());
}

#[test]
fn topics_beyond_the_bound_are_counted() {
    let mut fixture = Fixture::new(|settings| {
        silence(settings);
        settings.topics_max = 10;
    });
    for number in 0..1_000 {
        fixture.observe(&format!("freezer/{number}"), "x");
    }
    assert_eq!(fixture.watch.topics().len(), 10);
    assert_eq!(fixture.watch.unwatched(), 990);
    assert_eq!(fixture.pass(600).len(), 10);
}

#[test]
fn a_notice_that_could_not_be_published_is_published_later() {
    let mut fixture = Fixture::new(limit);
    fixture
        .watch
        .observe(message("freezer/1", "9"), fixture.now);
    let changes = fixture.watch.take_changes();
    let notice = changes.iter().find_map(|change| change.notice.as_ref());
    let topic = notice.expect("raised").topic.clone();
    fixture.watch.not_announced(&topic, fixture.now);
    assert_eq!(fixture.pass(10), ["freezer/1 raised above"]);
}
