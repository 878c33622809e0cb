//! AUTH (RFC 4954): the exchange after the command, line by line.

use std::io;

use super::connection::SmtpConnection;
use super::replies;
use super::reply::{self, SmtpReply};
use super::session::SmtpSession;
use crate::sasl::{self, SaslExchange, SaslStep};

impl SmtpConnection<'_> {
    /// Runs the exchange and replies with its outcome; returns false if the client has
    /// disconnected.
    pub(super) async fn login(
        &mut self,
        session: &mut SmtpSession<'_>,
        mechanism: &str,
        initial: Option<String>,
    ) -> io::Result<bool> {
        let Some(auth) = self.context.auth.clone() else {
            self.answer(&replies::NO_MECHANISM);
            return Ok(true);
        };
        let peer = session.peer();
        let Some(mut exchange) = SaslExchange::begin(mechanism, &auth, peer) else {
            self.answer(&replies::NO_MECHANISM);
            return Ok(true);
        };
        let mut response = initial;
        let mut challenge = exchange.initial_challenge();
        loop {
            let text = match response.take() {
                Some(text) => text,
                None => match self.challenge(&challenge).await? {
                    Some(text) => text,
                    None => return Ok(false),
                },
            };
            if text == "*" || text.len() > sasl::RESPONSE_BYTES_MAX {
                self.answer(&replies::GIVEN_UP);
                return Ok(true);
            }
            match exchange.respond(&text, &auth, peer).await {
                Ok(SaslStep::Challenge(next, waiting)) => {
                    challenge = next;
                    exchange = waiting;
                }
                Ok(SaslStep::Done(identity)) => {
                    session.admit(identity);
                    self.answer(&replies::AUTHENTICATED);
                    return Ok(true);
                }
                Err(denied) => {
                    self.answer(&reply::of_denied(&denied));
                    return Ok(true);
                }
            }
        }
    }

    /// Sends a challenge and waits for the response.
    async fn challenge(&mut self, challenge: &str) -> io::Result<Option<String>> {
        self.answer(&SmtpReply::with(334, "", challenge.to_owned()));
        Ok(match self.next_line().await? {
            Some(Ok(line)) => Some(String::from_utf8_lossy(&line).into_owned()),
            // A malformed line cancels the exchange as well.
            Some(Err(_)) => Some("*".to_owned()),
            None => None,
        })
    }
}
