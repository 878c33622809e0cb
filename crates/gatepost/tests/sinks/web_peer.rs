//! A web server of the test's own, which answers as the test says and remembers what it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::await_some;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct WebRequest {
    pub(crate) path: String,
    /// The lines of its head, names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    /// As text, with replacements where it is none.
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl WebRequest {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The payload of the message as JSON.
    pub(crate) fn payload(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("JSON");
        body["payload"].as_str().expect("a payload").to_owned()
    }
}

/// The answer to a request, given the number of earlier ones: status line and fields.
type Answers = dyn Fn(&WebRequest, usize) -> &'static str + Send + Sync;

pub(crate) const OK: &str = "200 OK";

#[derive(Clone)]
pub(crate) struct WebPeer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

impl WebPeer {
    /// Answers on a free port; an empty answer closes the connection.
    pub(crate) fn start(
        answers: impl Fn(&WebRequest, usize) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = Self {
            address: listener.local_addr().expect("an address"),
            requests: Arc::default(),
        };
        let (serving, answers): (_, Arc<Answers>) = (peer.clone(), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serving, answers) = (serving.clone(), answers.clone());
                std::thread::spawn(move || serving.serve(stream, &*answers));
            }
        });
        peer
    }

    fn serve(&self, stream: TcpStream, answers: &Answers) {
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut stream = stream;
        while let Some(request) = read_request(&mut reader) {
            let before = {
                let mut requests = self.requests.lock().expect("no panic");
                requests.push(request.clone());
                requests.len() - 1
            };
            let answer = answers(&request, before);
            let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
            if answer.is_empty() || stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<WebRequest> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Waits until there are so many requests.
    pub(crate) fn await_requests(&self, count: usize) -> Vec<WebRequest> {
        await_some(&format!("{count} requests"), || {
            Some(self.requests()).filter(|requests| requests.len() >= count)
        })
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<WebRequest> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|&length| length > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|&length| length > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let request = WebRequest {
        path,
        fields,
        body: String::new(),
        bytes: Vec::new(),
    };
    let length = request.field("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(WebRequest {
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body,
        ..request
    })
}

/// A pause within an answer.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
