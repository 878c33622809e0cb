//! Mistakes in the settings of sinks that no single value reveals.

use std::collections::BTreeSet;

use gatepost_broker::RequestedFilter;
use gatepost_message::Topic;

use crate::bridge::{self, Bridge};
use crate::field_mistake::FieldMistake;
use crate::mail::{MailSink, NO_SMARTHOST, SharedTransport};
use crate::settings::SinkSettings;
use crate::webhook::Webhook;

/// A mistake: the key, as in `sink.0.webhook.url`, and what is wrong with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkMistake {
    /// The dotted key.
    pub key: String,
    /// The cause and the remedy.
    pub reason: String,
}

/// The mistakes in the settings of all sinks. Reads the files that they name.
pub fn mistakes(sinks: &[SinkSettings], has_smarthost: bool) -> Vec<SinkMistake> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (number, sink) in sinks.iter().enumerate() {
        let mut of_sink = of_sink(sink, has_smarthost);
        if !names.insert(sink.name.as_str()) {
            of_sink.push(FieldMistake::new("name", "another sink has this name"));
        }
        found.extend(of_sink.into_iter().map(|mistake| SinkMistake {
            key: format!("sink.{number}.{}", mistake.field),
            reason: mistake.reason,
        }));
    }
    found
}

fn of_sink(sink: &SinkSettings, has_smarthost: bool) -> Vec<FieldMistake> {
    let mut found = Vec::new();
    let mut add = |field, reason: String| found.push(FieldMistake::new(field, reason));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if sink.name.is_empty() || !sink.name.chars().all(is_plain) {
        add("name", "a name has letters, digits, '-' and '_'".to_owned());
    }
    let mut filters = Vec::new();
    for text in &sink.filters {
        match RequestedFilter::new(text) {
            Ok(filter) => filters.push(filter),
            Err(error) => add("filters", format!("'{text}': {error}")),
        }
    }
    match (&sink.bridge, sink.filters.is_empty()) {
        (None, true) => add(
            "filters",
            "write the topics that it receives, such as [\"alarms/#\"]".to_owned(),
        ),
        (Some(_), false) => add("filters", "a bridge has bridge.topics instead".to_owned()),
        _ => {}
    }
    let of_bridge = sink.bridge.as_ref().map(bridge::sent_filters);
    let of_bridge = of_bridge.unwrap_or_default();
    let is_received = |topic: &str| {
        let mut filters = filters.iter().map(RequestedFilter::matched);
        filters.any(|filter| filter.matches(topic))
            || of_bridge.iter().any(|filter| filter.matches(topic))
    };
    if !sink.dead_letter.is_empty() {
        match Topic::new(&sink.dead_letter) {
            Err(error) => add("dead_letter", error.to_string()),
            Ok(topic) if topic.is_internal() => {
                add(
                    "dead_letter",
                    "topics that begin with $ are the server's".to_owned(),
                );
            }
            Ok(topic) if is_received(topic.as_str()) => {
                let reason = "the sink's own filters match it, so the sink would receive its own \
                    dead letters; choose a topic that no filter matches";
                add("dead_letter", reason.to_owned());
            }
            Ok(_) => {}
        }
    }
    found.extend(kind_mistake(sink, has_smarthost));
    found
}

