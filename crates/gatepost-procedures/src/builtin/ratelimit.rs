//! `/ratelimit`: limits the messages per time from one address, user, sender, or to one topic.
//!
//! A token bucket for each: it fills steadily, and a message takes one token. Buckets live in
//! memory and survive a reload. Their number is bounded; keys beyond the bound share one bucket, so
//! that a flood of new names is limited too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, Message, Verdict};
use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use crate::host::{Resources, TokenRate};
use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// The key under which messages are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RatelimitKey {
    /// The peer's IP address; of IPv6 the network of 64 bits, which one host has to itself.
    #[default]
    Address,
    /// The login.
    User,
    /// The envelope's sender.
    Sender,
    /// The topic.
    Topic,
    /// The client's own name: HELO, client id.
    Client,
}

/// `[procedure."/ratelimit"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct RatelimitSettings {
    /// The key under which messages are counted: `address`, `user`, `sender`, `topic` or `client`.
    /// A message that has none is not limited.
    pub by: RatelimitKey,
    /// The number of messages.
    pub messages: u32,
    /// The time in which this number of messages is permitted.
    pub per: Period,
    /// The number of messages that may arrive at once after a pause; 0 takes `messages`.
    pub burst: u32,
    /// The action for a message beyond the rate.
    #[serde(with = "crate::text_values")]
    pub action: Action,
    /// The number of keys that are counted separately; all others are counted together.
    pub keys_max: usize,
}

impl Default for RatelimitSettings {
    fn default() -> Self {
        Self {
            by: RatelimitKey::Address,
            messages: 60,
            per: Period::seconds(60),
            burst: 0,
            action: Action::Defer,
            keys_max: 100_000,
        }
    }
}

pub(crate) struct Ratelimit {
    /// Distinguishes this limit from those with other arguments.
    name: Arc<str>,
    settings: RatelimitSettings,
    resources: Arc<Resources>,
}

impl Ratelimit {
    pub(crate) fn new(
        name: &str,
        settings: RatelimitSettings,
        resources: &Arc<Resources>,
    ) -> Result<Self, String> {
        if settings.messages == 0 || settings.per.duration().is_zero() {
            return Err("messages and per must be greater than 0".to_owned());
        }
        Ok(Self {
            name: name.into(),
            settings,
            resources: Arc::clone(resources),
        })
    }

    fn rate(&self) -> TokenRate {
        let RatelimitSettings {
            messages,
            per,
            burst,
            keys_max,
            ..
        } = self.settings;
        TokenRate {
            per_second: f64::from(messages) / per.duration().as_secs_f64(),
            burst: f64::from(if burst == 0 { messages } else { burst }),
            keys_max,
        }
    }
}

impl Procedure for Ratelimit {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn is_cheap(&self) -> bool {
        true
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let Some(whose) = key_of(self.settings.by, call.message) else {
            return Ok(Verdict::accept().into());
        };
        let buckets = &self.resources.host.memory.token_buckets;
        let wait = buckets.take(&self.name, &whose, self.rate(), Instant::now());
        let Some(seconds) = wait else {
            return Ok(Verdict::accept().into());
        };
        let RatelimitSettings { messages, per, .. } = &self.settings;
        let reason = format!(
            "more than {messages} messages in {per} from {whose}; try again in {} s",
            seconds.ceil() as u64
        );
        Ok(Verdict::new(self.settings.action, reason).into())
    }
}

/// The key as text, since the reason names it.
fn key_of(by: RatelimitKey, message: &Message) -> Option<String> {
    let envelope = &message.envelope;
    match by {
        RatelimitKey::Address => envelope.peer.ip().map(network),
        RatelimitKey::User => envelope.user.as_ref().map(|user| format!("user {user}")),
        RatelimitKey::Sender => envelope
            .sender
            .as_ref()
            .map(|sender| match sender.as_str() {
                "" => "the null sender".to_owned(),
                sender => sender.to_lowercase(),
            }),
        RatelimitKey::Topic => message.topic.as_ref().map(|topic| format!("topic {topic}")),
        RatelimitKey::Client => envelope
            .client
            .as_ref()
            .map(|client| format!("client {client}")),
    }
}

fn network(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{}/64", std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_is_its_network() {
        let ip = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(ip("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(ip("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
