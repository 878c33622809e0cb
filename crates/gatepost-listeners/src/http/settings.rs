//! The settings of the HTTP listener. Every limit has a setting and a default.

use gatepost_settings::{Bind, ByteSize, Period};
use serde::{Deserialize, Serialize};

/// `[listeners.http]`.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where to listen.
    pub bind: Vec<Bind>,
    /// How many connections may be open at once; more are closed at once.
    pub connections_max: usize,
    /// How large a request's head may be (request line and header fields together).
    pub head_max: ByteSize,
    /// How large a request's body may be.
    pub body_max: ByteSize,
    /// How long a kept-alive connection may be silent between requests.
    pub idle_timeout: Period,
    /// How long the head of a request may take from its first byte.
    pub head_timeout: Period,
    /// How long a body may pause.
    pub body_timeout: Period,
    /// How long a reader may take nothing of what is written to it.
    pub write_timeout: Period,
    /// The interval of comments that keep an event stream open through proxies.
    pub keepalive: Period,
    /// How long requests in progress may take when the server ends.
    pub drain_timeout: Period,
    /// Origins whose pages may publish, call and open WebSockets beside our own, such as
    /// `"https://example.org"`; `"*"` allows all.
    pub origins: Vec<String>,
    /// The time after which a deferred sender is told to try again.
    pub retry_after: Period,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 8080).into())],
            connections_max: 16_000,
            head_max: ByteSize::kibibytes(16),
            body_max: ByteSize::mebibytes(16),
            idle_timeout: Period::seconds(75),
            head_timeout: Period::seconds(10),
            body_timeout: Period::seconds(30),
            write_timeout: Period::seconds(60),
            keepalive: Period::seconds(15),
            drain_timeout: Period::seconds(10),
            origins: Vec::new(),
            retry_after: Period::seconds(30),
        }
    }
}
