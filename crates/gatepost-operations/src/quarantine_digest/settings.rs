//! `[quarantine_digest]`: mails that list a recipient's quarantined messages.

use gatepost_settings::Period;
use gatepost_sinks::MailSubmission;
use serde::{Deserialize, Serialize};

/// The minutes of a day.
const DAY_MINUTES: u64 = 24 * 60;

/// `[quarantine_digest]`: mails that list a recipient's quarantined messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuarantineDigestSettings {
    /// The interval of the digests, as in `"1d"`; 0 for none.
    pub every: Period,
    /// The time of day from which the interval is counted, in universal time.
    pub at: String,
    /// The address that digests are sent from.
    pub from: String,
    /// The address of this server in links, as in `"https://mail.example.org"`.
    pub base_url: String,
    /// The recipients who get digests, as addresses or domains; empty for all.
    pub recipients: Vec<String>,
    /// The procedures whose quarantined messages recipients may release. Messages that other
    /// procedures quarantined are not listed.
    pub procedures: Vec<String>,
    /// The time for which a link is valid.
    pub links_expire: Period,
    /// The maximum number of messages in one digest; it states how many more there are.
    pub messages_max: u16,
}

impl Default for QuarantineDigestSettings {
    fn default() -> Self {
        Self {
            every: Period::seconds(0),
            at: "06:00".to_owned(),
            from: String::new(),
            base_url: String::new(),
            recipients: Vec::new(),
            procedures: vec!["/spamcheck".to_owned()],
            links_expire: Period::seconds(7 * 86_400),
            messages_max: 100,
        }
    }
}

impl QuarantineDigestSettings {
    /// Whether digests are sent.
    pub fn is_on(&self) -> bool {
        !self.every.duration().is_zero()
    }

    /// The mistakes, each with the name of its setting.
    pub fn mistakes(&self) -> Vec<(&'static str, &'static str)> {
        let mut mistakes = Vec::new();
        if minutes_of(&self.at).is_none() {
            mistakes.push(("at", "write a time of day, as in \"06:00\""));
        }
        if !self.is_on() {
            return mistakes;
        }
        if self.every.duration().as_secs() == 0 {
            mistakes.push(("every", "write at least a second"));
        }
        if !MailSubmission::is_address(&self.from) {
            let reason = "write an address such as quarantine@example.org, without a name";
            mistakes.push(("from", reason));
        }
        if !is_base_url(&self.base_url) {
            let reason = "write the address of this server in links, as in \
                          \"https://mail.example.org\"";
            mistakes.push(("base_url", reason));
        }
        if self.messages_max == 0 {
            mistakes.push(("messages_max", "there must be a message in a digest"));
        }
        mistakes
    }

    /// Whether this recipient gets digests.
    pub(super) fn includes(&self, recipient: &str) -> bool {
        let domain = recipient.rsplit_once('@').map(|(_, domain)| domain);
        let is_meant = |listed: &String| {
            let is_domain = domain.is_some_and(|domain| domain.eq_ignore_ascii_case(listed));
            is_domain || listed.eq_ignore_ascii_case(recipient)
        };
        self.recipients.is_empty() || self.recipients.iter().any(is_meant)
    }

    /// The time of the latest digest that was due at this time, both in seconds since 1970.
    pub(super) fn due_at(&self, unix_s: u64) -> u64 {
        let every = self.every.duration().as_secs().max(1);
        let start = minutes_of(&self.at).unwrap_or_default() * 60;
        // The epoch began at midnight.
        unix_s
            .checked_sub(start)
            .map_or(0, |since| since - since % every + start)
    }

    /// The address of a path of this server.
    pub(super) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.base_url.trim_end_matches('/'))
    }
}

/// The minutes between midnight and a time of day such as `06:30`.
fn minutes_of(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total < DAY_MINUTES).then_some(total)
}

fn is_base_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#<>\"".contains(&byte);
    rest.is_some_and(|rest| {
        !rest.is_empty() && !rest.starts_with('/') && rest.bytes().all(is_plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> QuarantineDigestSettings {
        QuarantineDigestSettings {
            every: Period::seconds(86_400),
            from: "quarantine@example.org".to_owned(),
            base_url: "https://mail.example.org".to_owned(),
            ..QuarantineDigestSettings::default()
        }
    }

    #[test]
    fn each_mistake_is_found_at_its_setting() {
        assert_eq!(QuarantineDigestSettings::default().mistakes(), []);
        assert_eq!(settings().mistakes(), []);
        type Change = fn(&mut QuarantineDigestSettings);
        let wrong: [(&str, Change); 10] = [
            ("at", |settings| settings.at = "24:00".to_owned()),
            ("at", |settings| settings.at = "6:00".to_owned()),
            ("at", |settings| settings.at = "06:60".to_owned()),
            ("at", |settings| settings.at = "+6:00".to_owned()),
            ("every", |settings| settings.every = Period::milliseconds(5)),
            ("from", |settings| settings.from = "Anna <a@b>".to_owned()),
            ("base_url", |settings| settings.base_url.clear()),
            ("base_url", |settings| settings.base_url = "a/b".to_owned()),
            ("base_url", |settings| {
                settings.base_url = "https://a b".to_owned();
            }),
            ("messages_max", |settings| settings.messages_max = 0),
        ];
        for (key, change) in wrong {
            let mut settings = settings();
            change(&mut settings);
            let keys: Vec<&str> = settings.mistakes().iter().map(|(key, _)| *key).collect();
            assert_eq!(keys, [key]);
        }
    }

    #[test]
    fn digests_are_due_at_their_time_of_day() {
        let mut settings = settings();
        settings.at = "06:30".to_owned();
        let (day, due) = (86_400, 6 * 3_600 + 30 * 60);
        assert_eq!(settings.due_at(3 * day + due), 3 * day + due);
        assert_eq!(settings.due_at(3 * day + due - 1), 2 * day + due);
        assert_eq!(settings.due_at(4 * day + due - 1), 3 * day + due);
        assert_eq!(settings.due_at(0), 0);
        settings.every = Period::seconds(12 * 3_600);
        assert_eq!(settings.due_at(3 * day), 2 * day + due + 12 * 3_600);
    }

    #[test]
    fn recipients_are_chosen_by_address_and_domain() {
        let mut settings = settings();
        assert!(settings.includes("anna@example.org"));
        settings.recipients = vec!["Example.net".to_owned(), "bert@example.org".to_owned()];
        for (recipient, expected) in [
            ("anna@example.net", true),
            ("Bert@Example.org", true),
            ("anna@example.org", false),
            ("anna@sub.example.net", false),
        ] {
            assert_eq!(settings.includes(recipient), expected, "{recipient}");
        }
    }
}
