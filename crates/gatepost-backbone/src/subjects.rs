//! Topics as NATS subjects.
//!
//! A level of a topic becomes a token of a subject. Characters that have a meaning in a subject are
//! written `%XX`, an empty level `%`: two topics never have the same subject, and a filter's
//! subjects match the topics that the filter matches, and sometimes more. The broker's own filters
//! decide which publications are delivered.
//!
//! Topics whose subject would be too long for a line of the protocol share one subject, which every
//! node subscribes to.

use gatepost_message::{MessageId, Topic, TopicFilter};
use sha2::{Digest, Sha256};
use smallvec::{SmallVec, smallvec};

use crate::node_epoch::NodeStreamId;

/// The longest subject of a topic, in bytes: a line of the protocol has 4,096 at most.
const SUBJECT_BYTES_MAX: usize = 2_048;
/// The token of topics that are too long. No level becomes it: two digits follow each `%`.
const LONG: &str = "%long";
/// The first character of a token that is no character of its level.
const ESCAPE: char = '%';

/// The subjects and streams of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Subjects {
    cluster: String,
}

/// The stream of some lessons, and its subjects.
#[derive(Debug, Clone)]
pub(crate) struct LessonSubjects {
    pub(crate) stream: String,
    prefix: String,
    /// The content of the stream, for operators.
    pub(crate) content: &'static str,
}

impl LessonSubjects {
    /// All subjects.
    pub(crate) fn all(&self) -> String {
        format!("{}.>", self.prefix)
    }

    /// The subject of lessons.
    pub(crate) fn lessons(&self) -> String {
        format!("{}.lessons", self.prefix)
    }

    /// The subject of the notes of complete snapshots.
    pub(crate) fn snapshots(&self) -> String {
        format!("{}.snapshots", self.prefix)
    }

    /// The subject of the pieces of one snapshot.
    pub(crate) fn snapshot(&self, number: u64) -> String {
        format!("{}.snapshot.{number:016x}", self.prefix)
    }

    /// The subjects of the pieces of all snapshots.
    pub(crate) fn snapshot_pieces(&self) -> String {
        format!("{}.snapshot.>", self.prefix)
    }
}

