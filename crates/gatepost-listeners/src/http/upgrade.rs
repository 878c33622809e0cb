//! Handing a connection over to MQTT over WebSocket.

use std::io;

use bytes::Bytes;

use super::connection::Connection;
use super::request::Request;
use super::websocket::subprotocol;

impl Connection {
    /// Answers the handshake; from here on the bytes are MQTT's.
    pub(super) async fn become_websocket(
        &mut self,
        request: &Request,
        accept: &str,
    ) -> io::Result<()> {
        let subprotocol = subprotocol(request).unwrap_or("mqtt");
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
        );
        self.queue([Bytes::from(head)]);
        self.flush().await
    }

    /// Gives the connection, with what was read behind the handshake, to whoever speaks on.
    pub(super) async fn hand_over(self) {
        if let Some(handler) = self.context.websocket.clone() {
            handler(self.stream, self.peer, self.tail).await;
        }
    }
}
