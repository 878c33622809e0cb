//! Forwarding to the next hop, as a proxy before its queue: the client's transaction and one at the
//! next hop run in parallel, and the client receives success only after the next hop has reported
//! it. Gatepost has no queue of its own that could lose mail.
//!
//! `next_hop` is its address, `candidates` its hosts, `security` the proof that each must give (by
//! `dns` and `mta_sts`), `hop` a connection to one, `extensions` what it offers, `reply` parses its
//! replies, `pool` keeps idle connections, `relay` is one transaction, `login` logs in
//! (`login_mechanisms`, `scram_client`). `smarthost` is the next hop of the server's own mail.

mod candidates;
mod dns;
mod error;
mod extensions;
mod hop;
mod login;
mod login_mechanisms;
mod mta_sts;
mod next_hop;
mod pool;
mod relay;
mod reply;
mod scram_client;
mod security;
mod settings;
mod smarthost;

use gatepost_settings::Bind;
use gatepost_store::Store;

use crate::tls::{CertificateTrust, ClientTls};
pub(crate) use error::HopError;
pub use next_hop::{MalformedNextHop, NextHop};
pub(crate) use relay::{BodyEncoding, HopTransaction, RelayClient, RelayMail, RelayStart};
pub(crate) use reply::HopReply;
pub use settings::{ForwardSettings, HopTls};
pub use smarthost::{DkimKeySettings, Smarthost, SmarthostMistake, SmarthostSettings};

/// Runs the parser of a next hop's replies, for fuzzing.
#[doc(hidden)]
pub fn fuzz_reply(input: &[u8]) -> String {
    let mut input = bytes::BytesMut::from(input);
    format!("{:?}", reply::take(&mut input))
}

/// Runs the parser of MTA-STS policies, for fuzzing.
#[doc(hidden)]
pub fn fuzz_policy(text: &str) -> String {
    format!("{:?}", mta_sts::MtaStsPolicy::parse(text))
}

/// The configuration of all connections of a listener to the next hop.
pub(crate) struct ForwardContext {
    pub(crate) settings: ForwardSettings,
    /// TLS without a check of the server's identity.
    unverified: ClientTls,
    /// TLS that verifies certificates against trusted authorities.
    authorities: ClientTls,
    dns: dns::HopResolver,
    policies: mta_sts::MtaStsPolicies,
    /// The login of this server at the next hop.
    login: Option<login::HopLogin>,
    /// The TCP ports on which this server accepts mail.
    own_ports: Vec<u16>,
}

impl ForwardContext {
    pub(crate) fn new(settings: ForwardSettings) -> Self {
        Self {
            unverified: ClientTls::new(CertificateTrust::All),
            authorities: ClientTls::new(CertificateTrust::Authorities(settings.tls_ca.clone())),
            dns: dns::HopResolver::new(&settings.dns_servers),
            policies: mta_sts::MtaStsPolicies::default(),
            login: None,
            own_ports: Vec::new(),
            settings,
        }
    }

    /// Sends no mail of a domain to these addresses of this machine, where the same mail arrived.
    pub(crate) fn except(mut self, own: &[Bind]) -> Self {
        let ports = own.iter().filter_map(|bind| match bind {
            Bind::Tcp(address) => Some(address.port()),
            Bind::Unix(_) => None,
        });
        self.own_ports.extend(ports);
        self
    }

    /// Keeps MTA-STS policies over a restart.
    pub(crate) fn keep_policies(&mut self, store: &Store) {
        self.policies = mta_sts::MtaStsPolicies::open(store);
    }
}