impl Subjects {
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
        }
    }

    /// The subject of a topic's publications.
    pub(crate) fn publication(&self, topic: &Topic) -> String {
        let subject = self.escaped("q", topic.as_str());
        if subject.len() > SUBJECT_BYTES_MAX {
            return self.long_topics();
        }
        subject
    }

    /// The subject of all publications whose topic is too long for one of its own.
    pub(crate) fn long_topics(&self) -> String {
        format!("{}.q.{LONG}", self.cluster)
    }

    /// The subject under which a topic's retained message is stored.
    pub(crate) fn retained(&self, topic: &Topic) -> String {
        let subject = self.escaped("r", topic.as_str());
        if subject.len() <= SUBJECT_BYTES_MAX {
            return subject;
        }
        let digest: [u8; 32] = Sha256::digest(topic.as_str()).into();
        let mut subject = format!("{}.r.{LONG}.", self.cluster);
        for byte in digest {
            push_hex(&mut subject, byte);
        }
        subject
    }

    /// The subject of a partition of the log.
    pub(crate) fn partition(&self, number: u16) -> String {
        format!("{}.p.{number}", self.cluster)
    }

    /// The subject of a node's stream.
    pub(crate) fn node_stream(&self, id: NodeStreamId) -> String {
        format!("{}.n.{}.{:x}", self.cluster, id.node, id.epoch)
    }

    /// The subjects of all nodes' streams.
    pub(crate) fn node_streams(&self) -> String {
        format!("{}.n.>", self.cluster)
    }

    /// All subjects of the cluster.
    pub(crate) fn all(&self) -> String {
        format!("{}.>", self.cluster)
    }

    /// A subject to which no node subscribes but the one that tries its permissions. Nodes that are
    /// joining have subscribed to others, and do not answer yet.
    pub(crate) fn trial(&self, inbox: &str) -> String {
        format!("{}.trial.{inbox}", self.cluster)
    }

    /// All subjects of retained messages.
    pub(crate) fn all_retained(&self) -> String {
        format!("{}.r.>", self.cluster)
    }

    /// The subject of one mail in a user's mailbox.
    pub(crate) fn mail(&self, user: &str, id: MessageId) -> String {
        // A user's name is too short for a subject that does not fit a line.
        format!("{}.{:016x}", self.escaped("mail.box", user), id.number())
    }

    /// The subject of one mail in quarantine: among those of mailboxes, at which a node of an
    /// earlier version stops. No user's name becomes this token: two digits follow each `%`.
    pub(crate) fn quarantined(&self, id: MessageId) -> String {
        format!("{}.mail.box.%quarantine.{:016x}", self.cluster, id.number())
    }

    /// The subjects of all mail in mailboxes and in quarantine.
    pub(crate) fn all_mail(&self) -> String {
        format!("{}.mail.box.>", self.cluster)
    }

    /// The subject of the claim to a user's mailbox.
    pub(crate) fn mailbox_claim(&self, user: &str) -> String {
        self.escaped("mail.claim", user)
    }

    /// The subject of the claim to a mail in quarantine.
    pub(crate) fn quarantine_claim(&self, id: MessageId) -> String {
        format!(
            "{}.mail.quarantine-claim.{:016x}",
            self.cluster,
            id.number()
        )
    }

    /// All subjects of mailboxes and the quarantine.
    pub(crate) fn mailboxes(&self) -> String {
        format!("{}.mail.>", self.cluster)
    }

    /// The stream and the subjects of what Bayes learns.
    pub(crate) fn learned(&self) -> LessonSubjects {
        LessonSubjects {
            stream: self.stream("LEARNED"),
            prefix: format!("{}.learned", self.cluster),
            content: "the lessons of the cluster",
        }
    }

    /// The stream and the subjects of the averages of senders.
    pub(crate) fn senders(&self) -> LessonSubjects {
        LessonSubjects {
            stream: self.stream("SENDERS"),
            prefix: format!("{}.senders", self.cluster),
            content: "the averages of senders of the cluster",
        }
    }

    /// The subject on which nodes are requested to confirm their filters.
    pub(crate) fn confirmation_requests(&self) -> String {
        format!("{}.sync.ask", self.cluster)
    }

    /// The subject on which this node gets the confirmations.
    pub(crate) fn answers(&self, node: u8) -> String {
        format!("{}.sync.answer.{node}", self.cluster)
    }

    /// The subject on which a node is asked for the division of shared subscriptions.
    pub(crate) fn division_questions(&self, node: u8) -> String {
        format!("{}.division.ask.{node}", self.cluster)
    }

    /// The subject on which a node is asked on behalf of administrators.
    pub(crate) fn node_questions(&self, node: u8) -> String {
        format!("{}.ask.{node}", self.cluster)
    }

    /// The subject on which a node is asked for sessions.
    pub(crate) fn session_questions(&self, node: u8) -> String {
        format!("{}.session.ask.{node}", self.cluster)
    }

    /// The subject of sessions that begin on a node and end on the others.
    pub(crate) fn replaced_sessions(&self) -> String {
        format!("{}.session.replaced", self.cluster)
    }

    /// The name of a stream or bucket.
    pub(crate) fn stream(&self, name: &str) -> String {
        format!("{}_{name}", self.cluster.to_ascii_uppercase())
    }

    /// The name of a node's stream.
    pub(crate) fn node_stream_name(&self, id: NodeStreamId) -> String {
        let NodeStreamId { node, epoch } = id;
        format!("{}{node}_{epoch:016x}", self.stream("NODE_"))
    }

    /// The node's stream of this name.
    pub(crate) fn node_stream_of_name(&self, name: &str) -> Option<NodeStreamId> {
        let numbers = name.strip_prefix(&self.stream("NODE_"))?;
        let (node, epoch) = numbers.split_once('_')?;
        Some(NodeStreamId {
            node: node.parse().ok()?,
            epoch: u64::from_str_radix(epoch, 16).ok()?,
        })
    }

    /// The subjects of the topics that a filter matches; none if all of them are too long.
    pub(crate) fn interest(&self, filter: &TopicFilter) -> SmallVec<[String; 2]> {
        let text = filter.as_str();
        let (parent, has_rest) = match text.strip_suffix("/#") {
            Some(parent) => (parent, true),
            None if text == "#" => return smallvec![format!("{}.q.>", self.cluster)],
            None => (text, false),
        };
        let subject = self.escaped("q", parent);
        if subject.len() > SUBJECT_BYTES_MAX {
            return SmallVec::new();
        }
        let rest = has_rest.then(|| format!("{subject}.>"));
        std::iter::once(subject).chain(rest).collect()
    }

    /// The subjects of everything with the same first level as a filter.
    pub(crate) fn coarse_interest(&self, filter: &TopicFilter) -> SmallVec<[String; 2]> {
        let first = filter.as_str().split('/').next().unwrap_or_default();
        if first == "#" || first == "+" {
            return smallvec![format!("{}.q.>", self.cluster)];
        }
        let subject = self.escaped("q", first);
        if subject.len() > SUBJECT_BYTES_MAX {
            return SmallVec::new();
        }
        smallvec![format!("{subject}.>"), subject]
    }

    fn escaped(&self, kind: &str, text: &str) -> String {
        let mut subject = String::with_capacity(self.cluster.len() + 4 + text.len());
        subject.push_str(&self.cluster);
        subject.push('.');
        subject.push_str(kind);
        for level in text.split('/') {
            subject.push('.');
            push_level(&mut subject, level);
        }
        subject
    }
}

