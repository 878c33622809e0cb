//! Topics and payloads of Eclipse Sparkplug B that the server itself must understand: the birth
//! certificates of edge nodes and devices, and the deaths of edge nodes.
//!
//! A Sparkplug aware server (Sparkplug 3.0, chapter 10.1.4) keeps a copy of each birth certificate,
//! retained, below [`CERTIFICATES`], and may set the time in the payload of an NDEATH.
//!
//! Invariant: only topics of exactly the levels of the specification are recognised, so a topic has
//! at most one copy, and two topics never share one.

mod payload;

pub use payload::{MalformedPayload, with_timestamp};

/// The beginning of the topics of birth certificates: the copy of a publication has its topic after
/// this.
pub const CERTIFICATES: &str = "$sparkplug/certificates/";

/// The first level of every topic of Sparkplug B.
const NAMESPACE: &str = "spBv1.0";

/// The filters of all births, and of few other topics.
pub const BIRTHS: [&str; 2] = ["spBv1.0/+/NBIRTH/+", "spBv1.0/+/DBIRTH/+/+"];

/// The meaning of a topic of Sparkplug B for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparkplugTopic {
    /// NBIRTH or DBIRTH: the birth certificate of an edge node or a device.
    Birth,
    /// NDEATH: the edge node has no connection any more.
    NodeDeath,
}

impl SparkplugTopic {
    /// The filters of all births, and of few other topics.
    pub const BIRTHS: [&str; 2] = ["spBv1.0/+/NBIRTH/+", "spBv1.0/+/DBIRTH/+/+"];

    /// The meaning of a topic; `None` for all others.
    pub fn of(topic: &str) -> Option<Self> {
        let mut levels = topic.strip_prefix(NAMESPACE)?.strip_prefix('/')?.split('/');
        let mut next = || levels.next().filter(|level| !level.is_empty());
        let (_group, kind, _node) = (next()?, next()?, next()?);
        let device = next();
        let ends = levels.next().is_none() && !topic.ends_with('/');
        match (kind, device) {
            ("NBIRTH", None) | ("DBIRTH", Some(_)) if ends => Some(Self::Birth),
            ("NDEATH", None) if ends => Some(Self::NodeDeath),
            _ => None,
        }
    }
}

/// Whether a topic is that of a birth certificate's copy.
pub fn is_certificate(topic: &str) -> bool {
    certified_topic(topic).is_some()
}

/// The topic, or the filter of topics, of which this one names the copies.
pub fn certified_topic(name: &str) -> Option<&str> {
    name.strip_prefix(CERTIFICATES)
        .filter(|original| !original.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn births_and_deaths_have_the_levels_of_the_specification() {
        use SparkplugTopic::{Birth, NodeDeath};
        for (topic, meaning) in [
            ("spBv1.0/G/NBIRTH/E", Some(Birth)),
            ("spBv1.0/G/DBIRTH/E/D", Some(Birth)),
            ("spBv1.0/G/NDEATH/E", Some(NodeDeath)),
            ("spBv1.0/NBIRTH/NBIRTH/NBIRTH", Some(Birth)),
            ("spBv1.0/G/NBIRTH/E/D", None),
            ("spBv1.0/G/NBIRTH/E/", None),
            ("spBv1.0/G/NBIRTH/", None),
            ("spBv1.0/G/NBIRTH", None),
            ("spBv1.0//NBIRTH/E", None),
            ("spBv1.0/G/DBIRTH/E", None),
            ("spBv1.0/G/DBIRTH/E/", None),
            ("spBv1.0/G/DBIRTH//D", None),
            ("spBv1.0/G/DBIRTH/E/D/x", None),
            ("spBv1.0/G/NDEATH/E/D", None),
            ("spBv1.0/G/DDEATH/E/D", None),
            ("spBv1.0/G/NDATA/E", None),
            ("spBv1.0/G/nbirth/E", None),
            ("spbv1.0/G/NBIRTH/E", None),
            ("spBv1.0/STATE/host", None),
            ("spBv1.0x/G/NBIRTH/E", None),
            ("x/spBv1.0/G/NBIRTH/E", None),
            ("$sparkplug/certificates/spBv1.0/G/NBIRTH/E", None),
            ("spBv1.0", None),
            ("", None),
        ] {
            assert_eq!(SparkplugTopic::of(topic), meaning, "{topic}");
        }
    }

    #[test]
    fn copies_are_below_their_own_topic() {
        let copy = "$sparkplug/certificates/spBv1.0/G/NBIRTH/E";
        assert_eq!(certified_topic(copy), Some("spBv1.0/G/NBIRTH/E"));
        assert!(is_certificate(copy));
        for other in [
            "$sparkplug/certificates/",
            "$sparkplug/certificates",
            "$sparkplug/x",
            "sparkplug/certificates/x",
            "$SYS/x",
        ] {
            assert!(!is_certificate(other), "{other}");
        }
    }
}
