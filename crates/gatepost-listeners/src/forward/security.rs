//! Proofs that a host must give before it gets mail.
//!
//! TLSA records come first: a policy of MTA-STS cannot overrule what DNSSEC proves (RFC 8461,
//! section 2). `forward.tls = "off"` and `"required"` are decisions of the operator, so neither is
//! looked up.

use std::time::Instant;

use gatepost_dns::Tlsa;

use super::candidates::{ConnectTarget, HostCandidate};
use super::error::{HopError, TlsRequirement};
use super::mta_sts::{MtaStsMode, MtaStsPolicy};
use super::{ForwardContext, HopTls};
use crate::tls::dane;

/// The security of a connection to one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HopSecurity {
    /// In plain text.
    Plain,
    /// Encrypted if possible; the host's identity is not checked.
    Opportunistic,
    /// The same, and a host that does not prove its name is logged (MTA-STS, mode `testing`).
    Tested,
    /// Encrypted, the host's identity unchecked: it has TLSA records, and none of them is usable
    /// (RFC 7672, section 2.2).
    Encrypted,
    /// Encrypted, with a certificate that one of these records matches.
    Dane(Vec<Tlsa>),
    /// Encrypted, with an authority's certificate for its name.
    Verified(TlsRequirement),
}

impl HopSecurity {
    /// The policy that demands encryption.
    pub(super) const fn requirement(&self) -> TlsRequirement {
        match self {
            Self::Plain | Self::Opportunistic | Self::Tested => TlsRequirement::Nothing,
            Self::Encrypted | Self::Dane(_) => TlsRequirement::Dane,
            Self::Verified(by) => *by,
        }
    }

    /// The fallback if TLS fails; `None` if the connection must not be weakened.
    pub(super) const fn weaker(&self) -> Option<Self> {
        match self {
            Self::Tested => Some(Self::Opportunistic),
            Self::Opportunistic => Some(Self::Plain),
            Self::Plain | Self::Encrypted | Self::Dane(_) | Self::Verified(_) => None,
        }
    }
}

impl ForwardContext {
    /// The proof that this host must give. `policy` is that of the domain whose MX it is.
    pub(super) async fn security(
        &self,
        candidate: &HostCandidate,
        policy: Option<&MtaStsPolicy>,
        until: Instant,
    ) -> Result<HopSecurity, HopError> {
        match self.settings.tls {
            HopTls::Off => return Ok(HopSecurity::Plain),
            HopTls::Required => return Ok(HopSecurity::Verified(TlsRequirement::Setting)),
            HopTls::Opportunistic => {}
        }
        if self.settings.dane {
            let (name, port) = (&candidate.name, candidate.port);
            let records = match candidate.target {
                ConnectTarget::Exchanger(..) => self.dns.tlsa(name, port, until).await?,
                ConnectTarget::Named(_) | ConnectTarget::Unix(_) => {
                    self.dns.tlsa_of_named(name, port, until).await?
                }
            };
            if let Some(mut records) = records {
                records.retain(dane::is_usable);
                return Ok(if records.is_empty() {
                    HopSecurity::Encrypted
                } else {
                    HopSecurity::Dane(records)
                });
            }
        }
        Ok(match policy.map(|policy| policy.mode) {
            Some(MtaStsMode::Enforce) => HopSecurity::Verified(TlsRequirement::MtaSts),
            Some(MtaStsMode::Testing) => HopSecurity::Tested,
            Some(MtaStsMode::None) | None => HopSecurity::Opportunistic,
        })
    }
}
