//! Password checks. They are slow by design, so they run on their own threads.
//!
//! A reconnect storm is absorbed in three steps. A password that was correct recently is recognised
//! by its keyed hash. Attempts with the same user and password share one check. The remaining
//! attempts wait in a bounded queue; beyond its limit the answer is `Busy`. Attempts of this
//! machine have places of their own, before the others, so that a flood of logins does not lock out
//! the administrator. The number of threads limits the memory of argon2.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::failure_limits::FailureLimits;
use crate::peer_origin::LoginSource;
use crate::scram::hmac_sha256;
use crate::{AccessSettings, LoginRefusal, Secret, password, random};

/// The number of correct passwords that are remembered. Beyond it, all are removed and checked
/// again.
const REMEMBERED_MAX: usize = 65_536;

/// Attempts of this machine that may wait where the queue is full.
const LOCAL_PLACES: usize = 64;

/// The keyed hash of a user and a password. Without the key it reveals neither of them.
type Fingerprint = [u8; 32];

/// One password to check.
pub(crate) struct PasswordAttempt {
    pub(crate) user: Box<str>,
    /// The user's epoch, which changes with each change of the password.
    pub(crate) epoch: u64,
    pub(crate) password: Secret,
    /// Whether the user exists. If not, the check fails, whatever the hash is.
    pub(crate) known: bool,
    pub(crate) hash: Arc<str>,
    pub(crate) source: LoginSource,
}

pub(crate) struct PasswordChecker {
    shared: Arc<CheckerCore>,
}

