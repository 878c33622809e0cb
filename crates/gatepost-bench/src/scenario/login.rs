//! Logins of many clients before a measurement begins: a bounded number at the same time, or each
//! at the time when it is due.

use std::mem;

use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{ConnectionClosed, Conversation, Loop};
use crate::progress::RunProgress;
use crate::pubsub::{BrokerEndpoint, ClientName, PacketEvent, PacketReader};
use crate::target::RunningTarget;

/// Number of connections that are opened before the open ones are processed: a server limits the
/// time until a client's first packet.
const DIALED_IN_TURN: usize = 200;

/// The state of the logins, shared by all clients.
pub(super) struct Logins {
    pub(super) broker: BrokerEndpoint,
    /// The start of the run; it makes the client ids of two runs different.
    pub(super) run: Nanoseconds,
    pub(super) logged_in: usize,
    connecting: usize,
    /// The time of each login, from when it was due, or was begun if it was not due at any time.
    latency: Latencies,
    /// The time from when a login was due until its connection was opened.
    slip: Latencies,
    /// The first failure of a client.
    pub(super) failure: Option<String>,
}

impl Logins {
    pub(super) fn new(broker: BrokerEndpoint, run: Nanoseconds) -> Self {
        Self {
            broker,
            run,
            logged_in: 0,
            connecting: 0,
            latency: Latencies::default(),
            slip: Latencies::default(),
            failure: None,
        }
    }

    fn client(&self, kind: char, number: usize) -> ClientName {
        let id = format!("bench-{:x}-{kind}{number}", self.run);
        ClientName { id, number }
    }

    /// Takes the times of the logins, and of the delays before them.
    pub(super) fn take_latencies(&mut self) -> (Latencies, Latencies) {
        (mem::take(&mut self.latency), mem::take(&mut self.slip))
    }

    /// Counts a client that has logged in.
    fn count(&mut self, client: ClientStart) {
        self.logged_in += 1;
        self.connecting -= 1;
        let took = clock::now().saturating_sub(client.due);
        self.latency.record(took);
    }
}

/// State of a scenario that contains that of its logins.
pub(super) trait HasLogins {
    fn logins(&mut self) -> &mut Logins;
}

/// The number of a client, and the time from which its login counts.
#[derive(Clone, Copy)]
pub(super) struct ClientStart {
    pub(super) number: usize,
    due: Nanoseconds,
}

/// One client of a scenario: its connection until it is logged in, and the events after that.
pub(super) struct LoginClient {
    pub(super) start: ClientStart,
    /// The part of the client id that differs between scenarios.
    kind: char,
    reader: PacketReader,
    logged_in: bool,
}

/// An event of a client, other than those of its login.
pub(super) enum ClientEvent {
    LoggedIn,
    Subscribed { granted: bool },
}

impl LoginClient {
    pub(super) fn new(broker: &BrokerEndpoint, start: ClientStart, kind: char) -> Self {
        Self {
            start,
            kind,
            reader: broker.reader(),
            logged_in: false,
        }
    }

    /// Appends the first packet of the connection.
    pub(super) fn open(&self, logins: &Logins, outgoing: &mut Vec<u8>) {
        let client = logins.client(self.kind, self.start.number);
        logins.broker.open(&client, "", outgoing);
    }

    /// Reads packets, and passes the client's events to `handle`. The result is that of
    /// [`PacketReader::read`]; an error is the reason why the server refused the client.
    pub(super) fn read<S: HasLogins>(
        &mut self,
        bytes: &[u8],
        shared: &mut S,
        outgoing: &mut Vec<u8>,
        mut handle: impl FnMut(ClientEvent, &mut S),
    ) -> Result<usize, String> {
        let Self {
            start,
            kind,
            reader,
            logged_in,
        } = self;
        reader.read(bytes, |event| {
            let logins = shared.logins();
            match event {
                PacketEvent::Greeting => {
                    let client = logins.client(*kind, start.number);
                    logins.broker.login(&client, outgoing);
                }
                PacketEvent::Ready | PacketEvent::Subscribed { granted: true } if !*logged_in => {
                    *logged_in = true;
                    logins.count(*start);
                    handle(ClientEvent::LoggedIn, shared);
                }
                PacketEvent::Subscribed { granted } => {
                    handle(ClientEvent::Subscribed { granted }, shared);
                }
                PacketEvent::Ping => logins.broker.pong(outgoing),
                PacketEvent::Refused(reason) => return Err(reason),
                _ => {}
            }
            Ok(())
        })
    }

