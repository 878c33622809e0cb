//! One server that procedures may contact by HTTP/1.1, and the connections to it.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::http_error::OutgoingHttpError;
use super::network::Connections;

/// Connections without a request that are kept for the next one.
const IDLE_CONNECTIONS_MAX: usize = 3;
/// A connection without a request is kept for this long; servers close theirs after a similar time.
const IDLE_TIME_MAX: Duration = Duration::from_secs(15);
/// A server's name has several addresses; one that does not answer leaves time for the next.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Scheme, host and port of an address, in one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HttpOrigin {
    is_tls: bool,
    host: String,
    port: u16,
}

impl HttpOrigin {
    /// Returns `None` for anything but an HTTP or HTTPS URL.
    pub(super) fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let is_tls = match uri.scheme_str()?.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        // A user name before the host would make one host look like another.
        if uri.authority()?.as_str().contains('@') {
            return None;
        }
        Some(Self {
            is_tls,
            host: uri.host()?.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        })
    }
}

impl fmt::Display for HttpOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// The configuration that TLS connections share; the system's certificates are read for the first
/// of them.
#[derive(Default)]
pub(super) struct TlsClient(OnceLock<Result<TlsConnector, String>>);

impl TlsClient {
    fn connector(&self) -> Result<&TlsConnector, OutgoingHttpError> {
        let made = self.0.get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let configuration = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(BuilderVerifierExt::with_platform_verifier)
                .map_err(|error| error.to_string())?
                .with_no_client_auth();
            Ok(TlsConnector::from(Arc::new(configuration)))
        });
        made.as_ref()
            .map_err(|error| OutgoingHttpError::Failed(error.clone()))
    }
}

pub(super) struct HttpServer {
    origin: HttpOrigin,
    connections: Connections,
    idle: Mutex<Vec<HttpConnection>>,
    tls: Arc<TlsClient>,
}

struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    idle_since: Instant,
}

impl HttpServer {
    pub(super) fn new(origin: &HttpOrigin, connections_max: usize, tls: &Arc<TlsClient>) -> Self {
        Self {
            origin: origin.clone(),
            connections: Connections::new(connections_max),
            idle: Mutex::default(),
            tls: Arc::clone(tls),
        }
    }

    /// Sends a request for an address of this server.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, ConnectionLease), OutgoingHttpError> {
        let request = addressed(request)?;
        let permit = self.connections.permit().await.map_err(failed)?;
        while let Some(mut connection) = self.take_idle() {
            // The server may have closed the connection meanwhile; then the request was not sent.
            match connection.sender.try_send_request(request.clone()).await {
                Ok(response) => return Ok((response, self.lease(connection, permit))),
                Err(error) if error.message().is_some() => {}
                Err(error) => return Err(failed(error.into_error())),
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.sender.send_request(request).await;
        Ok((response.map_err(failed)?, self.lease(connection, permit)))
    }

    fn take_idle(&self) -> Option<HttpConnection> {
        let mut idle = self.idle.lock();
        idle.retain(|one| !one.sender.is_closed() && one.idle_since.elapsed() < IDLE_TIME_MAX);
        idle.pop()
    }

    fn lease(
        self: &Arc<Self>,
        connection: HttpConnection,
        permit: OwnedSemaphorePermit,
    ) -> ConnectionLease {
        ConnectionLease {
            server: Arc::clone(self),
            connection,
            _permit: permit,
        }
    }

    async fn connect(&self) -> Result<HttpConnection, OutgoingHttpError> {
        let host = self.origin.host.trim_matches(['[', ']']);
        let stream = connect(host, self.origin.port).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let sender = if self.origin.is_tls {
            let name = ServerName::try_from(host.to_owned()).map_err(failed)?;
            let connector = self.tls.connector()?;
            greet(connector.connect(name, stream).await.map_err(failed)?).await?
        } else {
            greet(stream).await?
        };
        Ok(HttpConnection {
            sender,
            idle_since: Instant::now(),
        })
    }
}

/// A connection whose response is being read.
pub(super) struct ConnectionLease {
    server: Arc<HttpServer>,
    connection: HttpConnection,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLease {
    /// Returns the connection for the next request, after the response was read to its end.
    pub(super) fn give_back(self) {
        let mut connection = self.connection;
        connection.idle_since = Instant::now();
        let mut idle = self.server.idle.lock();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }
}

/// The request in the form that a request to the server itself has (RFC 9112, section 3.2.1).
fn addressed(mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, OutgoingHttpError> {
    let authority = request.uri().authority().map(ToString::to_string);
    let host = HeaderValue::try_from(authority.unwrap_or_default()).map_err(failed)?;
    let path = request.uri().path_and_query();
    *request.uri_mut() = path.map_or_else(Uri::default, |path| path.clone().into());
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

async fn greet<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, OutgoingHttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    // The task ends with the sender and the response; its errors are reported by the request too.
    gatepost_tasks::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// Tries one address after the other.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in tokio::net::lookup_host((host, port)).await? {
        match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

fn failed(error: impl fmt::Display) -> OutgoingHttpError {
    OutgoingHttpError::Failed(error.to_string())
}
