//! A server of the test's own that violates its protocol: it treats each connection as the test
//! says, byte by byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The treatment of one connection. The peer reads what the client sends until the client closes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Treatment {
    /// Closed immediately.
    Close,
    /// The peer answers the first bytes of the client with these, and then sends no more.
    Answer(&'static [u8]),
    /// The same, and the peer closes its direction after that.
    AnswerAndEnd(&'static [u8]),
    /// According to the protocol: the peer answers each part that it reads with what the test's
    /// function returns for it.
    Serve(fn(&[u8]) -> Vec<u8>),
}

#[derive(Clone)]
pub(crate) struct RawPeer {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RawPeer {
    /// `treatments` gives the treatment of a connection by its number.
    pub(crate) fn start(treatments: impl Fn(usize) -> Treatment + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = Self {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
        };
        let serving = peer.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (serving, treatment) = (serving.clone(), treatments(number));
                serving.lock().push(Vec::new());
                std::thread::spawn(move || serving.treat(stream, number, treatment));
            }
        });
        peer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.received.lock().expect("no panic")
    }

    /// Ends with the connection; an error is its end too.
    fn treat(&self, mut stream: TcpStream, number: usize, treatment: Treatment) -> Option<()> {
        if matches!(treatment, Treatment::Close) {
            return None;
        }
        let mut buffer = [0; 16 * 1024];
        let mut is_answered = false;
        loop {
            let length = stream.read(&mut buffer).ok().filter(|&length| length > 0)?;
            let part = &buffer[..length];
            self.lock()[number].extend_from_slice(part);
            match treatment {
                Treatment::Serve(answer) => stream.write_all(&answer(part)).ok()?,
                Treatment::Answer(bytes) | Treatment::AnswerAndEnd(bytes) if !is_answered => {
                    is_answered = true;
                    stream.write_all(bytes).ok()?;
                    if matches!(treatment, Treatment::AnswerAndEnd(_)) {
                        stream.shutdown(Shutdown::Write).ok()?;
                    }
                }
                _ => {}
            }
        }
    }

    /// The bytes received over each connection so far.
    pub(crate) fn received(&self) -> Vec<Vec<u8>> {
        self.lock().clone()
    }
}
