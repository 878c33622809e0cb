//! Mail that procedures write themselves: automatic replies, and the status report. One server
//! accepts it for delivery. Mails wait in a short queue, and a mail that cannot be sent is logged
//! and given up. Nothing important is sent in this way.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

/// The number of mails that may wait; further ones are given up.
const QUEUE_MAX: usize = 100;
/// Longest line of a server's reply (RFC 5321, section 4.5.3.1.5), with space for servers that
/// exceed it.
const REPLY_BYTES_MAX: u64 = 4096;

/// `[procedures.mail]`: mail that procedures send.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct MailerSettings {
    /// The mail server for it, as `host:port`; if empty, nothing is sent.
    pub server: String,
    /// The server's name in the greeting.
    pub hostname: String,
    /// The time limit of each reply of the server.
    pub timeout: Period,
}

impl Default for MailerSettings {
    fn default() -> Self {
        Self {
            server: String::new(),
            hostname: String::from("localhost"),
            timeout: Period::seconds(30),
        }
    }
}

/// A mail to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    /// The envelope's sender; empty for mail that must not be answered (RFC 3834, section 3.3).
    pub(crate) sender: String,
    pub(crate) recipients: Vec<String>,
    /// Head and body, with CR LF.
    pub(crate) text: String,
}

/// Passes mails to a thread that sends them. The thread ends with the mailer, after the waiting
/// mails.
pub(crate) struct Mailer {
    queue: Option<SyncSender<Letter>>,
}

impl Mailer {
    pub(super) fn new(settings: &MailerSettings) -> Self {
        if settings.server.is_empty() {
            return Self { queue: None };
        }
        let (queue, letters) = sync_channel(QUEUE_MAX);
        let settings = settings.clone();
        let started = thread::Builder::new()
            .name("mailer".to_owned())
            .spawn(move || send_all(&settings, &letters));
        if let Err(error) = &started {
            tracing::error!(target: "procedures", "no mail can be sent: {error}");
        }
        Self {
            queue: started.is_ok().then_some(queue),
        }
    }

    /// Whether there is a server to send to.
    pub(crate) fn can_send(&self) -> bool {
        self.queue.is_some()
    }

    /// Queues a mail; without a server, or with a full queue, it is logged and given up.
    pub(crate) fn send(&self, letter: Letter) {
        let Some(queue) = &self.queue else {
            tracing::warn!(
                target: "procedures",
                "a mail is not sent: procedures.mail.server is not set",
            );
            return;
        };
        match queue.try_send(letter) {
            Ok(()) => {}
            Err(TrySendError::Full(letter) | TrySendError::Disconnected(letter)) => {
                tracing::warn!(
                    target: "procedures",
                    to = ?letter.recipients,
                    "a mail is not sent: too many wait",
                );
            }
        }
    }
}

fn send_all(settings: &MailerSettings, letters: &Receiver<Letter>) {
    while let Ok(letter) = letters.recv() {
        match deliver(settings, &letter) {
            Ok(()) => {
                tracing::info!(target: "procedures", to = ?letter.recipients, "a mail was sent");
            }
            Err(error) => {
                tracing::warn!(
                    target: "procedures",
                    to = ?letter.recipients,
                    "a mail is not sent: {error}",
                );
            }
        }
    }
}

/// One transaction (RFC 5321, section 3.3).
fn deliver(settings: &MailerSettings, letter: &Letter) -> io::Result<()> {
    let timeout = settings.timeout.duration().max(Duration::from_millis(1));
    let address = settings.server.to_socket_addrs()?.next();
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut server = BufReader::new(stream);
    expect(&mut server, "the greeting", 220)?;
    let mut say = |command: &str, code: u16| {
        server
            .get_mut()
            .write_all(format!("{command}\r\n").as_bytes())?;
        expect(&mut server, command, code)
    };
    say(&format!("EHLO {}", settings.hostname), 250)?;
    say(&format!("MAIL FROM:<{}>", letter.sender), 250)?;
    for recipient in &letter.recipients {
        say(&format!("RCPT TO:<{recipient}>"), 250)?;
    }
    say("DATA", 354)?;
    let mut stuffed = letter.text.replace("\r\n.", "\r\n..");
    if stuffed.starts_with('.') {
        stuffed.insert(0, '.');
    }
    let end = if stuffed.ends_with("\r\n") {
        "."
    } else {
        "\r\n."
    };
    say(&format!("{stuffed}{end}"), 250)?;
    say("QUIT", 221).or(Ok(()))
}

/// Reads a reply of one or more lines.
fn expect(server: &mut BufReader<TcpStream>, to_what: &str, code: u16) -> io::Result<()> {
    loop {
        let mut line = String::new();
        io::Read::take(&mut *server, REPLY_BYTES_MAX).read_line(&mut line)?;
        let expected = line.starts_with(&code.to_string());
        if expected && line.as_bytes().get(3) == Some(&b'-') {
            continue;
        }
        if expected {
            return Ok(());
        }
        let command = to_what.split("\r\n").next().unwrap_or_default();
        return Err(io::Error::other(format!(
            "the server answered {command:?} with {:?}",
            line.trim_end()
        )));
    }
}
