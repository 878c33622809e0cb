//! Mistakes in the settings of alarms that no single value reveals.

use std::collections::BTreeSet;

use gatepost_message::{Topic, TopicFilter};

use crate::settings::AlarmSettings;

/// A mistake: the key, as in `alarm.0.silence`, and what is wrong with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmMistake {
    /// The dotted key.
    pub key: String,
    /// The cause and the remedy.
    pub reason: String,
}

/// The mistakes in the settings of all alarms.
pub fn mistakes(alarms: &[AlarmSettings]) -> Vec<AlarmMistake> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (number, alarm) in alarms.iter().enumerate() {
        let mut add = |field: &str, reason: String| {
            let key = format!("alarm.{number}.{field}");
            found.push(AlarmMistake { key, reason });
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if alarm.name.is_empty() || !alarm.name.chars().all(is_plain) {
            add("name", "a name has letters, digits, '-' and '_'".to_owned());
        } else if !names.insert(alarm.name.as_str()) {
            add("name", "another alarm has this name".to_owned());
        }
        if let Err(error) = TopicFilter::new(&alarm.filter) {
            add("filter", format!("write the topics to watch: {error}"));
        }
        if !alarm.topic.is_empty() {
            match Topic::new(&alarm.topic) {
                Err(error) => add("topic", error.to_string()),
                Ok(topic) if topic.is_internal() => {
                    let reason = "topics that begin with $ are the server's";
                    add("topic", reason.to_owned());
                }
                Ok(_) => {}
            }
        }
        for (field, reason) in of_values(alarm) {
            add(field, reason.to_owned());
        }
    }
    found
}

fn of_values(alarm: &AlarmSettings) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    if alarm.silence.duration().is_zero() && !alarm.has_limit() {
        found.push((
            "silence",
            "nothing raises this alarm; write silence, above or below",
        ));
    }
    for (field, value) in [
        ("above", alarm.above.unwrap_or_default()),
        ("below", alarm.below.unwrap_or_default()),
    ] {
        if !value.is_finite() {
            found.push((field, "write a number"));
        }
    }
    if !(alarm.hysteresis.is_finite() && alarm.hysteresis >= 0.0) {
        found.push(("hysteresis", "write a number that is not negative"));
    }
    if let (Some(above), Some(below)) = (alarm.above, alarm.below)
        && above - alarm.hysteresis < below + alarm.hysteresis
    {
        found.push((
            "hysteresis",
            "no value between below and above would clear the alarm",
        ));
    }
    if !(1..=5).contains(&alarm.priority) {
        found.push(("priority", "write a number from 1 to 5"));
    }
    if alarm.topics_max == 0 {
        found.push(("topics_max", "write the number of topics, at least 1"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_settings::Period;

    fn alarm(change: impl FnOnce(&mut AlarmSettings)) -> AlarmSettings {
        let mut alarm = AlarmSettings {
            name: "freezer".to_owned(),
            filter: "freezer/#".to_owned(),
            silence: Period::seconds(60),
            above: Some(8.0),
            ..AlarmSettings::default()
        };
        change(&mut alarm);
        alarm
    }

    #[test]
    fn each_mistake_is_found_at_its_key() {
        assert_eq!(mistakes(&[alarm(|_| {})]), []);
        for (key, wrong) in [
            ("alarm.0.name", alarm(|alarm| alarm.name = "a/b".to_owned())),
            ("alarm.0.filter", alarm(|alarm| alarm.filter.clear())),
            (
                "alarm.0.topic",
                alarm(|alarm| alarm.topic = "a/#".to_owned()),
            ),
            (
                "alarm.0.topic",
                alarm(|alarm| alarm.topic = "$SYS/a".to_owned()),
            ),
            (
                "alarm.0.silence",
                alarm(|alarm| {
                    alarm.silence = Period::seconds(0);
                    alarm.above = None;
                }),
            ),
            (
                "alarm.0.above",
                alarm(|alarm| alarm.above = Some(f64::INFINITY)),
            ),
            ("alarm.0.hysteresis", alarm(|alarm| alarm.hysteresis = -1.0)),
            (
                "alarm.0.hysteresis",
                alarm(|alarm| (alarm.below, alarm.hysteresis) = (Some(4.0), 3.0)),
            ),
            ("alarm.0.priority", alarm(|alarm| alarm.priority = 6)),
            ("alarm.0.topics_max", alarm(|alarm| alarm.topics_max = 0)),
        ] {
            let found = mistakes(std::slice::from_ref(&wrong));
            let keys: Vec<&str> = found.iter().map(|mistake| mistake.key.as_str()).collect();
            assert_eq!(keys, [key], "{found:?}");
        }
        let twice = mistakes(&[alarm(|_| {}), alarm(|_| {})]);
        assert_eq!(twice[0].key, "alarm.1.name");
    }
}
