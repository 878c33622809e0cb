//! One module for each protocol: smtp, spamd, mqtt, http, call.

pub mod http;
pub mod stream;
pub mod workers;
