//! Fetching a policy by HTTPS (RFC 8461, section 3.3): from the domain's own host, with a
//! certificate for its name by an authority, without redirects, in bounded time and size.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// RFC 8461, section 3.3 suggests 64 KB.
const POLICY_BYTES_MAX: u64 = 64 * 1024;

/// The reason why there is no policy.
#[derive(Debug, thiserror::Error)]
pub(super) enum PolicyFetchError {
    #[error("{0}")]
    Http(#[from] ureq::Error),
    #[error("the answer is {0}, not 200")]
    Status(u16),
    #[error("the answer is of the type '{0}', not text/plain")]
    Type(String),
    #[error("the task of the request ended")]
    Cancelled,
}

/// The source and method for fetching a policy.
pub(super) struct PolicyRequest {
    /// `mta-sts.DOMAIN`.
    pub(super) host: String,
    pub(super) addresses: Vec<SocketAddr>,
    /// The trusted authorities; empty takes the system's.
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) timeout: Duration,
}

impl PolicyRequest {
    /// The policy's text.
    pub(super) async fn send(self) -> Result<String, PolicyFetchError> {
        let answer = tokio::task::spawn_blocking(move || self.send_now()).await;
        answer.map_err(|_| PolicyFetchError::Cancelled)?
    }

    fn send_now(self) -> Result<String, PolicyFetchError> {
        let roots = if self.authorities.is_empty() {
            RootCerts::PlatformVerifier
        } else {
            let certificate = |der: &CertificateDer<'_>| Certificate::from_der(der).to_owned();
            let all: Vec<_> = self.authorities.iter().map(certificate).collect();
            RootCerts::Specific(Arc::new(all))
        };
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = ureq::Agent::config_builder()
            .https_only(true)
            .http_status_as_error(false)
            // RFC 8461, section 3.3: redirects are not followed.
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("gatepost/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(self.timeout))
            .tls_config(tls)
            .build();
        let url = format!("https://{}/.well-known/mta-sts.txt", self.host);
        let addresses = Addresses(self.addresses);
        let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), addresses);
        let mut answer = agent.get(url).call()?;
        if answer.status() != 200 {
            return Err(PolicyFetchError::Status(answer.status().as_u16()));
        }
        let kind = answer.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("text/plain") {
            return Err(PolicyFetchError::Type(kind.to_owned()));
        }
        let body = answer.body_mut().with_config().limit(POLICY_BYTES_MAX);
        Ok(body.read_to_string()?)
    }
}

/// The addresses that DNS returned.
#[derive(Debug)]
struct Addresses(Vec<SocketAddr>);

impl Resolver for Addresses {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &ureq::config::Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut resolved = self.empty();
        // The body is larger than the buffer.
        for address in self.0.iter().take(16) {
            resolved.push(*address);
        }
        if resolved.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(resolved)
    }
}
