//! Quarantined mail of mail servers that can hold a message, and of those that cannot.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use support::Fixture;

/// Reached only by a defect.
const PATIENCE: Duration = Duration::from_mins(1);
/// All changes that a mail server may permit, except a quarantine of its own.
const WITHOUT_QUARANTINE: u32 = 0x1df;
const ALL_CHANGES: u32 = 0x1ff;

/// Sends a mail that is quarantined, from a mail server that permits these changes; returns the
/// commands of the answers.
async fn send(address: SocketAddr, changes: u32) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let options = [6, changes, 0].map(u32::to_be_bytes).concat();
    let packets: [(u8, &[u8]); 7] = [
        (b'O', &options),
        (b'C', b"host.example\x004\x10\x01192.0.2.9\0"),
        (b'M', b"<bert@example.net>\0"),
        (b'R', b"<anna@example.org>\0"),
        (b'L', b"X-Verdict\0quarantine\0"),
        (b'B', b"body\r\n"),
        (b'E', b""),
    ];
    let mut answers = String::new();
    for (command, data) in packets {
        let length = u32::try_from(data.len() + 1).expect("short");
        let packet = [&length.to_be_bytes()[..], &[command], data].concat();
        stream.write_all(&packet).await.expect("sent");
        loop {
            let answer = timeout(PATIENCE, read(&mut stream))
                .await
                .expect("an answer");
            answers.push(answer);
            // Changes precede the verdict.
            if !"hmiq".contains(answer) {
                break;
            }
        }
    }
    answers
}

async fn read(stream: &mut TcpStream) -> char {
    let length = stream.read_u32().await.expect("a length");
    let mut packet = vec![0; length as usize];
    stream.read_exact(&mut packet).await.expect("a packet");
    char::from(packet[0])
}

#[tokio::test]
async fn a_mail_server_that_cannot_hold_a_message_leaves_it_to_gatepost() {
    let fixture = Fixture::new();
    let address = fixture.listen("milter", "verdict_headers.fields = false");
    let held = send(address, ALL_CHANGES).await;
    assert!(held.ends_with("qc"), "{held}");
    assert_eq!(fixture.store.quarantine_count().ok(), Some(0));
    let discarded = send(address, WITHOUT_QUARANTINE).await;
    assert!(discarded.ends_with("cd"), "{discarded}");
    assert_eq!(fixture.store.quarantine_count().ok(), Some(1));
}
