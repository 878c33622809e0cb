//! One module for each protocol: smtp, milter, pop3, spamd, mqtt, http, call.

pub mod acceptor;
pub mod admission;
pub mod call;
pub mod entry;
pub mod forward;
pub mod gateway;
pub mod http;
mod late;
mod mail;
pub mod marks;
pub mod milter;
pub mod mqtt;
pub mod pop3;
pub mod proxy_protocol;
mod sasl;
mod service;
pub mod smtp;
pub mod spamd;
pub mod stream;
pub mod tls;
mod together;
pub mod websocket;
mod wire;
pub mod workers;
