//! MQTT in WebSocket frames (RFC 6455; MQTT 5 section 6): the part that a generator needs.
//!
//! A packet may begin anywhere in a frame and end in a later one [MQTT-6.0.0-2]. A packet
//! within one frame is read in place; only a packet that spans several frames is reassembled.

use gatepost_mqtt::Version;
use memchr::memmem;

use super::{PacketEvent, ReaderStep, mqtt};

/// The maximum length of the header of the response to the upgrade.
const HEAD_MAX_BYTES: usize = 16 * 1024;
/// The maximum length of a frame; a longer one is an error of the server.
const FRAME_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// One key for all frames: masking prevents web pages from deceiving proxies (RFC 6455, section
/// 10.3), and a generator involves neither.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Appends the request for the upgrade, with the protocol inside the frames if it has a name.
pub(super) fn upgrade(authority: &str, path: &str, protocol: Option<&str>, out: &mut Vec<u8>) {
    // The key is any 16 bytes; checking the response against it protects caches, of which there are
    // none.
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: Z2F0ZXBvc3QtYmVuY2g9PQ==\r\nSec-WebSocket-Version: 13\r\n"
    );
    out.extend_from_slice(request.as_bytes());
    if let Some(name) = protocol {
        out.extend_from_slice(format!("Sec-WebSocket-Protocol: {name}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends one masked binary frame.
pub(super) fn frame(payload: &[u8], out: &mut Vec<u8>) {
    out.push(FINAL | BINARY);
    match payload.len() {
        short @ 0..=125 => out.push(MASKED | (short as u8)),
        middle @ 126..=0xffff => {
            out.push(MASKED | 0x7e);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(MASKED | 0x7f);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    out.extend(masked.map(|(byte, mask)| byte ^ mask));
}

/// Appends an empty pong.
pub(super) fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(&[FINAL | PONG, MASKED]);
    out.extend_from_slice(&MASK);
}

/// Reads the server's frames.
#[derive(Debug)]
pub struct Frames {
    version: Version,
    upgraded: bool,
    /// Remaining bytes of the current frame's payload.
    left: u64,
    /// The beginning of a packet that continues in the next frame.
    carried: Vec<u8>,
    /// The number of carried bytes that are processed.
    carried_taken: usize,
}

impl Frames {
    pub(super) const fn new(version: Version) -> Self {
        Self {
            version,
            upgraded: false,
            left: 0,
            carried: Vec::new(),
            carried_taken: 0,
        }
    }

    pub(super) fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<ReaderStep<'a>, String> {
        if !self.upgraded {
            let answer = upgrade_answer(bytes, PacketEvent::Greeting)?;
            self.upgraded = matches!(answer, ReaderStep::Event(PacketEvent::Greeting, _));
            return Ok(answer);
        }
        self.carried.drain(..self.carried_taken);
        self.carried_taken = 0;
        let mut taken = 0;
        loop {
            if !self.carried.is_empty() && self.carried_is_whole()? {
                return self.next_carried(taken);
            }
            let rest = &bytes[taken..];
            if self.left == 0 {
                let Some(header) = Header::read(rest)? else {
                    return Ok(ReaderStep::More(taken));
                };
                if header.opcode == TEXT {
                    // [MQTT-6.0.0-1]
                    return Err("MQTT in a text frame".into());
                }
                if header.is_control() {
                    let whole = header.length + header.payload as usize;
                    if rest.len() < whole {
                        return Ok(ReaderStep::More(taken));
                    }
                    let event = header.control_event()?;
                    return Ok(ReaderStep::Event(event, taken + whole));
                }
                taken += header.length;
                self.left = header.payload;
                continue;
            }
            let available = self.left.min(rest.len() as u64) as usize;
            let part = &rest[..available];
            if self.carried.is_empty() {
                match mqtt::next(self.version, part)? {
                    ReaderStep::Event(event, length) => {
                        self.left -= length as u64;
                        return Ok(ReaderStep::Event(event, taken + length));
                    }
                    // The frame is incomplete; it is examined again when more arrives.
                    ReaderStep::More(_) if (available as u64) < self.left => {
                        return Ok(ReaderStep::More(taken));
                    }
                    ReaderStep::More(_) => {}
                }
            }
            if available == 0 {
                return Ok(ReaderStep::More(taken));
            }
            self.carried.extend_from_slice(part);
            self.left -= available as u64;
            taken += available;
        }
    }

    fn carried_is_whole(&self) -> Result<bool, String> {
        let step = mqtt::next(self.version, &self.carried)?;
        Ok(matches!(step, ReaderStep::Event(..)))
    }

    fn next_carried(&mut self, taken: usize) -> Result<ReaderStep<'_>, String> {
        match mqtt::next(self.version, &self.carried)? {
            ReaderStep::Event(event, length) => {
                self.carried_taken = length;
                Ok(ReaderStep::Event(event, taken))
            }
            ReaderStep::More(_) => Ok(ReaderStep::More(taken)),
        }
    }
}

/// The response to the upgrade: the event `upgraded`, or a refusal.
pub(super) fn upgrade_answer<'a>(
    bytes: &[u8],
    upgraded: PacketEvent<'a>,
) -> Result<ReaderStep<'a>, String> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > HEAD_MAX_BYTES {
            Err("a head without end".into())
        } else {
            Ok(ReaderStep::More(0))
        };
    };
    let line = bytes
        .split(|&byte| byte == b'\r')
        .next()
        .unwrap_or_default();
    let event = if line.starts_with(b"HTTP/1.1 101") {
        upgraded
    } else {
        PacketEvent::Refused(format!("upgrade: {}", String::from_utf8_lossy(line)))
    };
    Ok(ReaderStep::Event(event, end + 4))
}

