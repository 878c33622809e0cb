//! Requests to other servers, for procedures: only to those that the settings name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_settings::{ByteSize, Period};
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};

use super::http_error::OutgoingHttpError;
use super::http_server::{HttpOrigin, HttpServer};
use super::network::{HostNetwork, PendingAnswer};
use crate::procedure::Wake;

const USER_AGENT: &str = concat!("gatepost/", env!("CARGO_PKG_VERSION"));
/// Fields that determine the end of a request and its server (RFC 9112, section 6): they are
/// derived from the request itself.
const OWN_FIELDS: [&str; 5] = [
    "Connection",
    "Content-Length",
    "Host",
    "Transfer-Encoding",
    "Upgrade",
];

/// `[procedures.http]`: the servers that `http.…` of Luau procedures may connect to.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ProcedureHttpSettings {
    /// Scheme, host and port: `["https://hooks.example.org", "http://127.0.0.1:9000"]`. Empty
    /// allows none. Redirects are not followed.
    pub hosts: Vec<String>,
    /// The time limit of a request; never longer than the procedure's `wait_max`.
    pub timeout: Period,
    /// The largest answer.
    pub answer_max: ByteSize,
    /// Connections to one server at one time; further requests wait for one of them.
    pub connections_max: usize,
}

impl Default for ProcedureHttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            timeout: Period::seconds(5),
            answer_max: ByteSize::mebibytes(1),
            connections_max: 64,
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

/// The response.
pub(crate) struct OutgoingResponse {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// Sends requests.
pub(crate) struct Http {
    servers: HashMap<HttpOrigin, Arc<HttpServer>>,
    timeout: Duration,
    answer_bytes_max: usize,
}

impl Http {
    pub(super) fn new(settings: &ProcedureHttpSettings) -> Self {
        let tls = Arc::default();
        let server = |origin: HttpOrigin| {
            let server = HttpServer::new(&origin, settings.connections_max, &tls);
            (origin, Arc::new(server))
        };
        let origins = settings.hosts.iter().filter_map(|url| HttpOrigin::of(url));
        Self {
            servers: origins.map(server).collect(),
            timeout: settings.timeout.duration(),
            answer_bytes_max: settings.answer_max.as_usize(),
        }
    }

    /// Begins a request; it ends at `deadline` at the latest.
    pub(crate) fn start(
        &self,
        network: &HostNetwork,
        request: OutgoingRequest,
        deadline: Instant,
    ) -> Result<PendingResponse, OutgoingHttpError> {
        let malformed = || OutgoingHttpError::Malformed(request.url.clone());
        let origin = HttpOrigin::of(&request.url).ok_or_else(malformed)?;
        let server = self.servers.get(&origin);
        let server = server.ok_or_else(|| OutgoingHttpError::NotAllowed(origin.to_string()))?;
        let request = request.into_http()?;
        let deadline = deadline.min(Instant::now() + self.timeout);
        let (server, bytes_max) = (Arc::clone(server), self.answer_bytes_max);
        let answer = network.start(deadline, async move {
            let (response, lease) = server.send(request).await?;
            let response = OutgoingResponse::read(response, bytes_max).await?;
            lease.give_back();
            Ok(response)
        });
        Ok(PendingResponse(answer))
    }
}

/// A pending request.
pub(crate) struct PendingResponse(PendingAnswer<Result<OutgoingResponse, OutgoingHttpError>>);

impl PendingResponse {
    /// Registers a function that is called when the request has ended.
    pub(crate) fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        self.0.notifier()
    }

    /// The response.
    pub(crate) fn end(self) -> Result<OutgoingResponse, OutgoingHttpError> {
        self.0.take().unwrap_or(Err(OutgoingHttpError::Timeout))
    }
}

impl OutgoingRequest {
    fn into_http(self) -> Result<Request<Full<Bytes>>, OutgoingHttpError> {
        let mut builder = Request::builder().method(self.method).uri(&self.url);
        for (name, value) in &self.fields {
            if OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                return Err(OutgoingHttpError::OwnField(name.clone()));
            }
            builder = builder.header(name, value);
        }
        let body = Full::new(Bytes::from(self.body));
        let mut request = builder.body(body).map_err(failed)?;
        let agent = HeaderValue::from_static(USER_AGENT);
        request
            .headers_mut()
            .entry(header::USER_AGENT)
            .or_insert(agent);
        Ok(request)
    }
}

impl OutgoingResponse {
    async fn read(
        response: Response<Incoming>,
        bytes_max: usize,
    ) -> Result<Self, OutgoingHttpError> {
        let (head, body) = response.into_parts();
        let field = |(name, value): (&HeaderName, &HeaderValue)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        };
        let body = Limited::new(body, bytes_max).collect().await;
        Ok(Self {
            status: head.status.as_u16(),
            fields: head.headers.iter().map(field).collect(),
            body: body.map_err(failed)?.to_bytes(),
        })
    }
}

fn failed(error: impl std::fmt::Display) -> OutgoingHttpError {
    OutgoingHttpError::Failed(error.to_string())
}

/// The entries that are not a scheme, host and port.
pub(crate) fn malformed_hosts(settings: &ProcedureHttpSettings) -> impl Iterator<Item = &str> {
    let hosts = settings.hosts.iter().map(String::as_str);
    hosts.filter(|url| HttpOrigin::of(url).is_none())
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
            let origin = HttpOrigin::of(url).map(|origin| origin.to_string());
            assert_eq!(origin.as_deref(), expected, "{url}");
        }
    }
}
