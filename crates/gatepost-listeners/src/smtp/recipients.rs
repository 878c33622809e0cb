//! Which recipients are ours, and which topic a recipient's mail goes to.

use gatepost_message::Topic;

use super::path::Mailbox;
use super::reply::Reply;
use super::settings::{SmtpSettings, TopicRule};

const NO_RELAY: Reply = Reply::new(
    550,
    "5.7.1",
    "not a relay: mail to this domain is not taken here",
);
const NO_TOPIC: Reply = Reply::new(
    550,
    "5.1.3",
    "the recipient makes no topic: no '#', no '$' in front, no empty name",
);

/// The map from recipients to topics.
#[derive(Debug, Clone)]
pub(super) struct Recipients {
    domains: Vec<String>,
    any_domain: bool,
    rules: Vec<TopicRule>,
}

impl Recipients {
    pub(super) fn new(settings: &SmtpSettings, hostname: &str) -> Self {
        let mut domains: Vec<String> = settings
            .domains
            .iter()
            .map(|domain| domain.to_ascii_lowercase())
            .collect();
        domains.push("localhost".to_owned());
        domains.push(hostname.to_ascii_lowercase());
        Self {
            any_domain: domains.iter().any(|domain| domain == "*"),
            domains,
            rules: settings.topics.clone(),
        }
    }

    /// The topic of this recipient's mail, or why it is not taken.
    pub(super) fn topic(&self, to: &Mailbox) -> Result<Topic, Reply> {
        if !self.is_ours(to.domain()) {
            return Err(NO_RELAY);
        }
        let topic = match self
            .rules
            .iter()
            .find(|rule| matches(&rule.recipients, &to.address))
        {
            Some(rule) => fill(&rule.topic, to),
            None => to.local().trim_matches('"').replace('+', "/"),
        };
        // `$` belongs to the server [MQTT-4.7.2-1].
        if topic.starts_with('$') {
            return Err(NO_TOPIC);
        }
        Topic::new(&topic).map_err(|_| NO_TOPIC)
    }

    fn is_ours(&self, domain: &str) -> bool {
        // `postmaster` without a domain is always here (RFC 5321 § 4.5.1), and so are literals:
        // whoever writes our address means us.
        self.any_domain
            || domain.is_empty()
            || domain.starts_with('[')
            || self
                .domains
                .iter()
                .any(|ours| ours.eq_ignore_ascii_case(domain))
    }
}

fn fill(template: &str, to: &Mailbox) -> String {
    let local = to.local();
    let (user, detail) = local.split_once('+').unwrap_or((local, ""));
    template
        .replace("{user}", user)
        .replace("{detail}", &detail.replace('+', "/"))
        .replace("{local}", local)
        .replace("{domain}", to.domain())
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(found) => rest = &rest[found + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    fn topic(settings: &SmtpSettings, address: &str) -> Result<String, Reply> {
        let (mailbox, _) = path::parse(&format!("<{address}>")).expect("a path");
        let recipients = Recipients::new(settings, "gate.example.org");
        recipients
            .topic(&mailbox.expect("a mailbox"))
            .map(|topic| topic.to_string())
    }

    #[test]
    fn plus_makes_levels_and_foreign_domains_are_refused() {
        let settings = SmtpSettings::default();
        for (address, expected) in [
            ("alarms+fire@localhost", Ok("alarms/fire")),
            ("alarms@LOCALHOST", Ok("alarms")),
            ("a+b+c@gate.example.org", Ok("a/b/c")),
            ("alarms+fire@[127.0.0.1]", Ok("alarms/fire")),
            ("postmaster", Ok("postmaster")),
            ("alarms@example.net", Err(NO_RELAY)),
            ("a#b@localhost", Err(NO_TOPIC)),
            ("$SYS+x@localhost", Err(NO_TOPIC)),
        ] {
            assert_eq!(
                topic(&settings, address),
                expected.map(str::to_owned),
                "{address}"
            );
        }
    }

    #[test]
    fn the_first_rule_that_fits_names_the_topic() {
        let rule = |recipients: &str, topic: &str| TopicRule {
            recipients: recipients.to_owned(),
            topic: topic.to_owned(),
        };
        let settings = SmtpSettings {
            domains: vec!["*".to_owned()],
            topics: vec![
                rule("*@cameras.example.org", "cameras/{user}/{detail}"),
                rule("root@*", "system/{domain}"),
            ],
            ..SmtpSettings::default()
        };
        for (address, expected) in [
            ("door+night@Cameras.example.org", "cameras/door/night"),
            ("root@db.example.org", "system/db.example.org"),
            ("other@db.example.org", "other"),
        ] {
            assert_eq!(
                topic(&settings, address),
                Ok(expected.to_owned()),
                "{address}"
            );
        }
    }

    #[test]
    fn patterns_match_whole_addresses() {
        for (pattern, text, expected) in [
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("*b*d", "abcd", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("*aa", "aaa", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