struct CheckerCore {
    key: [u8; 32],
    remember_for: Duration,
    queue_max: usize,
    failure_limits: Arc<FailureLimits>,
    state: Mutex<CheckQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct CheckQueue {
    queue: VecDeque<(Fingerprint, PasswordAttempt)>,
    /// The waiters of each attempt that is queued or being checked.
    waiting: HashMap<Fingerprint, Vec<oneshot::Sender<Result<(), LoginRefusal>>>>,
    right: HashMap<Fingerprint, Instant>,
    closed: bool,
}

impl PasswordChecker {
    pub(crate) fn new(settings: &AccessSettings, failure_limits: Arc<FailureLimits>) -> Self {
        let shared = Arc::new(CheckerCore {
            key: random::bytes(),
            remember_for: settings.password_cache.duration(),
            queue_max: settings.hashing_queue_max,
            failure_limits,
            state: Mutex::default(),
            arrived: Condvar::new(),
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match settings.hashing_threads {
            0 => cores,
            count => count,
        };
        for _ in 0..threads {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name("passwords".to_owned());
            if let Err(error) = thread.spawn(move || shared.work()) {
                // Without a thread, each login by password is answered with `Busy`.
                tracing::error!(
                    target: "users",
                    %error,
                    "a thread for password checks cannot start",
                );
            }
        }
        Self { shared }
    }

    /// Checks a password. Failures count towards the limits, and attempts over a limit are refused.
    pub(crate) async fn check(&self, attempt: PasswordAttempt) -> Result<(), LoginRefusal> {
        let answer = self.submit(attempt)?;
        match answer {
            None => Ok(()),
            // The sender is dropped only together with the checker.
            Some(answer) => answer.await.unwrap_or(Err(LoginRefusal::Busy)),
        }
    }

    /// Whether the password was correct recently.
    pub(crate) fn remembers(&self, attempt: &PasswordAttempt) -> bool {
        let shared = &self.shared;
        let fingerprint = shared.fingerprint(attempt);
        let mut state = shared.state.lock();
        state.is_right(&fingerprint, shared.remember_for)
    }

    /// `None` if the password is remembered as correct.
    fn submit(
        &self,
        attempt: PasswordAttempt,
    ) -> Result<Option<oneshot::Receiver<Result<(), LoginRefusal>>>, LoginRefusal> {
        let shared = &self.shared;
        let fingerprint = shared.fingerprint(&attempt);
        let mut state = shared.state.lock();
        if state.is_right(&fingerprint, shared.remember_for) {
            return Ok(None);
        }
        let (answer, receiver) = oneshot::channel();
        if let Some(waiting) = state.waiting.get_mut(&fingerprint) {
            waiting.push(answer);
            return Ok(Some(receiver));
        }
        let is_local = attempt.source.is_local;
        let places = shared.queue_max + if is_local { LOCAL_PLACES } else { 0 };
        if state.queue.len() >= places {
            return Err(LoginRefusal::Busy);
        }
        state.waiting.insert(fingerprint, vec![answer]);
        if is_local {
            state.queue.push_front((fingerprint, attempt));
        } else {
            state.queue.push_back((fingerprint, attempt));
        }
        drop(state);
        shared.arrived.notify_one();
        Ok(Some(receiver))
    }
}

impl Drop for PasswordChecker {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl CheckQueue {
    fn is_right(&mut self, fingerprint: &Fingerprint, remember_for: Duration) -> bool {
        let now = Instant::now();
        match self.right.get_mut(fingerprint) {
            Some(until) if *until > now => {
                *until = now + remember_for;
                true
            }
            _ => false,
        }
    }

    fn remember(&mut self, fingerprint: Fingerprint, remember_for: Duration) {
        if remember_for.is_zero() {
            return;
        }
        let now = Instant::now();
        if self.right.len() >= REMEMBERED_MAX {
            self.right.retain(|_, until| *until > now);
            if self.right.len() >= REMEMBERED_MAX {
                self.right.clear();
            }
        }
        self.right.insert(fingerprint, now + remember_for);
    }
}

impl CheckerCore {
    fn fingerprint(&self, attempt: &PasswordAttempt) -> Fingerprint {
        let parts = [
            &attempt.epoch.to_be_bytes()[..],
            &[u8::from(attempt.known)],
            &(attempt.user.len() as u64).to_be_bytes(),
            attempt.user.as_bytes(),
            attempt.password.expose().as_bytes(),
        ];
        hmac_sha256(&self.key, &parts)
    }

    fn work(&self) {
        while let Some((fingerprint, attempt)) = self.take() {
            let outcome = self.verify(&attempt);
            let mut state = self.state.lock();
            if outcome.is_ok() {
                state.remember(fingerprint, self.remember_for);
            }
            let waiting = state.waiting.remove(&fingerprint).unwrap_or_default();
            drop(state);
            for answer in waiting {
                // Fails if the connection of the receiver has ended.
                let _ = answer.send(outcome.clone());
            }
        }
    }

    fn take(&self) -> Option<(Fingerprint, PasswordAttempt)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.queue.pop_front() {
                return Some(next);
            }
            self.arrived.wait(&mut state);
        }
    }

    fn verify(&self, attempt: &PasswordAttempt) -> Result<(), LoginRefusal> {
        // The limits are checked here, just before the password, so that simultaneous attempts do
        // not all pass. Peers on this machine have already waited.
        if !attempt.source.is_local
            && let Some(retry_after) = self
                .failure_limits
                .must_wait(attempt.source, Some(&attempt.user))
        {
            return Err(LoginRefusal::TooMany { retry_after });
        }
        let fits = password::verify(&attempt.password, &attempt.hash);
        if fits && attempt.known {
            return Ok(());
        }
        self.failure_limits
            .failed(attempt.source, Some(&attempt.user));
        Err(LoginRefusal::Credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_bans::Bans;
    use gatepost_message::Peer;

    fn checker(settings: AccessSettings) -> PasswordChecker {
        let failure_limits = Arc::new(FailureLimits::new(&settings, Bans::default()));
        PasswordChecker::new(&settings, failure_limits)
    }

    fn attempt(hash: &Arc<str>, password: &str, epoch: u64) -> PasswordAttempt {
        PasswordAttempt {
            user: "anna".into(),
            epoch,
            password: password.into(),
            known: true,
            hash: hash.clone(),
            source: LoginSource::new(Peer::Address(([192, 0, 2, 1], 1).into()), false),
        }
    }

    /// A checker in which a queued attempt stays queued.
    fn without_threads(queue_max: usize) -> PasswordChecker {
        let failure_limits = FailureLimits::new(&AccessSettings::default(), Bans::default());
        PasswordChecker {
            shared: Arc::new(CheckerCore {
                key: random::bytes(),
                remember_for: Duration::from_mins(1),
                queue_max,
                failure_limits: Arc::new(failure_limits),
                state: Mutex::default(),
                arrived: Condvar::new(),
            }),
        }
    }

    fn hash_of(password: &str) -> Arc<str> {
        password::hash(&password.into()).expect("a hash").into()
    }

    #[tokio::test]
    async fn a_right_password_is_remembered_until_it_changes() {
        let checker = checker(AccessSettings::default());
        let hash = hash_of("right");
        assert_eq!(checker.check(attempt(&hash, "right", 1)).await, Ok(()));
        assert!(matches!(
            checker.submit(attempt(&hash, "right", 1)),
            Ok(None)
        ));
        let other = checker.check(attempt(&hash, "wrong", 1)).await;
        assert_eq!(other, Err(LoginRefusal::Credentials));
        // A new epoch is a new password, whatever the old password was.
        let changed = hash_of("changed");
        let stale = checker.check(attempt(&changed, "right", 2)).await;
        assert_eq!(stale, Err(LoginRefusal::Credentials));
        let unknown = PasswordAttempt {
            known: false,
            ..attempt(&hash, "right", 1)
        };
        assert_eq!(checker.check(unknown).await, Err(LoginRefusal::Credentials));
    }

    #[tokio::test]
    async fn a_storm_of_one_user_costs_one_check_and_the_queue_is_bounded() {
        let checker = without_threads(2);
        let hash = hash_of("right");
        let storm: Vec<_> = (0..19_000)
            .map(|_| checker.submit(attempt(&hash, "right", 1)))
            .collect();
        assert_eq!(checker.shared.state.lock().queue.len(), 1);
        assert!(checker.submit(attempt(&hash, "other", 1)).is_ok());
        let refused = checker.submit(attempt(&hash, "third", 1));
        assert!(matches!(refused, Err(LoginRefusal::Busy)));

        let shared = checker.shared.clone();
        std::thread::spawn(move || shared.work());
        for answer in storm {
            let answer = answer.expect("queued").expect("not known yet");
            assert_eq!(answer.await, Ok(Ok(())));
        }
    }

    #[tokio::test]
    async fn a_flood_of_logins_leaves_room_for_this_machine() {
        let checker = without_threads(2);
        let hash = hash_of("right");
        let submit = |password: &str, address: [u8; 4]| {
            let source = LoginSource::new(Peer::Address((address, 1).into()), false);
            checker.submit(PasswordAttempt {
                source,
                ..attempt(&hash, password, 1)
            })
        };
        let (stranger, here) = ([192, 0, 2, 1], [127, 0, 0, 1]);
        for number in 0..2 {
            let queued = submit(&format!("guess {number}"), stranger);
            assert!(matches!(queued, Ok(Some(_))));
        }
        assert!(matches!(
            submit("guess 2", stranger),
            Err(LoginRefusal::Busy)
        ));
        assert!(matches!(submit("right", here), Ok(Some(_))));
        let (_, first) = checker.shared.take().expect("queued");
        assert_eq!(first.password.expose(), "right");
        let queued = (0..1_000).filter(|number| {
            let queued = submit(&format!("local guess {number}"), here);
            queued.is_ok()
        });
        assert_eq!(queued.count(), LOCAL_PLACES);
    }

    #[tokio::test]
    async fn attempts_sent_at_once_do_not_all_get_their_try() {
        let settings = AccessSettings {
            failures_per_user: 3,
            ..AccessSettings::default()
        };
        let checker = checker(settings);
        let hash = hash_of("right");
        let answers: Vec<_> = (0..12)
            .map(|number| checker.submit(attempt(&hash, &format!("guess {number}"), 1)))
            .collect();
        let mut tried = 0;
        for answer in answers {
            match answer
                .expect("queued")
                .expect("not known")
                .await
                .expect("an answer")
            {
                Err(LoginRefusal::Credentials) => tried += 1,
                Err(LoginRefusal::TooMany { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((3..3 + cores).contains(&tried), "{tried} tried");
    }
}
