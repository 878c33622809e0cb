//! The resolver: the servers that are queried, and the thread that queries them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::exchange::DnsTransport;
use crate::silence::{Silence, SilenceLimits, SilentList};
use crate::wire::{Question, QuestionOutcome, Resolved, ServerFailure};

/// Number of simultaneous open questions; further ones are not sent and stay unanswered.
const OPEN_QUESTIONS_MAX: usize = 100_000;

/// The reason why a single question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name or one of its labels is too long.
    #[error("'{0}' is not a domain name")]
    Name(String),
    /// No server answered before the deadline.
    #[error("no DNS server answered in time")]
    Timeout,
    /// The server answered with a failure.
    #[error("{0}")]
    Failed(ServerFailure),
    /// No server is configured.
    #[error("there is no DNS server to ask")]
    NoServer,
}

/// A client of DNS servers that is shared by all callers. Cheap to clone; its thread starts with
/// the first question and ends with the last clone.
#[derive(Clone)]
pub struct Resolver(Arc<ResolverCore>);

struct ResolverCore {
    servers: Vec<SocketAddr>,
    server_timeout: Duration,
    silence: Arc<Silence>,
    thread: OnceLock<Option<Thread>>,
}

/// The thread of a resolver. Ends when this is dropped.
struct Thread {
    runtime: Handle,
    open: Arc<AtomicUsize>,
    transport: Arc<DnsTransport>,
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Resolver")
            .field("servers", &self.0.servers)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that asks these servers in order, each for at most `server_timeout` per question.
    pub fn new(servers: Vec<SocketAddr>, server_timeout: Duration) -> Self {
        Self::with_silence(servers, server_timeout, SilenceLimits::default())
    }

    /// A resolver that does not ask silent lists for a while.
    pub fn with_silence(
        servers: Vec<SocketAddr>,
        server_timeout: Duration,
        limits: SilenceLimits,
    ) -> Self {
        Self(Arc::new(ResolverCore {
            servers,
            server_timeout,
            silence: Arc::new(Silence::new(limits)),
            thread: OnceLock::new(),
        }))
    }

    /// The lists that do not answer and are not queried at present.
    pub fn silent_lists(&self) -> Vec<SilentList> {
        self.0.silence.lists()
    }

    /// Whether there is a server to ask.
    pub(crate) fn has_servers(&self) -> bool {
        !self.0.servers.is_empty()
    }

    /// Asks a question. `done` receives the outcome on the resolver's thread, at the deadline at
    /// the latest. Returns false if the question cannot be sent.
    pub(crate) fn put(
        &self,
        question: Question,
        list: Option<&str>,
        deadline: Instant,
        done: impl FnOnce(Question, Option<Resolved>) + Send + 'static,
    ) -> bool {
        if list.is_some_and(|list| !self.0.silence.permits(list, Instant::now())) {
            return false;
        }
        let thread = self.0.thread.get_or_init(|| Thread::start().ok());
        let Some(thread) = thread else {
            return false;
        };
        let Some(open) = OpenQuestion::count(&thread.open) else {
            return false;
        };
        let transport = Arc::clone(&thread.transport);
        let servers = self.0.servers.clone();
        let server_timeout = self.0.server_timeout;
        let list = list.map(|list| (list.to_owned(), Arc::clone(&self.0.silence)));
        gatepost_tasks::spawn_on(&thread.runtime, async move {
            let resolved =
                query_servers(&transport, &servers, server_timeout, &question, deadline).await;
            if let Some((list, silence)) = list {
                match &resolved {
                    None => silence.unanswered(&list, Instant::now()),
                    Some(_) => silence.answered(&list),
                }
            }
            drop(open);
            done(question, resolved);
        });
        true
    }
}

/// Asks one server after the other until one answers. A failure of one server is the result only if
/// no other server answers.
async fn query_servers(
    transport: &DnsTransport,
    servers: &[SocketAddr],
    server_timeout: Duration,
    question: &Question,
    deadline: Instant,
) -> Option<Resolved> {
    let mut last = None;
    for server in servers {
        let until = deadline.min(Instant::now() + server_timeout);
        match transport.query(*server, question, until.into()).await {
            Some(resolved) if matches!(resolved.answer, QuestionOutcome::Failed(_)) => {
                last = Some(resolved);
            }
            Some(resolved) => return Some(resolved),
            None => {}
        }
    }
    last
}

impl Thread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("dns".to_owned())
            .spawn(move || {
                // Ends with an error when the resolver is dropped; open questions end unanswered.
                let _ = runtime.block_on(ended);
            })?;
        Ok(Self {
            runtime: handle,
            open: Arc::default(),
            transport: Arc::default(),
            _alive: alive,
        })
    }
}

/// One open question, which is counted for as long as this value exists.
struct OpenQuestion(Arc<AtomicUsize>);

impl OpenQuestion {
    fn count(open: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(Arc::clone(open));
        let before = open.fetch_add(1, Ordering::Relaxed);
        (before < OPEN_QUESTIONS_MAX).then_some(counted)
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
