//! The HTTP side of a WebSocket (RFC 6455, section 4.2): the handshake. The following bytes are
//! MQTT, or a stream of events for a client that only reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest, Sha1};

use super::error::HttpError;
use super::request::{HttpRequest, HttpVersion};
use super::response::{HttpResponse, ResponseBody};

/// RFC 6455, section 1.3.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The subprotocol of MQTT \[MQTT-6.0.0-3\]; older clients name the old one.
pub(super) const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// Checks the handshake.
pub(super) fn upgrade(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    let accept = accept(request, "/mqtt speaks MQTT over WebSocket")?;
    if subprotocol(request).is_none() {
        return Err(HttpError::Upgrade("the subprotocol is \"mqtt\""));
    }
    let mut response = HttpResponse::empty(101);
    response.body = ResponseBody::WebSocket { accept };
    Ok(response)
}

/// Checks the parts that every handshake has, and returns the value that confirms it.
pub(super) fn accept(request: &HttpRequest, otherwise: &'static str) -> Result<String, HttpError> {
    // An upgrade in HTTP/1.0 is ignored (RFC 9110, section 7.8), HTTP/2 has none.
    let is_requested = request.version == HttpVersion::Http11
        && request.method() == "GET"
        && request.has_token("connection", "upgrade")
        && request.has_token("upgrade", "websocket");
    if !is_requested {
        return Err(HttpError::Upgrade(otherwise));
    }
    if request.field("sec-websocket-version") != Some("13") {
        return Err(HttpError::Upgrade(
            "the supported version of WebSocket is 13",
        ));
    }
    let key = request.field("sec-websocket-key").unwrap_or_default();
    // 16 bytes in base64.
    if BASE64.decode(key).map(|bytes| bytes.len()) != Ok(16) {
        return Err(HttpError::Upgrade("Sec-WebSocket-Key is malformed"));
    }
    Ok(accept_of(key))
}

/// The first supported subprotocol that the client names.
pub(super) fn subprotocol(request: &HttpRequest) -> Option<&'static str> {
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
    fn the_proof_is_the_standards() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(
            accept_of("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
