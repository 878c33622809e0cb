//! AUTH after the CONNACK (section 4.12.1): the client logs in again.

use gatepost_mqtt::{Reason, ReasonedPacket};
use gatepost_users::{Identity, LoginRefusal, ScramLogin, ScramStep};

use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::login::{data, disconnect_reason, method, put_auth};

impl MqttConnection {
    /// AUTH after the CONNACK. The old login remains valid until the new one succeeds; if the new
    /// one fails the connection ends \[MQTT-4.12.1-2\].
    pub(super) fn authenticate(&mut self, auth: &ReasonedPacket<'_>) -> Result<(), ConnectionEnd> {
        let error = |text| ConnectionEnd::Server(Reason::PROTOCOL_ERROR, text);
        let (peer, client_id) = (self.peer, self.attachment.session().client_id());
        let Some(authentication) = &mut self.authentication else {
            let text = "AUTH without an authentication method in CONNECT [MQTT-4.12.0-6]";
            return Err(error(text));
        };
        if method(auth) != ScramLogin::MECHANISM {
            let text = "another authentication method than in CONNECT [MQTT-4.12.1-1]";
            return Err(error(text));
        }
        let mut exchange = match (auth.reason, authentication.exchange.take()) {
            (Reason::REAUTHENTICATE, _) => authentication.auth.scram(peer, Some(client_id)),
            (Reason::CONTINUE_AUTHENTICATION, Some(exchange)) => exchange,
            _ => return Err(error("AUTH in the wrong order [MQTT-4.12.0-3]")),
        };
        let denied = |denied: LoginRefusal| {
            let reason = disconnect_reason(&denied);
            ConnectionEnd::Server(reason, "the new login failed [MQTT-4.12.1-2]")
        };
        let (reason, data) = match exchange.step(data(auth)).map_err(denied)? {
            ScramStep::Challenge(data) => {
                authentication.exchange = Some(exchange);
                (Reason::CONTINUE_AUTHENTICATION, data)
            }
            ScramStep::Done { last, identity } => {
                self.log_in_again(identity)?;
                (Reason::SUCCESS, last)
            }
        };
        let framing = self.framing;
        framing.put(&mut self.out, |out| put_auth(reason, &data, out));
        Ok(())
    }

    /// A session belongs to one user, so the new login must be of the same user.
    fn log_in_again(&mut self, identity: Identity) -> Result<(), ConnectionEnd> {
        let before = self.identity.as_ref().and_then(Identity::user);
        if before != identity.user() {
            return Err(ConnectionEnd::Server(
                Reason::NOT_AUTHORIZED,
                "a session belongs to one user: connect again to log in as another",
            ));
        }
        self.set_identity(Some(identity));
        self.recheck_waiting();
        Ok(())
    }
}
