//! Logins of many clients, a bounded number at the same time, before a measurement begins.

use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
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
            failure: None,
        }
    }

    fn client(&self, kind: char, number: usize) -> ClientName {
        let id = format!("bench-{:x}-{kind}{number}", self.run);
        ClientName { id, number }
    }

    /// Counts a client that has logged in.
    pub(super) const fn count(&mut self) {
        self.logged_in += 1;
        self.connecting -= 1;
    }
}

/// State of a scenario that contains that of its logins.
pub(super) trait HasLogins {
    fn logins(&mut self) -> &mut Logins;
}

/// One client of a scenario: its connection until it is logged in, and the events after that.
pub(super) struct LoginClient {
    pub(super) number: usize,
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
    pub(super) fn new(broker: &BrokerEndpoint, number: usize, kind: char) -> Self {
        Self {
            number,
            kind,
            reader: broker.reader(),
            logged_in: false,
        }
    }

    /// Appends the first packet of the connection.
    pub(super) fn open(&self, logins: &Logins, outgoing: &mut Vec<u8>) {
        let client = logins.client(self.kind, self.number);
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
            number,
            kind,
            reader,
            logged_in,
        } = self;
        reader.read(bytes, |event| {
            let logins = shared.logins();
            match event {
                PacketEvent::Greeting => {
                    let client = logins.client(*kind, *number);
                    logins.broker.login(&client, outgoing);
                }
                PacketEvent::Ready | PacketEvent::Subscribed { granted: true } if !*logged_in => {
                    *logged_in = true;
                    logins.count();
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
        let number = self.number;
        let failure = &mut logins.failure;
        failure.get_or_insert_with(|| format!("{client} {number}: {reason:?}"));
    }
}

/// The logins that a scenario needs.
pub(super) struct LoginPlan<'a> {
    /// The clients, in the words of messages: "users".
    pub(super) clients: &'static str,
    pub(super) count: usize,
    /// Clients that log in at the same time.
    pub(super) connecting_max: usize,
    /// The time within which all must be logged in.
    pub(super) seconds_max: u64,
    /// The share of the scenario's progress at which the logins are complete.
    pub(super) progress_share: f64,
    pub(super) target: &'a RunningTarget,
    pub(super) progress: &'a RunProgress,
}

impl LoginPlan<'_> {
    /// Opens all connections and waits until their clients are logged in. A client that is refused
    /// ends the run. `new` makes the client of a number.
    pub(super) fn log_in<S: HasLogins, C: Conversation<S>>(
        &self,
        connections: &mut Loop<C>,
        shared: &mut S,
        new: impl Fn(&BrokerEndpoint, usize) -> C,
    ) -> Result<(), BenchError> {
        let deadline = clock::now() + self.seconds_max * clock::SECOND;
        let mut dialer = shared.logins().broker.dialer();
        let mut waiting = 0..self.count;
        while shared.logins().logged_in < self.count {
            let mut dialed = 0;
            while shared.logins().connecting < self.connecting_max
                && dialed < DIALED_IN_TURN
                && let Some(number) = waiting.next()
            {
                connections.add(dialer.dial()?, new(&shared.logins().broker, number))?;
                shared.logins().connecting += 1;
                dialed += 1;
            }
            let patience = if dialed < DIALED_IN_TURN {
                clock::SECOND / 10
            } else {
                0
            };
            connections.turn(clock::now() + patience, shared)?;
            self.check(shared.logins(), deadline)?;
        }
        Ok(())
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
