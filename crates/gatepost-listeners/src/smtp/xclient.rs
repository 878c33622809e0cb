//! XCLIENT and XFORWARD, as Postfix defines them: a trusted peer names the client that it received
//! a message from. Both are a list of `NAME=value`, the values as xtext.

use std::net::IpAddr;

use super::replies::BAD_PARAMETER;
use super::reply::SmtpReply;

/// The attributes of the client that a trusted peer names; unknown ones are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ForwardedClient {
    pub(super) address: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) helo: Option<String>,
    /// The user that the client has logged in as.
    pub(super) user: Option<String>,
}

/// The supported attributes, as the reply to EHLO lists them.
pub(super) const CLIENT_NAMES: &str = "NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT";
pub(super) const FORWARD_NAMES: &str = "NAME ADDR PORT PROTO HELO IDENT SOURCE";

impl ForwardedClient {
    pub(super) fn parse(arguments: &str) -> Result<Self, SmtpReply> {
        let mut client = Self::default();
        if arguments.is_empty() {
            return Err(BAD_PARAMETER);
        }
        for pair in arguments.split(' ').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(BAD_PARAMETER)?;
            let value = decoded(value).ok_or(BAD_PARAMETER)?;
            let known = match value.to_ascii_uppercase().as_str() {
                "[UNAVAILABLE]" | "[TEMPUNAVAIL]" => None,
                _ => Some(value),
            };
            match name.to_ascii_uppercase().as_str() {
                "ADDR" => client.address = parsed(known.as_deref().map(without_family))?,
                "PORT" => client.port = parsed(known.as_deref())?,
                "HELO" => client.helo = known,
                "LOGIN" => client.user = known,
                "NAME" | "PROTO" | "IDENT" | "SOURCE" | "DESTADDR" | "DESTPORT" => {}
                _ => return Err(BAD_PARAMETER),
            }
        }
        Ok(client)
    }

    /// Updates the attributes with those of a later command.
    pub(super) fn update(&mut self, later: Self) {
        self.address = later.address.or(self.address);
        self.port = later.port.or(self.port);
        self.helo = later.helo.or(self.helo.take());
        self.user = later.user.or(self.user.take());
    }
}

fn parsed<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>, SmtpReply> {
    text.map(str::parse).transpose().map_err(|_| BAD_PARAMETER)
}

fn without_family(address: &str) -> &str {
    match address.get(..5) {
        Some(prefix) if prefix.eq_ignore_ascii_case("IPv6:") => &address[prefix.len()..],
        _ => address,
    }
}

/// Decodes xtext; the result contains no line end.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, remainder)) = rest.split_first() {
        rest = remainder;
        if byte == b'+' {
            let (digits, remainder) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = remainder;
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_decoded() {
        let text = "NAME=host ADDR=IPv6:2001:db8::1 PORT=4000 HELO=a+20b PROTO=ESMTP";
        let client = ForwardedClient::parse(text).expect("well-formed");
        assert_eq!(client.address, "2001:db8::1".parse().ok());
        assert_eq!(
            (client.port, client.helo.as_deref()),
            (Some(4000), Some("a b"))
        );
        let unknown = ForwardedClient::parse("addr=[UNAVAILABLE] LOGIN=[tempunavail]");
        assert_eq!(unknown, Ok(ForwardedClient::default()));
        for wrong in [
            "",
            "ADDR",
            "ADDR=x",
            "PORT=70000",
            "HELO=+2",
            "HELO=a+0Ab",
            "COLOR=red",
        ] {
            assert_eq!(ForwardedClient::parse(wrong), Err(BAD_PARAMETER), "{wrong}");
        }
    }
}
