//! A client that parses responses strictly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than any answer takes; only a fault waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket option");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket option");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Self { stream, reader }
    }

    /// Sends as much as the server accepts: it may have refused and closed already.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line of text");
        if line.is_empty() {
            return None;
        }
        Some(line.strip_suffix("\r\n").expect("CR LF").to_owned())
    }

    /// Reads a response's head; `None` at the end of the connection.
    pub fn head(&mut self) -> Option<Answer> {
        let status_line = self.line()?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .expect("a status line");
        let status = status
            .get(..3)
            .expect("a status")
            .parse()
            .expect("a status");
        let mut fields = Vec::new();
        loop {
            let line = self.line().expect("a field or a blank line");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").expect("a field");
            fields.push((name.to_owned(), value.to_owned()));
        }
        Some(Answer {
            status,
            fields,
            body: Vec::new(),
        })
    }

    /// Reads a whole response.
    pub fn answer(&mut self, bodiless: bool) -> Option<Answer> {
        let mut answer = self.head()?;
        if bodiless {
            return Some(answer);
        }
        if answer.field("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        } else if answer.status == 101 {
            // The bytes of the protocol switched to, until its end.
            self.reader
                .read_to_end(&mut answer.body)
                .expect("the frames");
        } else {
            let length = answer.field("content-length").expect("a length");
            answer.body = vec![0; length.parse().expect("a number")];
            self.reader.read_exact(&mut answer.body).expect("the body");
        }
        Some(answer)
    }

    /// The next chunk; `None` for the last.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line().expect("a chunk size");
        let size = usize::from_str_radix(&size, 16).expect("a chunk size");
        let mut data = vec![0; size];
        self.reader.read_exact(&mut data).expect("a chunk");
        assert_eq!(self.line().as_deref(), Some(""));
        (size > 0).then_some(data)
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest).expect("the rest");
        rest
    }

    /// Whether something arrives within this time, or the connection ends.
    pub fn has_bytes(&mut self, within: Duration) -> bool {
        self.stream
            .set_read_timeout(Some(within))
            .expect("a socket option");
        let arrived = self.reader.fill_buf().is_ok();
        self.stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket option");
        arrived
    }

    /// Reads at most this many of the next bytes; `None` at the end, also after a reset.
    pub fn take_some(&mut self, bytes_max: usize) -> Option<usize> {
        let mut some = vec![0; bytes_max];
        match self.reader.read(&mut some) {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                None
            }
        }
    }

    /// Everything up to the end of the connection, be it a reset.
    pub fn rest_or_reset(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.reader.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        rest
    }

    /// Whether the server has closed the connection, with nothing more to say.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.reader.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
