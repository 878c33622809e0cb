//! A mail server of the test's own, which answers as the test says and remembers what it took.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::await_some;

/// A mail that was taken.
#[derive(Debug, Clone)]
pub(crate) struct TakenMail {
    pub(crate) recipients: Vec<String>,
    pub(crate) text: String,
    pub(crate) at: Instant,
}

impl TakenMail {
    /// The value of a field, in one line.
    pub(crate) fn field(&self, name: &str) -> String {
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        let head = head.replace("\r\n ", " ");
        let mut lines = head.lines();
        let found = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found
            .unwrap_or_else(|| panic!("no {name}: {head}"))
            .to_owned()
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").expect("a body").1
    }
}

/// The server's reaction to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// As a server does that takes all.
    Take,
    Say(&'static str),
    /// Closes the connection.
    Drop,
    /// Sends no further reply.
    Hang,
}

/// The reaction to a command, given the number of its earlier occurrences. The text of a mail is
/// the command `.`.
type Reactions = dyn Fn(&str, usize) -> Reaction + Send + Sync;

#[derive(Clone)]
pub(crate) struct MailPeer {
    pub(crate) address: SocketAddr,
    taken: Arc<Mutex<Vec<TakenMail>>>,
    commands: Arc<Mutex<Vec<String>>>,
}

impl MailPeer {
    pub(crate) fn start(
        reactions: impl Fn(&str, usize) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = Self {
            address: listener.local_addr().expect("an address"),
            taken: Arc::default(),
            commands: Arc::default(),
        };
        let (serving, reactions): (_, Arc<Reactions>) = (peer.clone(), Arc::new(reactions));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serving, reactions) = (serving.clone(), reactions.clone());
                std::thread::spawn(move || serving.serve(stream, &*reactions));
            }
        });
        peer
    }

    /// Ends with the connection; an error is its end too.
    fn serve(&self, stream: TcpStream, reactions: &Reactions) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes()).ok();
        let mut recipients = Vec::new();
        say(match self.reaction("greeting", reactions) {
            Reaction::Say(text) => text,
            Reaction::Take => "220 mail.example ESMTP",
            Reaction::Drop => return None,
            Reaction::Hang => return Self::hang(&mut reader),
        })?;
        loop {
            let command = line(&mut reader)?;
            let mut text = None;
            match self.reaction(&command, reactions) {
                Reaction::Take => {}
                Reaction::Say(text) => {
                    say(text)?;
                    continue;
                }
                Reaction::Drop => return None,
                Reaction::Hang => return Self::hang(&mut reader),
            }
            let verb = command.split([' ', ':']).next().unwrap_or_default();
            match verb {
                "EHLO" => say("250-mail.example\r\n250-SIZE\r\n250 8BITMIME")?,
                "RCPT" => {
                    let address = command.split(['<', '>']).nth(1).unwrap_or_default();
                    recipients.push(address.to_owned());
                    say("250 ok")?;
                }
                "DATA" => {
                    say("354 go ahead")?;
                    text = Some(data(&mut reader)?);
                }
                "RSET" | "MAIL" => {
                    recipients.clear();
                    say("250 ok")?;
                }
                "QUIT" => return say("221 bye"),
                _ => say("250 ok")?,
            }
            let Some(text) = text else { continue };
            match self.reaction(".", reactions) {
                Reaction::Take => {
                    let taken = TakenMail {
                        recipients: std::mem::take(&mut recipients),
                        text,
                        at: Instant::now(),
                    };
                    self.taken.lock().expect("whole").push(taken);
                    say("250 queued")?;
                }
                Reaction::Say(text) => say(text)?,
                Reaction::Drop => return None,
                Reaction::Hang => return Self::hang(&mut reader),
            }
        }
    }

    /// Until the other side has had enough.
    fn hang(reader: &mut BufReader<TcpStream>) -> Option<()> {
        while line(reader).is_some() {}
        None
    }

    fn reaction(&self, command: &str, reactions: &Reactions) -> Reaction {
        let mut commands = self.commands.lock().expect("whole");
        let before = commands.iter().filter(|known| *known == command).count();
        commands.push(command.to_owned());
        drop(commands);
        reactions(command, before)
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.commands.lock().expect("whole").clone()
    }

    pub(crate) fn taken(&self) -> Vec<TakenMail> {
        self.taken.lock().expect("whole").clone()
    }

    pub(crate) fn await_mail(&self, count: usize) -> Vec<TakenMail> {
        await_some(&format!("{count} mails"), || {
            let taken = self.taken();
            (taken.len() >= count).then_some(taken)
        })
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    let count = reader.read_line(&mut text).ok()?;
    (count > 0).then(|| text.trim_end().to_owned())
}

/// The text of a mail, its dots undone.
fn data(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = line(reader)?;
        if line == "." {
            return Some(text);
        }
        text += line.strip_prefix('.').unwrap_or(&line);
        text += "\r\n";
    }
}

/// The time that a slow server takes for each mail.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}