/// A mistake in the kind of the sink: it must be exactly one of webhook, bridge and mail.
fn kind_mistake(sink: &SinkSettings, has_smarthost: bool) -> Option<FieldMistake> {
    let name = &sink.name;
    let made = match (&sink.webhook, &sink.bridge, &sink.mail) {
        (Some(webhook), None, None) => Webhook::new(name, webhook).map(drop),
        (None, Some(bridge), None) => Bridge::new(name, bridge).map(drop),
        (None, None, Some(_)) if !has_smarthost => Err(FieldMistake::new("mail", NO_SMARTHOST)),
        (None, None, Some(mail)) => MailSink::new(name, mail, SharedTransport::default()).map(drop),
        (None, None, None) => Err(FieldMistake::new(
            "name",
            "the sink has no kind; write webhook.url, bridge.address or mail.to",
        )),
        _ => Err(FieldMistake::new(
            "name",
            "a sink is a webhook, a bridge or a mail; write two sinks",
        )),
    };
    made.err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail_settings::MailSettings;
    use crate::settings::{BridgeSettings, WebhookSettings};

    fn sink(change: impl FnOnce(&mut SinkSettings)) -> SinkSettings {
        let mut sink = SinkSettings {
            name: "chat".to_owned(),
            filters: vec!["alarms/#".to_owned()],
            webhook: Some(WebhookSettings {
                url: "https://hooks.example.org/x".to_owned(),
                ..WebhookSettings::default()
            }),
            ..SinkSettings::default()
        };
        change(&mut sink);
        sink
    }

    fn webhook(change: impl FnOnce(&mut WebhookSettings)) -> SinkSettings {
        sink(|sink| change(sink.webhook.as_mut().expect("a webhook")))
    }

    fn bridge(change: impl FnOnce(&mut BridgeSettings)) -> SinkSettings {
        let mut bridge = BridgeSettings {
            address: "mqtt://broker.example.org".to_owned(),
            topics: vec!["sensors/# out 1".to_owned()],
            ..BridgeSettings::default()
        };
        change(&mut bridge);
        sink(|sink| {
            sink.filters.clear();
            sink.webhook = None;
            sink.bridge = Some(bridge);
        })
    }

    fn mail(change: impl FnOnce(&mut MailSettings)) -> SinkSettings {
        let mut mail = MailSettings {
            from: "gate@example.org".to_owned(),
            to: vec!["anna@example.net".to_owned()],
            ..MailSettings::default()
        };
        change(&mut mail);
        sink(|sink| {
            sink.webhook = None;
            sink.mail = Some(mail);
        })
    }

    /// Sinks and webhooks with one mistake each, with its key.
    fn mistaken_webhooks() -> Vec<(&'static str, SinkSettings)> {
        vec![
            ("sink.0.name", sink(|sink| sink.name = "a b".to_owned())),
            ("sink.0.name", sink(|sink| sink.webhook = None)),
            ("sink.0.filters", sink(|sink| sink.filters.clear())),
            (
                "sink.0.filters",
                sink(|sink| sink.filters = vec!["a/#/b".to_owned()]),
            ),
            (
                "sink.0.dead_letter",
                sink(|sink| sink.dead_letter = "alarms/lost".to_owned()),
            ),
            (
                "sink.0.dead_letter",
                sink(|sink| sink.dead_letter = "a/+".to_owned()),
            ),
            ("sink.0.dead_letter", {
                let mut sink = bridge(|bridge| bridge.topics = vec!["# both 1 lost/".to_owned()]);
                sink.dead_letter = "lost/plant".to_owned();
                sink
            }),
            ("sink.0.webhook.url", webhook(|hook| hook.url.clear())),
            (
                "sink.0.webhook.url",
                webhook(|hook| hook.url = "ftp://x/".to_owned()),
            ),
            (
                "sink.0.webhook.url",
                webhook(|hook| hook.url = "https://u@x/".to_owned()),
            ),
            (
                "sink.0.webhook.method",
                webhook(|hook| hook.method = "GET".to_owned()),
            ),
            (
                "sink.0.webhook.template",
                webhook(|hook| hook.template = "slak".to_owned()),
            ),
            (
                "sink.0.webhook.concurrency",
                webhook(|hook| hook.concurrency = 0),
            ),
            (
                "sink.0.webhook.secret_file",
                webhook(|hook| hook.secret_file = "/no".into()),
            ),
            (
                "sink.0.webhook.hmac_header",
                webhook(|hook| hook.hmac_header = "X".into()),
            ),
        ]
    }

    /// Bridges and sinks of mail with one mistake each, with its key.
    fn mistaken_others() -> Vec<(&'static str, SinkSettings)> {
        vec![
            (
                "sink.0.bridge.address",
                bridge(|bridge| bridge.address = "broker".to_owned()),
            ),
            (
                "sink.0.bridge.topics",
                bridge(|bridge| bridge.topics.clear()),
            ),
            (
                "sink.0.bridge.topics",
                bridge(|bridge| bridge.topics = vec!["a b".to_owned()]),
            ),
            (
                "sink.0.bridge.version",
                bridge(|bridge| bridge.version = "4".to_owned()),
            ),
            (
                "sink.0.bridge.password_file",
                bridge(|bridge| bridge.password_file = "/no".into()),
            ),
            (
                "sink.0.bridge.keep_alive",
                bridge(|bridge| bridge.keep_alive.0 = std::time::Duration::ZERO),
            ),
            ("sink.0.mail.from", mail(|mail| mail.from.clear())),
            ("sink.0.mail.to", mail(|mail| mail.to.clear())),
            (
                "sink.0.mail.to",
                mail(|mail| mail.to[0] = "Anna <a@b>".to_owned()),
            ),
            (
                "sink.0.mail.subject",
                mail(|mail| mail.subject = "{{".to_owned()),
            ),
            (
                "sink.0.mail.template",
                mail(|mail| mail.template = "/no".into()),
            ),
            (
                "sink.0.mail.digest_messages_max",
                mail(|mail| mail.digest_messages_max = 0),
            ),
        ]
    }

    #[test]
    fn each_mistake_is_found_at_its_key() {
        assert_eq!(mistakes(&[sink(|_| {})], true), []);
        assert_eq!(mistakes(&[bridge(|_| {})], true), []);
        for (key, wrong) in mistaken_webhooks().into_iter().chain(mistaken_others()) {
            let found = mistakes(std::slice::from_ref(&wrong), true);
            let keys: Vec<&str> = found.iter().map(|mistake| mistake.key.as_str()).collect();
            assert_eq!(keys, [key], "{found:?}");
        }
        assert_eq!(mistakes(&[mail(|_| {})], true), []);
        assert_eq!(mistakes(&[mail(|_| {})], false)[0].key, "sink.0.mail");
        let twice = mistakes(&[sink(|_| {}), sink(|_| {})], true);
        assert_eq!(twice[0].key, "sink.1.name");
    }
}
