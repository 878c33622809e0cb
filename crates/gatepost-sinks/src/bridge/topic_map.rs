//! The topics that a bridge carries, and their names at the other broker: the lines of mosquitto's
//! `topic` option, `PATTERN [DIRECTION [QOS [LOCAL [REMOTE]]]]`.

use std::fmt;
use std::str::FromStr;

use gatepost_broker::RequestedFilter;
use gatepost_message::{Qos, TopicFilter};

/// The direction of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
    Both,
}

/// One line: a pattern, and the prefix in front of it on each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicMap {
    pattern: String,
    direction: Direction,
    pub(super) qos: Qos,
    local: TopicMapSide,
    remote: TopicMapSide,
}

/// The prefix and the whole filter of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TopicMapSide {
    prefix: String,
    filter: TopicFilter,
}

impl TopicMapSide {
    fn new(prefix: &str, pattern: &str) -> Result<Self, MalformedTopicMap> {
        let text = format!("{prefix}{pattern}");
        let wrong = |what| MalformedTopicMap(format!("'{text}': {what}"));
        if prefix.contains(['#', '+']) {
            return Err(wrong("a prefix has no wildcard".to_owned()));
        }
        let filter = RequestedFilter::new(&text).map_err(|error| wrong(error.to_string()))?;
        if filter.share.is_some() {
            return Err(wrong("shared subscriptions cannot be mapped".to_owned()));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
            filter: filter.text,
        })
    }
}

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MalformedTopicMap(String);

impl fmt::Display for MalformedTopicMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for TopicMap {
    type Err = MalformedTopicMap;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let wrong = |what: &str| {
            let shape = "PATTERN [out|in|both [QOS [LOCAL [REMOTE]]]]";
            MalformedTopicMap(format!("'{line}': {what}; it looks like {shape}"))
        };
        let mut words = line.split_whitespace().map(|word| match word {
            // mosquitto's notation for an empty prefix.
            "\"\"" | "''" => "",
            word => word,
        });
        let pattern = words
            .next()
            .ok_or_else(|| wrong("the pattern is missing"))?;
        let direction = match words.next() {
            None | Some("out") => Direction::Out,
            Some("in") => Direction::In,
            Some("both") => Direction::Both,
            Some(_) => return Err(wrong("the direction is out, in or both")),
        };
        let qos = match words.next() {
            None => Qos::AtMostOnce,
            Some(level) => level
                .parse()
                .ok()
                .and_then(Qos::from_level)
                .ok_or_else(|| wrong("the QoS is 0, 1 or 2"))?,
        };
        let (local, remote) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if words.next().is_some() {
            return Err(wrong("the line has too many words"));
        }
        Ok(Self {
            pattern: pattern.to_owned(),
            direction,
            qos,
            local: TopicMapSide::new(local, pattern)?,
            remote: TopicMapSide::new(remote, pattern)?,
        })
    }
}

impl TopicMap {
    /// The filter to subscribe to at this broker, if messages are sent.
    pub(super) fn local_filter(&self) -> Option<&TopicFilter> {
        (self.direction != Direction::In).then_some(&self.local.filter)
    }

    /// The filter to subscribe to at the other broker, if messages are received.
    pub(super) fn remote_filter(&self) -> Option<&TopicFilter> {
        (self.direction != Direction::Out).then_some(&self.remote.filter)
    }
}

/// All lines of a bridge. The first line that matches a topic determines its name.
#[derive(Debug, Clone, Default)]
pub(super) struct TopicMaps(pub(super) Vec<TopicMap>);

impl TopicMaps {
    /// The name that a local topic has at the other broker.
    pub(super) fn outward(&self, topic: &str) -> Option<String> {
        let goes_out = |map: &&TopicMap| map.local_filter().is_some();
        self.0
            .iter()
            .filter(goes_out)
            .find_map(|map| renamed(topic, &map.local, &map.remote))
    }

    /// The name that a topic of the other broker has here.
    pub(super) fn inward(&self, topic: &str) -> Option<String> {
        let comes_in = |map: &&TopicMap| map.remote_filter().is_some();
        self.0
            .iter()
            .filter(comes_in)
            .find_map(|map| renamed(topic, &map.remote, &map.local))
    }
}

fn renamed(topic: &str, from: &TopicMapSide, to: &TopicMapSide) -> Option<String> {
    let rest = topic
        .strip_prefix(&from.prefix)
        .filter(|_| from.filter.matches(topic))?;
    Some(format!("{}{rest}", to.prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(lines: &[&str]) -> TopicMaps {
        TopicMaps(lines.iter().map(|line| line.parse().expect(line)).collect())
    }

    #[test]
    fn topics_are_named_as_mosquitto_names_them() {
        let maps = maps(&[
            "# out 1 sensors/ site1/sensors/",
            "cmd/+ in 2 \"\" site1/",
            "\"\" both 0 here/one there/two",
            "plain both",
        ]);
        for (here, there) in [
            ("sensors/a/b", Some("site1/sensors/a/b")),
            ("cmd/x", None),
            ("here/one", Some("there/two")),
            ("here/one/more", None),
            ("plain", Some("plain")),
            ("other", None),
        ] {
            assert_eq!(maps.outward(here).as_deref(), there, "{here}");
        }
        for (there, here) in [
            ("site1/cmd/x", Some("cmd/x")),
            ("site1/sensors/a", None),
            ("there/two", Some("here/one")),
            ("plain", Some("plain")),
        ] {
            assert_eq!(maps.inward(there).as_deref(), here, "{there}");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in [
            "",
            "\"\"",
            "a sideways",
            "a out 3",
            "a out x",
            "a/# out 0 b+/ c/",
            "# out 0 a b#",
            "a out 0 b c d",
            "$share/g/a in",
            "a#",
        ] {
            assert!(line.parse::<TopicMap>().is_err(), "{line}");
        }
    }
}