fn push_level(subject: &mut String, level: &str) {
    match level {
        "" => subject.push(ESCAPE),
        "+" => subject.push('*'),
        _ => level.chars().for_each(|character| {
            let is_special = matches!(character, '.' | '*' | '>' | ESCAPE);
            if is_special || character.is_whitespace() || character.is_control() {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    subject.push(ESCAPE);
                    push_hex(subject, byte);
                }
            } else {
                subject.push(character);
            }
        }),
    }
}

fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subjects() -> Subjects {
        Subjects::new("gp")
    }

    fn publication(topic: &str) -> String {
        subjects().publication(&Topic::new(topic).expect("a topic"))
    }

    fn interest(filter: &str) -> Vec<String> {
        let filter = TopicFilter::new(filter).expect("a filter");
        subjects().interest(&filter).into_vec()
    }

    #[test]
    fn a_node_stream_is_known_by_its_name() {
        let subjects = Subjects::new("gp");
        let id = NodeStreamId {
            node: 17,
            epoch: 1 << 40,
        };
        let name = subjects.node_stream_name(id);
        assert_eq!(subjects.node_stream_of_name(&name), Some(id));
        for other in [
            "GP_NODES",
            "GP_NODE_",
            "GP_NODE_1",
            "GP_NODE_256_1",
            "XX_NODE_1_1",
        ] {
            assert_eq!(subjects.node_stream_of_name(other), None, "{other}");
        }
    }

    #[test]
    fn each_topic_has_a_subject_of_its_own() {
        for (topic, subject) in [
            ("a/b", "gp.q.a.b"),
            ("/a", "gp.q.%.a"),
            ("a//", "gp.q.a.%.%"),
            ("a.b/*/>", "gp.q.a%2Eb.%2A.%3E"),
            ("50%/x y", "gp.q.50%25.x%20y"),
            ("ü\u{2003}", "gp.q.ü%E2%80%83"),
        ] {
            assert_eq!(publication(topic), subject);
        }
        let long = "x".repeat(SUBJECT_BYTES_MAX);
        assert_eq!(publication(&long), "gp.q.%long");
        let retained = |topic: &str| subjects().retained(&Topic::new(topic).expect("a topic"));
        assert_eq!(retained("a/b"), "gp.r.a.b");
        assert!(retained(&long).starts_with("gp.r.%long."));
        assert_ne!(retained(&long), retained(&format!("{long}y")));
    }

    #[test]
    fn a_filter_has_the_subjects_of_its_topics() {
        assert_eq!(interest("a/+/c"), ["gp.q.a.*.c"]);
        assert_eq!(interest("a/#"), ["gp.q.a", "gp.q.a.>"]);
        assert_eq!(interest("#"), ["gp.q.>"]);
        assert_eq!(interest("+"), ["gp.q.*"]);
        assert_eq!(interest(&"x".repeat(SUBJECT_BYTES_MAX)), [""; 0]);
        let coarse = |filter| subjects().coarse_interest(&TopicFilter::new(filter).expect("one"));
        assert_eq!(coarse("a/b/c").to_vec(), ["gp.q.a.>", "gp.q.a"]);
        assert_eq!(coarse("+/b").to_vec(), ["gp.q.>"]);
    }

    /// Whether a subject matches a pattern, as NATS defines it.
    fn matches(pattern: &str, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        for expected in pattern.split('.') {
            match (expected, tokens.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (expected, Some(token)) if expected == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }

    proptest! {
        #[test]
        fn subjects_of_a_filter_match_each_topic_that_it_matches(
            filter in "([a+.%]|#)?(/([ab ]{0,2}|\\+|\\*|>)){0,3}(/#)?",
            topic in "[a.%]?(/([ab ]{0,2}|\\*|>)){0,3}",
        ) {
            let (Ok(filter), Ok(topic)) = (TopicFilter::new(&filter), Topic::new(&topic)) else {
                return Ok(());
            };
            if filter.matches(topic.as_str()) {
                let subject = subjects().publication(&topic);
                let fits = |found: SmallVec<[String; 2]>| {
                    found.iter().any(|pattern| matches(pattern, &subject))
                };
                prop_assert!(fits(subjects().interest(&filter)));
                prop_assert!(fits(subjects().coarse_interest(&filter)));
            }
        }
    }
}
