//! An HTTP/1.1 client for one URL: persistent connections, each to a checked address.

mod addresses;
mod retry_after;
mod target;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::tls;
pub(crate) use addresses::AddressGuard;
pub(crate) use retry_after::retry_after;
pub(crate) use target::HttpTarget;

/// A connection without a request is kept for this long; servers close theirs after a similar time.
const IDLE_TIME_MAX: Duration = Duration::from_secs(15);
/// A server's name has several addresses; one that does not answer leaves time for the next.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(4);
/// Bytes of a response body that are read so that its connection can be reused, and the time for
/// that.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// The reason why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("{0} is not a public address; allow_private or allow_networks would permit it")]
    Forbidden(IpAddr),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the name has no address")]
    NoAddress,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

/// The system's verifier of certificates, made at the first use. The verifier holds all authorities
/// of the system in memory, so clients with one purpose share it.
#[derive(Clone, Default)]
pub(crate) struct SharedTls(Arc<OnceLock<Result<TlsConnector, String>>>);

type HttpSender = SendRequest<Full<Bytes>>;

pub(crate) struct HttpClient {
    target: HttpTarget,
    guard: AddressGuard,
    idle: Mutex<Vec<(HttpSender, Instant)>>,
    idle_max: usize,
    timeout: Duration,
    tls: SharedTls,
}

impl HttpClient {
    pub(crate) fn new(
        target: HttpTarget,
        guard: AddressGuard,
        idle_max: usize,
        timeout: Duration,
        tls: SharedTls,
    ) -> Self {
        Self {
            target,
            guard,
            idle: Mutex::default(),
            idle_max,
            timeout,
            tls,
        }
    }

    /// Sends a request and reads the response, whose body is ignored.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, HeaderMap), SendError> {
        let answered = tokio::time::timeout(self.timeout, self.exchange(request)).await;
        let (sender, response) = answered.map_err(|_| SendError::TimedOut(self.timeout))??;
        Ok(self.finish(sender, response).await)
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(HttpSender, Response<Incoming>), SendError> {
        while let Some(mut sender) = self.take_idle() {
            // The server may have closed the connection meanwhile; then the request was not sent.
            match sender.try_send_request(request.clone()).await {
                Ok(response) => return Ok((sender, response)),
                Err(error) if error.message().is_some() => {}
                Err(error) => return Err(error.into_error().into()),
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    /// Reads the body to its end, so that the connection can serve the next request. The status
    /// counts even if the body never ends: then the connection is closed.
    async fn finish(
        &self,
        sender: HttpSender,
        response: Response<Incoming>,
    ) -> (StatusCode, HeaderMap) {
        let (head, body) = response.into_parts();
        let read = Limited::new(body, ANSWER_BYTES_MAX).collect();
        let read = tokio::time::timeout(ANSWER_TIME_MAX, read).await;
        if matches!(read, Ok(Ok(_))) {
            let mut idle = self.idle.lock();
            if idle.len() < self.idle_max {
                idle.push((sender, Instant::now()));
            }
        }
        (head.status, head.headers)
    }

    fn take_idle(&self) -> Option<HttpSender> {
        let mut idle = self.idle.lock();
        idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < IDLE_TIME_MAX);
        idle.pop().map(|(sender, _)| sender)
    }

    /// Opens a connection, with TLS if the URL requires it.
    pub(crate) async fn connect(&self) -> Result<HttpSender, SendError> {
        let stream = self.reach().await?;
        stream.set_nodelay(true)?;
        if !self.target.is_tls {
            return greet(stream).await;
        }
        let connector = self.tls.0.get_or_init(tls::connector);
        let connector = connector
            .as_ref()
            .map_err(|error| SendError::Tls(error.clone()))?;
        let name = ServerName::try_from(self.target.host.clone())
            .map_err(|error| SendError::Tls(error.to_string()))?;
        let stream = connector.connect(name, stream).await;
        greet(stream.map_err(|error| SendError::Tls(error.to_string()))?).await
    }

    /// Connects to one of the addresses of the name, after it was checked.
    async fn reach(&self) -> Result<TcpStream, SendError> {
        let found = tokio::net::lookup_host((self.target.host.as_str(), self.target.port)).await?;
        let mut last = SendError::NoAddress;
        for address in found {
            if !self.guard.allows(address.ip()) {
                last = SendError::Forbidden(address.ip());
                continue;
            }
            match tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error.into(),
                Err(_) => last = io::Error::from(io::ErrorKind::TimedOut).into(),
            }
        }
        Err(last)
    }
}

async fn greet<S>(stream: S) -> Result<HttpSender, SendError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender and the response; its errors are reported by the request too.
    gatepost_tasks::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}
