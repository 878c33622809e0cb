//! A subscription of a NATS client that is no node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) struct NatsSubscription {
    connection: BufReader<TcpStream>,
}

impl NatsSubscription {
    /// Returns when the server knows the subject.
    pub(crate) fn start(connection: TcpStream, subject: &str) -> Self {
        let mut subscription = Self {
            connection: BufReader::new(connection),
        };
        subscription.write(
            format!("CONNECT {{\"headers\":true}}\r\nSUB {subject} 1\r\nPING\r\n").as_bytes(),
        );
        while subscription.line().expect("an answer") != "PONG" {}
        subscription
    }

    /// The subject and the payload of the next message with headers; `None` if there is none
    /// within this time.
    pub(crate) fn next_within(&mut self, time: Duration) -> Option<(String, Vec<u8>)> {
        let deadline = Instant::now() + time;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let rest = Some(rest).filter(|rest| !rest.is_zero())?;
            let timeout = self.connection.get_ref().set_read_timeout(Some(rest));
            timeout.expect("a timeout");
            let line = self.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["PING"] => self.write(b"PONG\r\n"),
                // HMSG subject id reply bytes-of-headers bytes-of-both
                ["HMSG", subject, _, _, headers, both] => {
                    let mut content = self.content(both);
                    let headers = headers.parse().expect("a number");
                    return Some((subject.to_owned(), content.split_off(headers)));
                }
                // MSG subject id reply bytes: an entry with which the reading of the log ends.
                ["MSG", _, _, _, bytes] => drop(self.content(bytes)),
                _ => panic!("not a message with a reply subject: {line}"),
            }
        }
    }

    /// The bytes of a message of this length.
    fn content(&mut self, length: &str) -> Vec<u8> {
        let length: usize = length.parse().expect("a number");
        let mut content = vec![0; length + 2];
        self.connection.read_exact(&mut content).expect("a message");
        content.truncate(length);
        content
    }

    fn write(&mut self, bytes: &[u8]) {
        self.connection.get_mut().write_all(bytes).expect("sent");
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.connection.read_until(b'\n', &mut line);
        let text = String::from_utf8_lossy(&line);
        (read.is_ok_and(|bytes| bytes > 0)).then(|| text.trim_end().to_owned())
    }
}
