//! `listeners.smtp.routes`: the destinations of recipients' mail.

use serde::{Deserialize, Serialize};

use crate::forward::NextHop;

/// One element of the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RouteFields", into = "RouteFields")]
pub struct RecipientRoute {
    /// The recipients, with `*` for any text: `"*@cameras.example.org"`. Case does not count.
    pub recipients: String,
    /// The destination of their mail.
    pub to: RouteTarget,
}

/// The destination of mail. In templates `{user}`, `{detail}`, `{local}` and `{domain}` stand for
/// parts of the recipient: of `alarms+hall/3@host`, the user is `alarms` and the detail `hall/3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTarget {
    /// `topic`: to the subscribers of the topic of this template.
    Topic(String),
    /// `mailbox`: to the mailbox of the user of this template.
    Mailbox(String),
    /// `forward`: to this next hop.
    Forward(NextHop),
}

/// The fields as written in the config.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteFields {
    recipients: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mailbox: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward: Option<NextHop>,
}

/// The route names no destination, or several.
#[derive(Debug, thiserror::Error)]
#[error("a route needs exactly one of topic, mailbox and forward")]
struct AmbiguousRoute;

impl TryFrom<RouteFields> for RecipientRoute {
    type Error = AmbiguousRoute;

    fn try_from(written: RouteFields) -> Result<Self, Self::Error> {
        let to = match (written.topic, written.mailbox, written.forward) {
            (Some(topic), None, None) => RouteTarget::Topic(topic),
            (None, Some(mailbox), None) => RouteTarget::Mailbox(mailbox),
            (None, None, Some(next_hop)) => RouteTarget::Forward(next_hop),
            _ => return Err(AmbiguousRoute),
        };
        Ok(Self {
            recipients: written.recipients,
            to,
        })
    }
}

impl From<RecipientRoute> for RouteFields {
    fn from(route: RecipientRoute) -> Self {
        let mut written = Self {
            recipients: route.recipients,
            topic: None,
            mailbox: None,
            forward: None,
        };
        match route.to {
            RouteTarget::Topic(topic) => written.topic = Some(topic),
            RouteTarget::Mailbox(mailbox) => written.mailbox = Some(mailbox),
            RouteTarget::Forward(next_hop) => written.forward = Some(next_hop),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_one_destination() {
        for (text, expected) in [
            ("recipients = 'a'\ntopic = 't'", true),
            ("recipients = 'a'\nmailbox = '{user}'", true),
            ("recipients = 'a'\nforward = 'smtp://127.0.0.1:10026'", true),
            ("recipients = 'a'", false),
            ("recipients = 'a'\ntopic = 't'\nmailbox = 'm'", false),
            ("recipients = 'a'\nforward = 'nowhere'", false),
        ] {
            let route = toml::from_str::<RecipientRoute>(text);
            assert_eq!(route.is_ok(), expected, "{text}");
            if let Ok(route) = route {
                let again = toml::to_string(&route).expect("written");
                assert_eq!(toml::from_str::<RecipientRoute>(&again), Ok(route));
            }
        }
    }
}
