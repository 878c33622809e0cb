//! What procedures may reach beside the message: values that last, the broker, the domain name
//! system, other servers, outgoing mail. Nothing here knows a protocol of the listeners.

use std::sync::Arc;

use gatepost_message::Publication;
use gatepost_store::{Originals, Values};

use crate::ProceduresSettings;

mod dns;
mod http;
mod mailer;
mod memory;

pub use dns::DnsSettings;
pub(crate) use dns::{Dns, Kind, reverse_name};
pub use http::HttpSettings;
pub(crate) use http::{Http, Request, malformed_hosts};
pub use mailer::MailerSettings;
pub(crate) use mailer::{Letter, Mailer};
pub(crate) use memory::Memory;

/// Where publications of procedures go: the broker, or a trial's notes.
pub trait Outlet: Send + Sync {
    /// Hands it to everyone who subscribed to its topic. It is not judged again.
    fn publish(&self, publication: Publication);
}

/// What a server lends to its procedures.
#[derive(Clone)]
pub struct Host {
    pub(crate) values: Values,
    pub(crate) outlet: Option<Arc<dyn Outlet>>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) originals: Option<Originals>,
}

impl Host {
    /// Values that last, and a way out for publications.
    pub fn new(values: Values, outlet: Option<Arc<dyn Outlet>>) -> Self {
        Self {
            values,
            outlet,
            memory: Arc::default(),
            originals: None,
        }
    }

    /// Has what scopes judge kept as it arrived, for trials of other rules.
    #[must_use]
    pub fn keeping(self, originals: Originals) -> Self {
        Self {
            originals: Some(originals),
            ..self
        }
    }

    /// For trials: values end with the process, and publications go nowhere.
    pub fn apart() -> Self {
        Self::new(Values::in_memory(VALUES_APART_MAX), None)
    }
}

const VALUES_APART_MAX: usize = 100_000;

/// The host, and what the settings add to it.
pub(crate) struct Resources {
    pub(crate) host: Host,
    pub(crate) dns: Dns,
    pub(crate) http: Http,
    pub(crate) mailer: Mailer,
}

impl Resources {
    pub(crate) fn new(host: &Host, settings: &ProceduresSettings) -> Self {
        Self {
            host: host.clone(),
            dns: Dns::new(&settings.dns, &host.memory),
            http: Http::new(&settings.http),
            mailer: Mailer::new(&settings.mail),
        }
    }
}
