//! Requests to other servers, for procedures: only to those that the settings name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};
use ureq::tls::{RootCerts, TlsConfig};

/// `[procedures.http]`: which servers `http.…` of Luau procedures may ask.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ProcedureHttpSettings {
    /// Scheme, host and port: `["https://hooks.example.org", "http://127.0.0.1:9000"]`. Empty
    /// allows none. Redirects are not followed.
    pub hosts: Vec<String>,
    /// How long a request may take; never longer than the procedure's `time_max`.
    pub timeout: Period,
    /// The largest answer.
    pub answer_max: ByteSize,
}

impl Default for ProcedureHttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            timeout: Period::seconds(5),
            answer_max: ByteSize::mebibytes(1),
        }
    }
}

/// One request.
pub(crate) struct OutgoingRequest {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What came back.
pub(crate) struct OutgoingResponse {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutgoingHttpError {
    #[error("{0} is no server that procedures.http.hosts allows")]
    NotAllowed(String),
    #[error("'{0}' is no address of the web")]
    Malformed(String),
    #[error("{0}")]
    Failed(String),
}

pub(crate) struct Http {
    agent: ureq::Agent,
    origins: Vec<String>,
    timeout: Duration,
    answer_bytes_max: u64,
}

impl Http {
    pub(super) fn new(settings: &ProcedureHttpSettings) -> Self {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("gatepost/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .new_agent();
        Self {
            agent,
            origins: settings
                .hosts
                .iter()
                .filter_map(|url| origin(url))
                .collect(),
            timeout: settings.timeout.duration(),
            answer_bytes_max: settings.answer_max.bytes(),
        }
    }

    pub(crate) fn send(
        &self,
        request: OutgoingRequest,
        deadline: Instant,
    ) -> Result<OutgoingResponse, OutgoingHttpError> {
        let malformed = || OutgoingHttpError::Malformed(request.url.clone());
        let origin = origin(&request.url).ok_or_else(malformed)?;
        if !self.origins.contains(&origin) {
            return Err(OutgoingHttpError::NotAllowed(origin));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let mut builder = ureq::http::Request::builder()
            .method(request.method)
            .uri(&request.url);
        for (name, value) in &request.fields {
            builder = builder.header(name, value);
        }
        let failed = |error: &dyn std::fmt::Display| OutgoingHttpError::Failed(error.to_string());
        let message = builder.body(request.body).map_err(|error| failed(&error))?;
        let message = self
            .agent
            .configure_request(message)
            .timeout_global(Some(left.min(self.timeout)))
            .allow_non_standard_methods(true)
            .build();
        let mut response = self.agent.run(message).map_err(|error| failed(&error))?;
        let field = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        };
        let fields = response.headers().iter().map(field).collect();
        let body = response
            .body_mut()
            .with_config()
            .limit(self.answer_bytes_max)
            .read_to_vec()
            .map_err(|error| failed(&error))?;
        Ok(OutgoingResponse {
            status: response.status().as_u16(),
            fields,
            body,
        })
    }
}

/// Scheme, host and port of an address, in one spelling.
fn origin(url: &str) -> Option<String> {
    let uri: ureq::http::Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    // A user name before the host would make one host look like another.
    if uri.authority()?.as_str().contains('@') {
        return None;
    }
    let host = uri.host()?.to_ascii_lowercase();
    Some(format!(
        "{scheme}://{host}:{}",
        uri.port_u16().unwrap_or(default_port)
    ))
}

/// Which of these are no scheme, host and port.
pub(crate) fn malformed_hosts(settings: &ProcedureHttpSettings) -> impl Iterator<Item = &str> {
    let hosts = settings.hosts.iter().map(String::as_str);
    hosts.filter(|url| origin(url).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_one_spelling() {
        for (url, expected) in [
            (
                "https://Hooks.example.org/a?b",
                Some("https://hooks.example.org:443"),
            ),
            ("http://127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            ("http://allowed.example@evil.example/", None),
            ("ftp://example.org", None),
            ("example.org", None),
        ] {
            assert_eq!(origin(url).as_deref(), expected, "{url}");
        }
    }
}
