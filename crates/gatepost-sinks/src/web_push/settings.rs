//! `[web_push]`: notifications to browsers and phones.

use gatepost_settings::{PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::http_client::HttpTarget;
use crate::mistake::SinkMistake;

/// The longest endpoint; those of the large push services have 150 to 600 bytes.
pub(super) const ENDPOINT_BYTES_MAX: usize = 1_024;

/// `[web_push]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebPushSettings {
    /// The contact in each request to a push service, `mailto:` or `https:`. If empty, Web Push is
    /// off.
    pub contact: String,
    /// The maximum number of subscriptions.
    pub subscriptions_max: usize,
    /// Subscriptions of one user; those without a login count as one.
    pub subscriptions_per_user_max: usize,
    /// Topic filters of one subscription.
    pub topics_max: usize,
    /// The time after which a subscription is forgotten if its browser has not renewed it.
    pub expiry: Period,
    /// The time for which a push service keeps a message for a device that is off, unless the
    /// message has its own expiry.
    pub time_to_live: Period,
    /// The time for one attempt, from the connection to the header of the response.
    pub timeout: Period,
    /// Whether endpoints may be on this machine or in a private network, and without TLS.
    pub allow_private: bool,
    /// Networks in which endpoints may be, in addition to public addresses.
    pub allow_networks: Vec<PeerNetwork>,
}

impl Default for WebPushSettings {
    fn default() -> Self {
        Self {
            contact: String::new(),
            subscriptions_max: 1_000,
            subscriptions_per_user_max: 20,
            topics_max: 50,
            expiry: Period::seconds(60 * 86_400),
            time_to_live: Period::seconds(86_400),
            timeout: Period::seconds(10),
            allow_private: false,
            allow_networks: Vec::new(),
        }
    }
}

impl WebPushSettings {
    /// Whether Web Push is on.
    pub const fn is_on(&self) -> bool {
        !self.contact.is_empty()
    }

    /// The mistakes that no type reveals.
    pub fn mistakes(&self) -> Vec<SinkMistake> {
        let mut found = Vec::new();
        let mut add = |field: &str, reason: &str| {
            found.push(SinkMistake {
                key: format!("web_push.{field}"),
                reason: reason.to_owned(),
            });
        };
        // RFC 8292, section 2.1: a mailto: or an https: URI.
        let is_mail = self
            .contact
            .strip_prefix("mailto:")
            .is_some_and(|address| address.contains('@') && !address.contains(char::is_whitespace));
        let is_page = HttpTarget::new(&self.contact).is_some_and(|page| page.is_tls);
        if self.is_on() && !is_mail && !is_page {
            add(
                "contact",
                "write mailto:NAME@DOMAIN or the address of a page, https://…",
            );
        }
        if self.contact.len() > ENDPOINT_BYTES_MAX {
            add("contact", "it is too long to be sent with each message");
        }
        for (field, value) in [
            ("subscriptions_max", self.subscriptions_max),
            (
                "subscriptions_per_user_max",
                self.subscriptions_per_user_max,
            ),
            ("topics_max", self.topics_max),
        ] {
            if value == 0 {
                add(
                    field,
                    "write at least 1; an empty contact switches Web Push off",
                );
            }
        }
        if self.expiry.duration().is_zero() {
            add(
                "expiry",
                "subscriptions would be forgotten immediately; write a time such as 30d",
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_an_address_or_a_page() {
        let of = |contact: &str| WebPushSettings {
            contact: contact.to_owned(),
            ..WebPushSettings::default()
        };
        for contact in ["", "mailto:root@example.org", "https://example.org/about"] {
            assert_eq!(of(contact).mistakes(), [], "{contact}");
        }
        for contact in [
            "root@example.org",
            "mailto:root",
            "mailto:a b@c",
            "http://example.org/",
        ] {
            assert_eq!(
                of(contact).mistakes()[0].key,
                "web_push.contact",
                "{contact}"
            );
        }
        let nothing = WebPushSettings {
            topics_max: 0,
            expiry: Period::seconds(0),
            ..WebPushSettings::default()
        };
        assert_eq!(nothing.mistakes().len(), 2);
    }
}