/// The header of a frame.
pub(super) struct Header {
    opcode: u8,
    is_final: bool,
    /// The length of the header itself.
    pub(super) length: usize,
    /// The length of the payload.
    pub(super) payload: u64,
}

impl Header {
    /// `None` if the header is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, String> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        if second & MASKED != 0 {
            return Err("a frame of the server is masked".into());
        }
        let (length, payload) = match second & 0x7f {
            126 => match rest.first_chunk() {
                Some(digits) => (4, u64::from(u16::from_be_bytes(*digits))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(digits) => (10, u64::from_be_bytes(*digits)),
                None => return Ok(None),
            },
            short => (2, u64::from(short)),
        };
        if payload > FRAME_MAX_BYTES {
            return Err(format!("a frame of {payload} bytes"));
        }
        let opcode = first & 0x0f;
        if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
            return Err(format!("a frame of kind {opcode}"));
        }
        Ok(Some(Self {
            opcode,
            is_final: first & FINAL != 0,
            length,
            payload,
        }))
    }

    pub(super) fn is_control(&self) -> bool {
        self.opcode >= CLOSE
    }

    /// Whether this frame is a whole message.
    pub(super) fn is_message(&self) -> bool {
        self.is_final && matches!(self.opcode, TEXT | BINARY)
    }

    pub(super) fn control_event<'a>(&self) -> Result<PacketEvent<'a>, String> {
        match self.opcode {
            PING => Ok(PacketEvent::Ping),
            PONG => Ok(PacketEvent::Other),
            _ => Err("the server closed the WebSocket".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BrokerProtocol, publications};
    use super::*;
    use gatepost_message::Qos;
    use gatepost_mqtt::PacketId;
    use proptest::prelude::*;

    /// Frames as a server writes them: without masking.
    fn from_server(payload: &[u8], out: &mut Vec<u8>) {
        out.push(FINAL | BINARY);
        if payload.len() < 126 {
            out.push(payload.len() as u8);
        } else {
            out.push(126);
            out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        }
        out.extend_from_slice(payload);
    }

    proptest! {
        #[test]
        fn packets_come_whole_however_frames_and_reads_cut_them(
            sizes in proptest::collection::vec(0_usize..300, 1..8),
            frame in 1_usize..400,
            part in 1_usize..500,
        ) {
            let mut packets = Vec::new();
            let payloads: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![b'x'; size]).collect();
            let unnumbered = (Qos::AtMostOnce, None);
            for payload in &payloads {
                mqtt::publish(Version::Mqtt311, "a/b", payload, unnumbered, &mut packets);
            }
            let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
            let mut text = head.to_vec();
            for cut in packets.chunks(frame) {
                from_server(cut, &mut text);
                text.extend_from_slice(&[FINAL | PING, 0]);
            }
            let reader = BrokerProtocol::WebSocket(Version::Mqtt311).reader();
            prop_assert_eq!(publications(reader, &text, part), payloads);
        }

        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            let mut frames = Frames::new(Version::Mqtt5);
            frames.upgraded = true;
            let _ = frames.next(&bytes);
        }
    }

    #[test]
    fn a_sent_frame_is_masked() {
        let mut packet = Vec::new();
        mqtt::subscribe(
            Version::Mqtt311,
            "a",
            PacketId::MIN,
            Qos::AtMostOnce,
            &mut packet,
        );
        let mut out = Vec::new();
        frame(&packet, &mut out);
        assert_eq!(out[..2], [0x82, 0x80 | packet.len() as u8]);
        let unmasked: Vec<u8> = out[6..]
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        assert_eq!(unmasked, packet);
    }

    #[test]
    fn a_refused_upgrade_is_reported() {
        let mut frames = Frames::new(Version::Mqtt311);
        let step = frames.next(b"HTTP/1.1 404 Not Found\r\n\r\n");
        let Ok(ReaderStep::Event(PacketEvent::Refused(reason), 26)) = step else {
            panic!("{step:?}");
        };
        assert!(reason.contains("404"), "{reason}");
    }
}
