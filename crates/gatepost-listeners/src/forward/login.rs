//! The login at a next hop (RFC 4954): the first of SCRAM-SHA-256, PLAIN and LOGIN that the next
//! hop offers.
//!
//! PLAIN and LOGIN send the password, and are used only over TLS or within this machine. SCRAM
//! never sends it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::error::HopError;
use super::hop::HopConnection;
use super::reply::HopReply;
use super::scram_client::ScramClient;

/// The user name of this server at the next hop.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct HopLogin {
    pub(super) user: String,
    pub(super) password: String,
}

impl HopLogin {
    /// Logs in over a connection that is greeted.
    pub(super) async fn perform(
        &self,
        hop: &mut HopConnection,
        limit: Duration,
    ) -> Result<(), HopError> {
        let refused = |reason: &str| Err(HopError::Login(reason.to_owned()));
        if !hop.is_private() {
            return refused("the connection is not encrypted; set smarthost.tls = \"required\"");
        }
        let offered = hop.offers.logins;
        let reply = if offered.scram {
            self.by_scram(hop, limit).await?
        } else if offered.plain {
            let response = format!("\0{}\0{}", self.user, self.password);
            let command = format!("AUTH PLAIN {}", BASE64.encode(response));
            hop.command(&command, limit).await?
        } else if offered.login {
            self.by_login(hop, limit).await?
        } else {
            return refused("it offers none of SCRAM-SHA-256, PLAIN and LOGIN");
        };
        if reply.is_positive() {
            return Ok(());
        }
        Err(HopError::Login(format!("{} {}", reply.code, reply.text())))
    }

    /// Two questions, for the user and for the password.
    async fn by_login(
        &self,
        hop: &mut HopConnection,
        limit: Duration,
    ) -> Result<HopReply, HopError> {
        let mut reply = hop.command("AUTH LOGIN", limit).await?;
        for answer in [&self.user, &self.password] {
            if reply.code != 334 {
                return Ok(reply);
            }
            reply = hop.command(&BASE64.encode(answer), limit).await?;
        }
        Ok(reply)
    }

    /// RFC 5802, section 5: each proves to the other that it knows the password.
    async fn by_scram(
        &self,
        hop: &mut HopConnection,
        limit: Duration,
    ) -> Result<HopReply, HopError> {
        let fail = |error: super::scram_client::ScramError| HopError::Login(error.to_string());
        let client = ScramClient::new(&self.user).map_err(fail)?;
        let first = BASE64.encode(client.first());
        let reply = hop
            .command(&format!("AUTH SCRAM-SHA-256 {first}"), limit)
            .await?;
        if reply.code != 334 {
            return Ok(reply);
        }
        let proof = client
            .prove(&challenge(&reply), &self.password)
            .map_err(fail)?;
        let reply = hop.command(&BASE64.encode(&proof.message), limit).await?;
        if reply.code != 334 {
            return Ok(reply);
        }
        proof.check(&challenge(&reply)).map_err(fail)?;
        hop.command("", limit).await
    }
}

/// The text of a 334 reply. One that is not base64 is a text that the exchange refuses.
fn challenge(reply: &HopReply) -> Vec<u8> {
    BASE64.decode(reply.text().trim()).unwrap_or_default()
}
