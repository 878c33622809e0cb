//! `listeners.http.email`: who may get mail by ntfy's `X-Email`.

use serde::{Deserialize, Serialize};

/// `listeners.http.email`: mail that ntfy's `X-Email` sends.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct EmailSettings {
    /// The sender's address; empty refuses `X-Email`.
    pub from: String,
    /// The addresses that mail may be sent to: whole, or all of a domain (`"*@example.org"`).
    pub recipients: Vec<String>,
    /// Mails in an hour from one user, or one address without a login.
    pub per_hour: u32,
}

impl Default for EmailSettings {
    fn default() -> Self {
        Self {
            from: String::new(),
            recipients: Vec::new(),
            per_hour: 20,
        }
    }
}
