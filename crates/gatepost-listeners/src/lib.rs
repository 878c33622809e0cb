//! One module for each protocol: smtp, spamd, mqtt, http, call.

pub mod admission;
pub mod gateway;
pub mod http;
pub mod smtp;
pub mod stream;
pub mod tls;
pub mod workers;
