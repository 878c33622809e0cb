//! A scenario as the conductor sends it to an agent: its settings and number of clients.

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::scenario::Scenario;
use crate::scenario::call::{Call, CallArguments};
use crate::scenario::calls::{Calls, CallsArguments};
use crate::scenario::idle::{Idle, IdleArguments};
use crate::scenario::smtp::{Smtp, SmtpArguments};
use crate::scenario::subscribe::{SubscribeArguments, SubscribeBurst};
use crate::scenario::web::{Web, WebArguments};
use crate::sweep::SweepValues;

/// A scenario whose clients are independent, so any number of them can run on any host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    Call(CallArguments),
    Calls(CallsArguments),
    Idle(IdleArguments),
    Smtp(SmtpArguments),
    Subscribe(SubscribeArguments),
    Web(WebArguments),
}

macro_rules! parts {
    ($($kind:ident $arguments:ident),*) => {
        $(impl From<$arguments> for Workload {
            fn from(arguments: $arguments) -> Self {
                Self::$kind(arguments)
            }
        })*
    };
}
parts!(
    Call CallArguments, Calls CallsArguments, Idle IdleArguments, Smtp SmtpArguments,
    Subscribe SubscribeArguments, Web WebArguments
);

impl Workload {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Calls(_) => "calls",
            Self::Idle(_) => "idle",
            Self::Smtp(_) => "smtp",
            Self::Subscribe(_) => "subscribe",
            Self::Web(_) => "web",
        }
    }

    /// The name and the number of its clients. CALL has one on each agent, because the next call
    /// begins when the previous one has ended.
    pub(super) fn clients(&self, agents: usize) -> (&'static str, usize) {
        match self {
            Self::Call(_) => ("callers", agents),
            Self::Calls(arguments) => ("connections", arguments.connections.get()),
            Self::Idle(arguments) => ("connections", arguments.connections.get()),
            Self::Smtp(arguments) => ("sessions", arguments.sessions.get()),
            Self::Subscribe(arguments) => ("users", arguments.users.get()),
            Self::Web(arguments) => ("clients", arguments.clients.get()),
        }
    }

    /// The same workload with another number of clients. A rate is that of all of them together, so
    /// it is divided like them.
    pub(super) fn with_clients(mut self, clients: usize) -> Self {
        let count = SweepValues::one(clients);
        match &mut self {
            Self::Call(_) => {}
            Self::Calls(arguments) => arguments.limit_to(clients),
            Self::Idle(arguments) => arguments.limit_to(clients),
            Self::Smtp(arguments) => arguments.sessions = count,
            Self::Subscribe(arguments) => arguments.users = count,
            Self::Web(arguments) => arguments.limit_to(clients),
        }
        self
    }

    /// Refuses settings that agents cannot have.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        match self {
            Self::Idle(arguments) => arguments.login.refuse_on_agents(),
            Self::Subscribe(arguments) => arguments.login.refuse_on_agents(),
            _ => Ok(()),
        }
    }

    pub(super) fn scenario(self) -> Result<Box<dyn Scenario>, BenchError> {
        Ok(match self {
            Self::Call(arguments) => Box::new(Call::new(arguments)?),
            Self::Calls(arguments) => Box::new(Calls::new(arguments)?),
            Self::Idle(arguments) => Box::new(Idle::new(arguments)?),
            Self::Smtp(arguments) => Box::new(Smtp::new(arguments)?),
            Self::Subscribe(arguments) => Box::new(SubscribeBurst::new(arguments)?),
            Self::Web(arguments) => Box::new(Web::new(arguments)?),
        })
    }

    /// Names of the figures for the server's CPU and memory per operation between the first and
    /// the second gate. The other scenarios measure CPU over the whole run.
    pub(super) const fn growth(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Subscribe(_) => Some((
                "server CPU per subscription",
                "server memory per subscription",
            )),
            Self::Idle(_) => Some(("server CPU per login", "server memory per connection")),
            _ => None,
        }
    }
}
