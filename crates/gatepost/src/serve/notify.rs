//! Reports the state of the server to the service manager: the protocol of sd_notify(3), without a
//! library. Each message is one datagram to the socket that `NOTIFY_SOCKET` names; without it
//! nothing is sent.
//!
//! The watchdog is notified only after every worker has answered, so a server whose workers are
//! stuck is restarted although its process lives.

use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_broker::Broker;
use gatepost_listeners::workers::Workers;
use gatepost_procedures::{Procedures, RulesState};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// The time for which a message may wait for space in the service manager's queue.
const SEND_TIME_MAX: Duration = Duration::from_secs(5);
/// The interval at which the line of `systemctl status` is updated.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which a start asks for more time, the time that it asks for, and the time after
/// which it asks no more. The database is checked page by page, and may be large and its disk slow.
const EXTENSION_INTERVAL: Duration = Duration::from_secs(10);
const EXTENSION: Duration = Duration::from_mins(1);
const START_TIME_MAX: Duration = Duration::from_hours(6);
/// The number of watchdog notifications per permitted period.
const FEEDS_PER_PERIOD: u32 = 3;

/// The connection to the service manager, where there is one.
#[derive(Clone, Default)]
pub(super) struct Notifier {
    socket: Option<Arc<UnixDatagram>>,
    /// The time without a notification after which the service manager ends the server.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Connects to the socket that the environment names.
    pub(super) fn from_environment() -> Self {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
            return Self::default();
        };
        match connect(path.as_bytes()) {
            Ok(socket) => Self {
                socket: Some(Arc::new(socket)),
                watchdog: watchdog_period(|name| std::env::var(name).ok()),
            },
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET {}: not reached", path.display());
                Self::default()
            }
        }
    }

    /// Asks for more time as long as the start takes; to be called on a runtime, and the task is to
    /// be ended by the caller.
    pub(super) fn extend_start(&self) -> JoinHandle<()> {
        gatepost_tasks::spawn(self.clone().extend(EXTENSION_INTERVAL))
    }

    async fn extend(self, every: Duration) {
        let began = Instant::now();
        while began.elapsed() < START_TIME_MAX {
            tokio::time::sleep(every).await;
            self.send(&format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
        }
    }

    /// Reports that all listeners are open. Rules may still be loading: mail that needs them waits
    /// for them.
    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that a reload begins; [`Notifier::ready`] ends it.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// Reports that the listeners close.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Shutting down: accepted work is finished");
    }

    /// The reason why the server did not start.
    pub(super) fn failed(&self, error: &dyn std::error::Error) {
        let text = error.to_string().replace('\n', " ");
        self.send(&format!("STATUS=Not started: {text}"));
    }

    /// Sends status and watchdog notifications from now on; to be called on a runtime.
    pub(super) fn start_notifications(
        &self,
        broker: Broker,
        procedures: Procedures,
        workers: Workers,
    ) {
        if self.socket.is_none() {
            return;
        }
        gatepost_tasks::spawn(self.clone().report(broker, procedures));
        if let Some(period) = self.watchdog {
            gatepost_tasks::spawn(self.clone().feed(period, workers));
        }
    }

    async fn report(self, broker: Broker, procedures: Procedures) {
        let mut ticks = interval(STATUS_INTERVAL);
        let mut before = (Instant::now(), broker.stats(0, 0).messages_in);
        loop {
            ticks.tick().await;
            let stats = broker.stats(0, 0);
            let seconds = before.0.elapsed().as_secs_f64();
            let messages = stats.messages_in.saturating_sub(before.1);
            before = (Instant::now(), stats.messages_in);
            let mut text = status(stats.sessions_connected, messages, seconds);
            if procedures.rules().state() == RulesState::Loading {
                text.push_str(", the rules are being loaded");
            }
            self.send(&text);
        }
    }

    async fn feed(self, period: Duration, workers: Workers) {
        let share = period / FEEDS_PER_PERIOD;
        let mut ticks = interval(share);
        loop {
            ticks.tick().await;
            if workers.all_answer(share).await {
                self.send("WATCHDOG=1");
            } else {
                tracing::warn!("a worker has not answered within {share:?}");
            }
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            let subject = message.lines().next().unwrap_or_default();
            tracing::warn!(%error, "the service manager does not accept '{subject}'");
        }
    }
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn status(sessions: u64, messages: u64, seconds: f64) -> String {
    let mut text = format!("STATUS={sessions} sessions");
    // The first sample has no rate.
    if seconds >= 1.0 {
        let _ = write!(text, ", {:.0} messages/s", messages as f64 / seconds);
    }
    text
}

/// A path, or a name in the abstract namespace after `@`.
fn connect(path: &[u8]) -> io::Result<UnixDatagram> {
    let address = match path.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(SEND_TIME_MAX))?;
    Ok(socket)
}

/// The period that `WATCHDOG_USEC` allows, if it is meant for this process.
fn watchdog_period(variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
    let microseconds: u64 = variable("WATCHDOG_USEC")?.parse().ok()?;
    let period = Duration::from_micros(microseconds);
    (is_ours && !(period / FEEDS_PER_PERIOD).is_zero()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_the_one_of_this_process() {
        let own = std::process::id().to_string();
        for (microseconds, pid, expected) in [
            (Some("30000000"), None, Some(30)),
            (Some("30000000"), Some(own.as_str()), Some(30)),
            (Some("30000000"), Some("1"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, None, None),
        ] {
            let found = watchdog_period(|name| {
                let value = if name == "WATCHDOG_PID" {
                    pid
                } else {
                    microseconds
                };
                value.map(str::to_owned)
            });
            let expected = expected.map(Duration::from_secs);
            assert_eq!(found, expected, "{microseconds:?} {pid:?}");
        }
    }

    #[test]
    fn a_status_has_a_rate_once_there_is_one() {
        assert_eq!(status(3, 0, 0.1), "STATUS=3 sessions");
        assert_eq!(status(3, 125, 10.0), "STATUS=3 sessions, 12 messages/s");
    }

    /// A service manager with a name of its own, and the notifier that is connected to it.
    fn connected(name: &str) -> (UnixDatagram, Notifier) {
        let name = format!("gatepost-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        manager
            .set_read_timeout(Some(Duration::from_mins(1)))
            .expect("a timeout");
        let notifier = Notifier {
            socket: Some(Arc::new(
                connect(format!("@{name}").as_bytes()).expect("connected"),
            )),
            watchdog: None,
        };
        (manager, notifier)
    }

    fn received(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn a_name_in_the_abstract_namespace_is_reached() {
        let (manager, notifier) = connected("notify");
        notifier.ready();
        assert_eq!(received(&manager), "READY=1");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_start_asks_for_time_again_and_again() {
        let (manager, notifier) = connected("extend");
        let extending = gatepost_tasks::spawn(notifier.extend(Duration::from_millis(1)));
        for _ in 0..3 {
            assert_eq!(received(&manager), "EXTEND_TIMEOUT_USEC=60000000");
        }
        extending.abort();
    }
}