    /// Records the end of the connection, if it is the first failure. `client` names clients of
    /// this scenario.
    pub(super) fn closed(&self, client: &str, reason: ConnectionClosed, logins: &mut Logins) {
        let number = self.start.number;
        let failure = &mut logins.failure;
        failure.get_or_insert_with(|| format!("{client} {number}: {reason:?}"));
    }
}

/// The logins that a scenario needs.
pub(super) struct LoginPlan<'a> {
    /// The clients, in the words of messages: "users".
    pub(super) clients: &'static str,
    pub(super) count: usize,
    /// Clients that log in at the same time, if there is no rate.
    pub(super) connecting_max: usize,
    /// Logins per second, each due at its own time; without it as many as the server answers.
    pub(super) rate: Option<f64>,
    /// The time within which all must be logged in, after the last one was due.
    pub(super) seconds_max: u64,
    /// The share of the scenario's progress at which the logins are complete.
    pub(super) progress_share: f64,
    pub(super) target: &'a RunningTarget,
    pub(super) progress: &'a RunProgress,
}

impl LoginPlan<'_> {
    /// Opens all connections and waits until their clients are logged in. A client that is refused
    /// ends the run. `new` makes a client.
    pub(super) fn log_in<S: HasLogins, C: Conversation<S>>(
        &self,
        connections: &mut Loop<C>,
        shared: &mut S,
        new: impl Fn(&BrokerEndpoint, ClientStart) -> C,
    ) -> Result<(), BenchError> {
        let begin = clock::now();
        let deadline = begin.saturating_add(self.time_max());
        let mut dialer = shared.logins().broker.dialer();
        let mut waiting = (0..self.count).peekable();
        while shared.logins().logged_in < self.count {
            let mut dialed = 0;
            while dialed < DIALED_IN_TURN
                && self.may_dial(shared.logins())
                && let Some(number) = waiting.next_if(|&number| self.is_due(begin, number))
            {
                let due = self.due_at(begin, number).unwrap_or_else(clock::now);
                let start = ClientStart { number, due };
                connections.add(dialer.dial()?, new(&shared.logins().broker, start))?;
                let logins = shared.logins();
                logins.connecting += 1;
                logins.slip.record(clock::now().saturating_sub(due));
                dialed += 1;
            }
            let mut until = clock::now();
            if dialed < DIALED_IN_TURN {
                let next = waiting.peek().and_then(|&next| self.due_at(begin, next));
                until = (until + clock::SECOND / 10).min(next.unwrap_or(Nanoseconds::MAX));
            }
            connections.turn(until, shared)?;
            self.check(shared.logins(), deadline)?;
        }
        Ok(())
    }

    /// The time within which all must be logged in.
    fn time_max(&self) -> Nanoseconds {
        let last_due = self.due_at(0, self.count).unwrap_or_default();
        last_due.saturating_add(self.seconds_max * clock::SECOND)
    }

    /// Whether another client may log in beside those that are doing so. With a rate any number
    /// may: a slow server must not delay the logins that are due.
    fn may_dial(&self, logins: &Logins) -> bool {
        self.rate.is_some() || logins.connecting < self.connecting_max
    }

    /// The time at which a login is due, if there is a rate.
    fn due_at(&self, begin: Nanoseconds, number: usize) -> Option<Nanoseconds> {
        let since = clock::from_seconds(number as f64 / self.rate?);
        Some(begin.saturating_add(since))
    }

    fn is_due(&self, begin: Nanoseconds, number: usize) -> bool {
        let due = self.due_at(begin, number);
        due.is_none_or(|due| due <= clock::now())
    }

    /// Reports the progress; an error ends the run.
    fn check(&self, logins: &mut Logins, deadline: Nanoseconds) -> Result<(), BenchError> {
        let (logged_in, clients) = (logins.logged_in, self.clients);
        let share = logged_in as f64 / self.count as f64;
        self.progress.update(share * self.progress_share, || {
            format!("{logged_in} {clients}")
        });
        if let Some(reason) = logins.failure.take() {
            let reason = format!("{reason}, with {logged_in} {clients}");
            return Err(BenchError::server(self.target, reason));
        }
        if interrupted() {
            return Err(BenchError::Interrupted);
        }
        if clock::now() > deadline {
            let reason = format!("only {logged_in} {clients} could log in");
            return Err(BenchError::server(self.target, reason));
        }
        Ok(())
    }
}
