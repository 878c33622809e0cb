//! Password checks, which are slow on purpose, on threads of their own.
//!
//! Three things let a reconnect storm through: a password that was right lately is known by its
//! keyed hash and costs nothing; attempts with the same user and password while one is being
//! checked wait for that one; and what is left waits in a bounded queue, beyond which the answer
//! is "try again later" rather than a growing delay. The memory that argon2 takes is bounded by
//! the number of threads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::Peer;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::guard::Guard;
use crate::scram::hmac_sha256;
use crate::{AccessSettings, Denied, Secret, password, random};

/// Passwords remembered as right; when there are more, all are forgotten and checked anew.
const REMEMBERED_MAX: usize = 65_536;

/// Stands for one user's password in memory: no use to whoever reads it without the key.
type Fingerprint = [u8; 32];

/// What is to be checked.
pub(crate) struct Attempt {
    pub(crate) user: Box<str>,
    /// The user's; another password, another epoch.
    pub(crate) epoch: u64,
    pub(crate) password: Secret,
    /// Whether the user is there; if not, the answer is no, after the same time.
    pub(crate) known: bool,
    pub(crate) hash: Arc<str>,
    pub(crate) peer: Peer,
}

pub(crate) struct Checker {
    shared: Arc<Shared>,
}

struct Shared {
    key: [u8; 32],
    remember_for: Duration,
    queue_max: usize,
    guard: Arc<Guard>,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Fingerprint, Attempt)>,
    /// Who waits for what is queued or being checked.
    waiting: HashMap<Fingerprint, Vec<oneshot::Sender<Result<(), Denied>>>>,
    right: HashMap<Fingerprint, Instant>,
    closed: bool,
}

impl Checker {
    pub(crate) fn new(settings: &AccessSettings, guard: Arc<Guard>) -> Self {
        let shared = Arc::new(Shared {
            key: random::bytes(),
            remember_for: settings.password_cache.duration(),
            queue_max: settings.hashing_queue_max,
            guard,
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
                // With no thread at all every login by password is told to try later.
                tracing::error!(target: "users", %error, "a thread for password checks cannot start");
            }
        }
        Self { shared }
    }

    /// Checks a password. Failures are counted; so are attempts that must wait refused.
    pub(crate) async fn check(&self, attempt: Attempt) -> Result<(), Denied> {
        let answer = self.submit(attempt)?;
        match answer {
            None => Ok(()),
            // The sender is dropped only when the checker is.
            Some(answer) => answer.await.unwrap_or(Err(Denied::Busy)),
        }
    }

    /// `None` if the password is known to be right.
    fn submit(
        &self,
        attempt: Attempt,
    ) -> Result<Option<oneshot::Receiver<Result<(), Denied>>>, Denied> {
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
        if state.queue.len() >= shared.queue_max {
            return Err(Denied::Busy);
        }
        state.waiting.insert(fingerprint, vec![answer]);
        state.queue.push_back((fingerprint, attempt));
        drop(state);
        shared.arrived.notify_one();
        Ok(Some(receiver))
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl State {
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

impl Shared {
    fn fingerprint(&self, attempt: &Attempt) -> Fingerprint {
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
                // Whoever gave up waiting need not be told.
                let _ = answer.send(outcome.clone());
            }
        }
    }

    fn take(&self) -> Option<(Fingerprint, Attempt)> {
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

    fn verify(&self, attempt: &Attempt) -> Result<(), Denied> {
        // Asked again here, so that many attempts sent at once do not all get their try.
        if let Some(retry_after) = self.guard.must_wait(attempt.peer, Some(&attempt.user)) {
            return Err(Denied::TooMany { retry_after });
        }
        let fits = password::verify(&attempt.password, &attempt.hash);
        if fits && attempt.known {
            return Ok(());
        }
        self.guard.failed(attempt.peer, Some(&attempt.user));
        Err(Denied::Credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(settings: AccessSettings) -> Checker {
        let guard = Arc::new(Guard::new(&settings));
        Checker::new(&settings, guard)
    }

    fn attempt(hash: &Arc<str>, password: &str, epoch: u64) -> Attempt {
        Attempt {
            user: "anna".into(),
            epoch,
            password: password.into(),
            known: true,
            hash: hash.clone(),
            peer: Peer::Local,
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
        assert_eq!(other, Err(Denied::Credentials));
        // A new epoch is a new password, whatever the old one was.
        let changed = hash_of("changed");
        let stale = checker.check(attempt(&changed, "right", 2)).await;
        assert_eq!(stale, Err(Denied::Credentials));
        let unknown = Attempt {
            known: false,
            ..attempt(&hash, "right", 1)
        };
        assert_eq!(checker.check(unknown).await, Err(Denied::Credentials));
    }

    #[tokio::test]
    async fn a_storm_of_one_user_costs_one_check_and_the_queue_is_bounded() {
        // No thread takes anything until the checker has one, so what is queued stays queued.
        let settings = AccessSettings {
            hashing_queue_max: 2,
            ..AccessSettings::default()
        };
        let guard = Arc::new(Guard::new(&settings));
        let checker = Checker {
            shared: Arc::new(Shared {
                key: random::bytes(),
                remember_for: Duration::from_mins(1),
                queue_max: settings.hashing_queue_max,
                guard,
                state: Mutex::default(),
                arrived: Condvar::new(),
            }),
        };
        let hash = hash_of("right");
        let storm: Vec<_> = (0..19_000)
            .map(|_| checker.submit(attempt(&hash, "right", 1)))
            .collect();
        assert_eq!(checker.shared.state.lock().queue.len(), 1);
        assert!(checker.submit(attempt(&hash, "other", 1)).is_ok());
        let refused = checker.submit(attempt(&hash, "third", 1));
        assert!(matches!(refused, Err(Denied::Busy)));

        let shared = checker.shared.clone();
        std::thread::spawn(move || shared.work());
        for answer in storm {
            let answer = answer.expect("queued").expect("not known yet");
            assert_eq!(answer.await, Ok(Ok(())));
        }
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
                Err(Denied::Credentials) => tried += 1,
                Err(Denied::TooMany { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((3..3 + cores).contains(&tried), "{tried} tried");
    }
}
