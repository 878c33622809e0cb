//! A subscription of a NATS client that is no node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

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

    /// The subject and the payload of the next message; `None` if there is none within this time.
    pub(crate) fn next_within(&mut self, time: Duration) -> Option<(String, Vec<u8>)> {
        let timeout = self.connection.get_ref().set_read_timeout(Some(time));
        timeout.expect("a timeout");
        // HMSG subject id reply bytes-of-headers bytes-of-both
        let mut line = self.line()?;
        while line == "PING" {
            self.write(b"PONG\r\n");
            line = self.line()?;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let ["HMSG", subject, _, _, headers, both] = words[..] else {
            panic!("not a message with headers and a reply subject: {line}");
        };
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let mut content = vec![0; number(both) + 2];
        self.connection.read_exact(&mut content).expect("a message");
        content.truncate(number(both));
        Some((subject.to_owned(), content.split_off(number(headers))))
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
