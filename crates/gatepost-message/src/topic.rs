//! Topics and topic filters, as MQTT 5 section 4.7 defines them, for all protocols.
//!
//! Both are checked once, when they are constructed; code with a [`Topic`] or a [`TopicFilter`]
//! need not check again. A topic is a shared string, so cloning it only increments a reference
//! count.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// MQTT's own limit: a UTF-8 string of two length bytes \[MQTT-4.7.3-3\].
pub const TOPIC_BYTES_MAX: usize = 65_535;
/// Deeper topics are refused: matching takes one step per level, so depth costs time.
pub const TOPIC_LEVELS_MAX: usize = 128;

/// An invalid topic or filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// \[MQTT-4.7.3-1\]
    #[error("a topic has at least one character")]
    Empty,
    /// \[MQTT-4.7.3-3\]
    #[error("a topic has at most {TOPIC_BYTES_MAX} bytes")]
    TooLong,
    /// A limit of Gatepost, not of MQTT.
    #[error("a topic has at most {TOPIC_LEVELS_MAX} levels")]
    TooDeep,
    /// \[MQTT-4.7.3-2\]
    #[error("a topic holds no NUL character")]
    Nul,
    /// \[MQTT-3.3.2-2\]: wildcards belong to filters.
    #[error("a topic to publish to must not contain a wildcard ('+' or '#')")]
    Wildcard,
    /// \[MQTT-4.7.1-1\]
    #[error("'#' stands alone in the last level of a filter")]
    MisplacedHash,
    /// \[MQTT-4.7.1-2\]
    #[error("'+' stands alone in its level of a filter")]
    MisplacedPlus,
}

fn check_common(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong);
    }
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(TopicError::Nul);
    }
    if memchr::memchr_iter(b'/', text.as_bytes()).count() >= TOPIC_LEVELS_MAX {
        return Err(TopicError::TooDeep);
    }
    Ok(())
}

fn has_wildcard(text: &str) -> bool {
    memchr::memchr2(b'+', b'#', text.as_bytes()).is_some()
}

/// The name that a message is published under; older systems call it a subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// A topic, if `text` is valid.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        Self::check(text)?;
        Ok(Self(Arc::from(text)))
    }

    /// Checks a name without creating a topic, for callers that store the text elsewhere.
    pub fn check(text: &str) -> Result<(), TopicError> {
        check_common(text)?;
        if has_wildcard(text) {
            return Err(TopicError::Wildcard);
        }
        Ok(())
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is one of the server's own topics (`$SYS/…`), which no leading wildcard matches
    /// \[MQTT-4.7.2-1\].
    pub fn is_internal(&self) -> bool {
        self.0.starts_with('$')
    }
}

/// Whether a client may publish to this topic although it is the server's: the state of its own
/// bridge, `$SYS/broker/connection/CLIENT-ID/state`. mosquitto publishes it at the remote broker,
/// and sets it as its will, unless it is configured otherwise.
///
/// Only for client ids with a dot, as those of bridges have by default: the state of a sink's
/// bridge is at the sink's name, which has no dot, so that no client can publish that.
pub fn is_bridge_state(topic: &str, client_id: &str) -> bool {
    let name = topic
        .strip_prefix("$SYS/broker/connection/")
        .and_then(|rest| rest.strip_suffix("/state"));
    name == Some(client_id) && client_id.contains('.') && !client_id.contains('/')
}

/// The longest payload of a [bridge's state](is_bridge_state): `0` or `1`.
pub const BRIDGE_STATE_BYTES_MAX: usize = 1;

impl fmt::Display for Topic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", &*self.0)
    }
}

/// Topics are ordered and hashed as their names are, so a map of topics can be searched by a name.
impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Topic {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Filters are ordered and hashed as their texts are, like topics.
impl Borrow<str> for TopicFilter {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A subscriber's request: a topic in which `+` stands for one level and a final `#` for the parent
/// level and everything below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter(Arc<str>);

impl TopicFilter {
    /// A filter, if `text` is valid. Shared subscriptions (`$share/…`) are handled by the broker;
    /// here they are filters like any other.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        check_common(text)?;
        if !has_wildcard(text) {
            return Ok(Self(Arc::from(text)));
        }
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            if level.contains('#') && (level != "#" || levels.peek().is_some()) {
                return Err(TopicError::MisplacedHash);
            }
            if level.contains('+') && level != "+" {
                return Err(TopicError::MisplacedPlus);
            }
        }
        Ok(Self(Arc::from(text)))
    }

    /// The filter that matches every topic except the server's own.
    pub fn everything() -> Self {
        Self(Arc::from("#"))
    }

    /// The whole filter.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the filter contains a wildcard.
    pub fn has_wildcard(&self) -> bool {
        has_wildcard(&self.0)
    }

    /// Whether `topic` matches this filter (MQTT 5 section 4.7). For one pair; the broker's tree
    /// finds all matching filters at once.
    pub fn matches(&self, topic: &str) -> bool {
        if topic.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false; // [MQTT-4.7.2-1]
        }
        let mut names = topic.split('/');
        for level in self.0.split('/') {
            if level == "#" {
                return true;
            }
            match names.next() {
                Some(name) if level == "+" || level == name => {}
                _ => return false,
            }
        }
        names.next().is_none()
    }
}

/// Whether the filter `outer` matches every topic that the filter `inner` matches.
pub fn filter_covers(outer: &str, inner: &str) -> bool {
    if outer.starts_with(['+', '#']) && inner.starts_with('$') {
        return false; // [MQTT-4.7.2-1]
    }
    let mut inner_levels = inner.split('/');
    for level in outer.split('/') {
        if level == "#" {
            return true;
        }
        match inner_levels.next() {
            Some("#") | None => return false,
            Some(name) if level == "+" || level == name => {}
            Some(_) => return false,
        }
    }
    inner_levels.next().is_none()
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for TopicFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of MQTT 5 section 4.7, and the edge cases that brokers often get wrong.
    #[test]
    fn filters_match_as_in_the_standard() {
        let cases = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            (
                "sport/tennis/player1/#",
                "sport/tennis/player1/ranking",
                true,
            ),
            ("sport/#", "sport", true),
            ("#", "sport/tennis", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/uptime", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/monitor/Clients", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("ACCOUNTS", "Accounts", false),
            ("a//b", "a//b", true),
            ("a/+/b", "a//b", true),
        ];
        for (filter, topic, expected) in cases {
            let filter = TopicFilter::new(filter).expect("a valid filter");
            assert_eq!(filter.matches(topic), expected, "{filter} on {topic}");
        }
    }

    #[test]
    fn malformed_names_have_an_explanation() {
        assert_eq!(Topic::new(""), Err(TopicError::Empty));
        assert_eq!(Topic::new("a/+"), Err(TopicError::Wildcard));
        assert_eq!(Topic::new("a\0b"), Err(TopicError::Nul));
        assert_eq!(Topic::new(&"a".repeat(65_536)), Err(TopicError::TooLong));
        assert_eq!(Topic::new(&"/".repeat(128)), Err(TopicError::TooDeep));
        assert_eq!(TopicFilter::new("a/#/b"), Err(TopicError::MisplacedHash));
        assert_eq!(TopicFilter::new("a#"), Err(TopicError::MisplacedHash));
        assert_eq!(TopicFilter::new("a+/b"), Err(TopicError::MisplacedPlus));
    }
}
