//! The HTTP side of a WebSocket (RFC 6455 § 4.2): the handshake. What follows is MQTT's, or a
//! stream of events to a client that only reads, for which there are frames here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest, Sha1};

use super::error::HttpError;
use super::request::Request;
use super::response::{Body, Response};

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const TEXT: u8 = 1;
pub(super) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(super) const PONG: u8 = 10;
/// RFC 6455 § 1.3.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The subprotocol of MQTT \[MQTT-6.0.0-3\]; older clients name the old one.
pub(super) const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// Checks the handshake.
pub(super) fn upgrade(request: &Request) -> Result<Response, HttpError> {
    let accept = accept(request, "/mqtt speaks MQTT over WebSocket")?;
    if subprotocol(request).is_none() {
        return Err(HttpError::Upgrade("the subprotocol is \"mqtt\""));
    }
    let mut response = Response::empty(101);
    response.body = Body::WebSocket { accept };
    Ok(response)
}

/// Checks what every handshake has, and gives the value that proves that it was understood.
pub(super) fn accept(request: &Request, otherwise: &'static str) -> Result<String, HttpError> {
    let asked = request.method() == "GET"
        && request.has_token("connection", "upgrade")
        && request.has_token("upgrade", "websocket");
    if !asked {
        return Err(HttpError::Upgrade(otherwise));
    }
    if request.field("sec-websocket-version") != Some("13") {
        return Err(HttpError::Upgrade("version 13 of WebSocket is spoken here"));
    }
    let key = request.field("sec-websocket-key").unwrap_or_default();
    // 16 bytes in base64.
    if BASE64.decode(key).map(|bytes| bytes.len()) != Ok(16) {
        return Err(HttpError::Upgrade("Sec-WebSocket-Key is malformed"));
    }
    Ok(accept_of(key))
}

/// What a server sends as text in one frame (RFC 6455 § 5.2).
pub(super) fn text_frame(text: &str) -> Vec<u8> {
    frame(TEXT, text.as_bytes())
}

/// An unmasked frame that is whole.
pub(super) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 10);
    frame.push(FINAL | opcode);
    match payload.len() {
        length @ 0..=125 => frame.push(length as u8),
        length @ 126..=0xFFFF => {
            frame.push(126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

/// What a client that only reads may say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It says good-bye, or breaks the protocol: the connection ends.
    Close,
    /// It wants this back (§ 5.5.2).
    Ping(Vec<u8>),
    /// Nothing that we wait for.
    Other,
}

/// Takes the first whole frame out of what a client sent; `None` until there is one.
pub(super) fn take_frame(input: &mut Vec<u8>) -> Option<Said> {
    let (&[first, second], rest) = input.split_first_chunk::<2>()?;
    let (length, rest) = match second & 0x7F {
        126 => {
            let (bytes, rest) = rest.split_first_chunk::<2>()?;
            (u64::from(u16::from_be_bytes(*bytes)), rest)
        }
        127 => {
            let (bytes, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*bytes), rest)
        }
        length => (u64::from(length), rest),
    };
    let opcode = first & 0x0F;
    // A client masks (§ 5.1), and control frames are short and whole (§ 5.5).
    let is_control = opcode >= CLOSE;
    if second & MASKED == 0 || (is_control && (length > 125 || first & FINAL == 0)) {
        return Some(Said::Close);
    }
    let (mask, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(length).ok()?;
    let payload = rest.get(..length)?;
    let said = match opcode {
        CLOSE => Said::Close,
        PING => {
            let masked = payload.iter().zip(mask.iter().cycle());
            Said::Ping(masked.map(|(byte, mask)| byte ^ mask).collect())
        }
        _ => Said::Other,
    };
    let left = rest.len() - length;
    input.drain(..input.len() - left);
    Some(said)
}

/// The first subprotocol of ours that the client names.
pub(super) fn subprotocol(request: &Request) -> Option<&'static str> {
    SUBPROTOCOLS
        .into_iter()
        .find(|name| request.has_token("sec-websocket-protocol", name))
}

fn accept_of(key: &str) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(MAGIC).finalize();
    BASE64.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reading_client_says_is_understood() {
        let mut input = vec![0x89, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2, 0x88, 0x80, 0];
        assert_eq!(take_frame(&mut input), Some(Said::Ping(b"hi".to_vec())));
        assert_eq!(take_frame(&mut input), None, "the mask is not whole");
        input.extend_from_slice(&[0, 0, 0]);
        assert_eq!(take_frame(&mut input), Some(Said::Close));
        assert!(input.is_empty());
        assert_eq!(
            take_frame(&mut vec![0x81, 0x01, b'x']),
            Some(Said::Close),
            "not masked"
        );
        assert_eq!(frame(TEXT, &[0; 126])[..4], [0x81, 126, 0, 126]);
    }

    #[test]
    fn the_proof_is_the_standards() {
        // The example of RFC 6455 § 1.3.
        assert_eq!(
            accept_of("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
