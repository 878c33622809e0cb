//! An agent's part of a scenario other than FANOUT: the scenario itself, with its share of the
//! clients, on a thread that meets the other agents' at gates.
//!
//! A gate is passed by all at the same time: a burst begins everywhere at once, and connections
//! stay until the last host has been measured.

use super::message::Word;
use super::part::Part;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::{interrupted, stop_run};
use crate::outcome::Outcome;
use crate::process::{Sampler, Usage, Watched, listener_of_port};
use crate::progress::{Meeting, Progress};
use crate::target::Target;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the conductor hears how it goes.
const TELL_EVERY: Nanoseconds = clock::SECOND / 5;
/// How often one that waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// A scenario in progress, and the server where it is on this host.
pub(super) struct Party {
    gates: Arc<Gates>,
    pass: Sender<Nanoseconds>,
    result: Receiver<Result<Outcome, BenchError>>,
    thread: Option<JoinHandle<()>>,
    told_gate: u32,
    next_word: Nanoseconds,
    server: Option<Server>,
}

/// What the scenario's thread says.
#[derive(Default)]
struct Gates {
    reached: AtomicU32,
    doing: Mutex<(f64, String)>,
}

/// The scenario's side of it.
struct Others {
    gates: Arc<Gates>,
    passed: Receiver<Nanoseconds>,
}

impl Meeting for Others {
    fn tell(&self, done: f64, message: String) {
        // Poisoned only by a panic, which is reported in its own right.
        if let Ok(mut doing) = self.gates.doing.lock() {
            *doing = (done, message);
        }
    }

    fn wait(&self) -> Result<(), BenchError> {
        self.gates.reached.fetch_add(1, Ordering::Release);
        loop {
            match self.passed.recv_timeout(LOOK) {
                Ok(at) => {
                    clock::sleep_until(at);
                    return Ok(());
                }
                // The scenario sees that too, and ends with what it has.
                Err(RecvTimeoutError::Timeout) if interrupted() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(BenchError::Interrupted),
            }
        }
    }
}

/// The server, watched from the first gate on.
struct Server {
    port: u16,
    sampler: Option<Sampler>,
    watched: Option<Watched>,
    looks: Vec<Usage>,
}

impl Party {
    /// Begins; with no clients there is only the server to watch.
    pub(super) fn join(
        part: Part,
        endpoint: &str,
        clients: usize,
        server: Option<u16>,
    ) -> Result<Self, BenchError> {
        let target = Target::given(endpoint.parse()?);
        let gates = Arc::new(Gates::default());
        let (pass, passed) = mpsc::channel();
        let (tell, result) = mpsc::channel();
        let others = Others {
            gates: Arc::clone(&gates),
            passed,
        };
        let thread = (clients > 0).then(|| {
            thread::spawn(move || {
                let progress = Progress::among(Box::new(others));
                let scenario = part.with_clients(clients).scenario();
                let outcome = scenario.and_then(|scenario| scenario.run(&target, &progress));
                // Nobody listens any more where the run was aborted.
                let _ = tell.send(outcome);
            })
        });
        Ok(Self {
            gates,
            pass,
            result,
            thread,
            told_gate: 0,
            next_word: 0,
            server: server.map(|port| Server {
                port,
                sampler: None,
                watched: None,
                looks: Vec::new(),
            }),
        })
    }

    /// All may go on at this time.
    pub(super) fn pass(&mut self, at: Nanoseconds) {
        if let Some(server) = &mut self.server {
            server.look();
        }
        // Gone only if it has ended, and that is told.
        let _ = self.pass.send(at);
    }

    /// What there is to tell.
    pub(super) fn look(&mut self, now: Nanoseconds) -> Vec<Word> {
        let mut words = Vec::new();
        let gate = self.gates.reached.load(Ordering::Acquire);
        if gate > self.told_gate {
            self.told_gate = gate;
            words.push(Word::Reached { gate });
        }
        match self.result.try_recv() {
            Ok(Ok(outcome)) => words.push(Word::Result {
                operations: outcome.operations.clone(),
                outcome: Box::new(outcome),
            }),
            Ok(Err(error)) => {
                let reason = error.to_string();
                words.push(Word::Failed { reason });
            }
            // Still running, or told already.
            Err(_) => {}
        }
        if now >= self.next_word {
            self.next_word = now + TELL_EVERY;
            let doing = self.gates.doing.lock();
            let (done, said) = doing.map(|doing| doing.clone()).unwrap_or_default();
            words.push(Word::Doing { done, said });
        }
        words
    }

    /// Ends it; what was seen of the server, where it was to be watched.
    pub(super) fn leave(mut self) -> Option<Word> {
        self.server.take().map(|server| {
            let costs = server.sampler.map(Sampler::finish);
            Word::Watched {
                server: costs.and_then(|costs| costs.server).map(Box::new),
                looks: server.looks,
            }
        })
    }
}

impl Drop for Party {
    /// Leaves no thread behind: it sees that the run is stopped, or the end of its gates.
    fn drop(&mut self) {
        stop_run(true);
        if let Some(thread) = self.thread.take() {
            // Its panic was printed where it happened, and its result is missing.
            let _ = thread.join();
        }
        stop_run(false);
    }
}

impl Server {
    fn look(&mut self) {
        if self.sampler.is_none() {
            self.watched = listener_of_port(self.port).map(Watched::Process);
            self.sampler = Some(Sampler::start(self.watched.clone()));
        }
        self.looks.extend(self.watched.as_ref().and_then(Usage::of));
    }
}
