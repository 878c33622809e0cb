//! The hosts of a next hop: the host that it names, or those of a domain's MX records.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use super::ForwardContext;
use super::error::HopError;
use super::next_hop::{HopAddress, NextHop};

/// Hosts of a domain that are tried for one message.
const EXCHANGERS_TRIED_MAX: usize = 5;

/// One host.
pub(super) struct HostCandidate {
    pub(super) target: ConnectTarget,
    /// Its name, for certificates and TLSA records.
    pub(super) name: String,
    pub(super) port: u16,
}

impl HostCandidate {
    /// Whether it is an MX, which DNS names and not the settings.
    pub(super) const fn is_exchanger(&self) -> bool {
        matches!(self.target, ConnectTarget::Exchanger(..))
    }
}

/// A target to connect to.
pub(super) enum ConnectTarget {
    /// Host and port, for the system to resolve.
    Named(String),
    /// An MX, by its name.
    Exchanger(String, u16),
    Unix(PathBuf),
}

impl ForwardContext {
    /// The hosts of a next hop, the preferred first. Those of a domain that lead back to this host,
    /// of the name `own`, are left out.
    pub(super) async fn candidates(
        &self,
        next_hop: &NextHop,
        own: &str,
        until: Instant,
    ) -> Result<Vec<HostCandidate>, HopError> {
        let own_name = || match self.settings.tls_name.as_str() {
            "" => next_hop.host().to_owned(),
            name => name.to_owned(),
        };
        Ok(match &next_hop.place {
            HopAddress::Tcp(place) => vec![HostCandidate {
                target: ConnectTarget::Named(place.clone()),
                name: own_name(),
                port: next_hop.port(),
            }],
            HopAddress::Unix(path) => vec![HostCandidate {
                target: ConnectTarget::Unix(path.clone()),
                name: own_name(),
                port: 0,
            }],
            HopAddress::Exchangers { domain, port } => {
                let exchangers = self.dns.exchangers(domain, own, until).await?;
                let candidate = |name: String| HostCandidate {
                    target: ConnectTarget::Exchanger(name.clone(), *port),
                    name,
                    port: *port,
                };
                let tried = exchangers.into_iter().take(EXCHANGERS_TRIED_MAX);
                tried.map(candidate).collect()
            }
        })
    }

    /// The port of an MX.
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
        until: Instant,
    ) -> Result<Vec<SocketAddr>, HopError> {
        let addresses = self.dns.addresses(host, until).await?;
        let places = addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port));
        Ok(places.collect())
    }
}
