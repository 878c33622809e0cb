//! Services that procedures may use: persistent values, the broker, the domain name
//! system, other servers, outgoing mail. Nothing here knows a protocol of the listeners.

use std::sync::Arc;

use gatepost_message::Publication;
use gatepost_settings::ByteSize;
use gatepost_store::{Originals, ValueLimits, ValueStore};

mod dns;
mod greylist_counts;
mod http_client;
mod http_error;
mod http_server;
mod mailer;
mod memory;
mod network;
mod repetitions;
mod token_buckets;

pub use dns::DnsSettings;
pub(crate) use dns::{Dns, NamesAnswer, PendingNames};
pub(crate) use greylist_counts::GreylistDecision;
pub use http_client::ProcedureHttpSettings;
pub(crate) use http_client::{
    Http, OutgoingRequest, OutgoingResponse, PendingResponse, malformed_hosts,
};
pub(crate) use mailer::Mailer;
pub use mailer::{ProcedureMail, ProcedureMailer};
pub(crate) use memory::SharedMemory;
pub(crate) use network::{Connections, HostNetwork, PendingAnswer};
pub(crate) use repetitions::RepetitionLimits;
pub(crate) use token_buckets::TokenRate;

/// The destination of procedures' publications: the broker, or the record of a test run.
pub trait ProcedurePublications: Send + Sync {
    /// Publishes to the subscribers of the topic. The publication is not judged again.
    fn publish(&self, publication: Publication);
}

/// The senders that an operator allows.
pub trait KnownSenders: Send + Sync {
    /// Whether the list has this address, in any letter case.
    fn has(&self, address: &str) -> bool;
}

/// Services of the server for its procedures.
#[derive(Clone)]
pub struct ProcedureHost {
    pub(crate) values: ValueStore,
    pub(crate) publications: Option<Arc<dyn ProcedurePublications>>,
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) originals: Option<Originals>,
    mailer: Mailer,
}

impl ProcedureHost {
    /// A host with persistent values and a destination of publications.
    pub fn new(values: ValueStore, publications: Option<Arc<dyn ProcedurePublications>>) -> Self {
        Self {
            values,
            publications,
            memory: Arc::default(),
            originals: None,
            mailer: Mailer::default(),
        }
    }

    /// Keeps judged messages as they arrived, for replays with other rules.
    #[must_use]
    pub fn keeping(self, originals: Originals) -> Self {
        Self {
            originals: Some(originals),
            ..self
        }
    }

    /// Sends mail of procedures by this way.
    #[must_use]
    pub fn mailing(self, mail: Arc<dyn ProcedureMailer>) -> Self {
        Self {
            mailer: Mailer(Some(mail)),
            ..self
        }
    }

    /// A host for test runs: values end with the process, and publications are discarded.
    pub fn detached() -> Self {
        Self::new(ValueStore::in_memory(VALUES_APART), None)
    }
}

const VALUES_APART: ValueLimits = ValueLimits {
    count_max: 100_000,
    bytes_max: ByteSize::mebibytes(64),
};

/// The host, and the resources of the settings.
pub(crate) struct Resources {
    pub(crate) host: ProcedureHost,
    pub(crate) dns: Dns,
    pub(crate) http: Http,
    pub(crate) mailer: Mailer,
    pub(crate) network: HostNetwork,
}

impl Resources {
    pub(crate) fn new(
        host: &ProcedureHost,
        dns: &DnsSettings,
        http: &ProcedureHttpSettings,
    ) -> Self {
        Self {
            host: host.clone(),
            dns: Dns::new(dns, &host.memory),
            http: Http::new(http),
            mailer: host.mailer.clone(),
            network: HostNetwork::default(),
        }
    }
}
