//! One module for each protocol: smtp, milter, pop3, spamd, mqtt, http, call.

pub mod acceptor;
pub mod admission;
pub mod call;
mod connection_budget;
mod decisive_verdict;
mod der;
pub mod entry;
mod foreign_protocol;
pub mod forward;
pub mod http;
pub mod in_flight;
mod lazy_stream;
mod linger;
pub mod listener_context;
mod log_throttle;
mod mail;
pub mod milter;
mod minimum_rate;
pub mod monitoring;
mod mount;
pub mod mqtt;
pub mod pop3;
pub mod proxy_protocol;
mod sasl;
mod service;
pub mod smtp;
pub mod spamd;
pub mod stream;
pub mod tls;
pub mod verdict_headers;
pub mod websocket;
mod wire;
pub mod workers;

pub use connection_budget::{ConnectionsMax, Derived};
