//! The settings of forwarding.

use std::net::SocketAddr;
use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use crate::tls::{CertificateTrust, ClientTls, TlsError};

/// Whether mail is sent to the next hop encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopTls {
    /// Never.
    Off,
    /// As DANE and MTA-STS demand. Without either, TLS is used if the next hop offers STARTTLS,
    /// whatever its certificate; if TLS fails, mail goes in plain text (RFC 7435).
    #[default]
    Opportunistic,
    /// Always, with an authority's certificate for its name; otherwise the client keeps the mail.
    Required,
}

impl ForwardSettings {
    /// Whether the next hop's certificate could be checked.
    pub fn check(&self) -> Result<(), TlsError> {
        match self.tls {
            HopTls::Required => {
                ClientTls::new(CertificateTrust::Authorities(self.tls_ca.clone())).check()
            }
            HopTls::Opportunistic if !self.tls_ca.as_os_str().is_empty() => {
                ClientTls::new(CertificateTrust::Authorities(self.tls_ca.clone())).check()
            }
            HopTls::Off | HopTls::Opportunistic => Ok(()),
        }
    }
}

/// `listeners.smtp.forward`: connections to the next hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForwardSettings {
    /// Whether mail is sent to it encrypted: `off`; `opportunistic`, as DANE and MTA-STS demand,
    /// and without either if it offers STARTTLS, whatever its certificate; `required`, always with
    /// an authority's certificate, otherwise the client keeps the mail.
    pub tls: HopTls,
    /// Whether TLSA records that DNSSEC proves decide about its certificate (DANE, RFC 7672).
    pub dane: bool,
    /// Whether the policy of a domain decides about the certificates of its MX (MTA-STS, RFC 8461).
    pub mta_sts: bool,
    /// The port that MTA-STS policies are fetched from; the standard's is 443.
    pub mta_sts_port: u16,
    /// Resolvers that validate DNSSEC and are reached over a secure path, with their ports: records
    /// that they mark as authentic are trusted. Empty takes those of `/etc/resolv.conf`, which are
    /// trusted only if all of them are on this machine.
    pub dns_servers: Vec<SocketAddr>,
    /// The authorities that may sign its certificate where TLS is required or an MTA-STS policy
    /// demands it, and that of the policy's server: a PEM file; empty takes the system's.
    pub tls_ca: PathBuf,
    /// The next hop's name, for certificates and TLSA records; if empty, the host name of the
    /// address is used. An MX has its own.
    pub tls_name: String,
    /// Whether the next hop receives the client's own name and address (XFORWARD), if it offers
    /// that.
    pub xforward: bool,
    /// The time limit for connecting and greeting.
    pub connect_timeout: Period,
    /// The time limit for a command.
    pub command_timeout: Period,
    /// The time limit for the reply to a whole message.
    pub message_timeout: Period,
    /// The number of idle connections that each worker keeps for the next message.
    pub idle_connections_max: usize,
    /// The longest idle time after which a connection is still used.
    pub idle_time_max: Period,
}

impl Default for ForwardSettings {
    fn default() -> Self {
        Self {
            tls: HopTls::default(),
            dane: true,
            mta_sts: true,
            mta_sts_port: 443,
            dns_servers: Vec::new(),
            tls_ca: PathBuf::new(),
            tls_name: String::new(),
            xforward: true,
            connect_timeout: Period::seconds(30),
            // RFC 5321, section 4.5.3.2.
            command_timeout: Period::seconds(300),
            message_timeout: Period::seconds(600),
            idle_connections_max: 20,
            idle_time_max: Period::seconds(30),
        }
    }
}
