//! Rules that are loaded when they are first needed, on a thread of their own.
//!
//! Stock rules take tenths of a second to load and tens of megabytes of memory. A server that
//! judges no mail never loads them, and other servers accept connections before they are loaded: a
//! message that needs them waits without a thread, and is judged by them.
//!
//! Invariants: the rules are loaded at most once, whichever message needs them first. Each waiter
//! is woken exactly once: when loading has ended, with or without success, or after
//! [`RULES_WAIT_MAX`]. A judgement that could not run then fails, so that its message is deferred.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use gatepost_rules::RuleSet;
use parking_lot::Mutex;

use crate::procedure::Wake;

/// The time for which a message waits for rules that are being loaded, before it is deferred.
pub const RULES_WAIT_MAX: Duration = Duration::from_secs(30);

/// Rules, or the function that loads them. Cheap to clone; all clones load once.
#[derive(Clone)]
pub struct DeferredRules(Arc<SharedRules>);

struct SharedRules {
    loaded: OnceLock<Arc<RuleSet>>,
    progress: Mutex<LoadProgress>,
}

type LoadRules = Box<dyn FnOnce() -> Option<Arc<RuleSet>> + Send>;
type AfterLoad = Box<dyn FnOnce(&Arc<RuleSet>) + Send>;

enum LoadProgress {
    /// No message has needed the rules yet.
    Unneeded(LoadRules, AfterLoad),
    /// The rules are being loaded; with the waiters, and the start of each wait.
    Loading(Vec<(Instant, Wake)>),
    Ended,
}

/// The progress of loading the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesState {
    /// No message has needed the rules yet.
    Unneeded,
    /// Messages that need them wait.
    Loading,
    /// The rules are in use.
    Loaded,
    /// Loading failed: messages that need the rules are deferred.
    Failed,
}

impl RulesState {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unneeded => "unneeded",
            Self::Loading => "loading",
            Self::Loaded => "loaded",
            Self::Failed => "failed",
        }
    }
}

impl From<Arc<RuleSet>> for DeferredRules {
    fn from(rules: Arc<RuleSet>) -> Self {
        Self(Arc::new(SharedRules {
            loaded: OnceLock::from(rules),
            progress: Mutex::new(LoadProgress::Ended),
        }))
    }
}

impl DeferredRules {
    /// Rules that `load` returns when they are first needed, or `None` after logging the reason.
    /// `after` is called on the same thread once the rules are in use.
    pub fn new(
        load: impl FnOnce() -> Option<Arc<RuleSet>> + Send + 'static,
        after: impl FnOnce(&Arc<RuleSet>) + Send + 'static,
    ) -> Self {
        Self(Arc::new(SharedRules {
            loaded: OnceLock::new(),
            progress: Mutex::new(LoadProgress::Unneeded(Box::new(load), Box::new(after))),
        }))
    }

    /// The rules, if they are loaded.
    pub fn loaded(&self) -> Option<&Arc<RuleSet>> {
        self.0.loaded.get()
    }

    /// The progress of loading.
    pub fn state(&self) -> RulesState {
        if self.loaded().is_some() {
            return RulesState::Loaded;
        }
        match *self.0.progress.lock() {
            LoadProgress::Unneeded(..) => RulesState::Unneeded,
            LoadProgress::Loading(_) => RulesState::Loading,
            // The rules may have been loaded meanwhile.
            LoadProgress::Ended if self.loaded().is_some() => RulesState::Loaded,
            LoadProgress::Ended => RulesState::Failed,
        }
    }

    /// Begins to load, unless that has begun.
    pub fn load(&self) {
        let mut progress = self.0.progress.lock();
        if !matches!(*progress, LoadProgress::Unneeded(..)) {
            return;
        }
        let loading = LoadProgress::Loading(Vec::new());
        let LoadProgress::Unneeded(load, after) = mem::replace(&mut *progress, loading) else {
            return;
        };
        drop(progress);
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("rules".to_owned());
        if let Err(error) = thread.spawn(move || shared.load(load, after)) {
            tracing::error!(target: "rules", %error, "the rules are not loaded: no thread can be \
                started");
            self.0.end();
        }
    }

    /// The rules; loads them if necessary, and waits for them on this thread, which must be one
    /// that may block. `None` if they do not come in time.
    pub fn wait(&self, time_max: Duration) -> Option<Arc<RuleSet>> {
        if self.loaded().is_none() {
            let (ready, wait) = mpsc::channel();
            self.then(Box::new(move || {
                // Fails if the receiver no longer waits.
                let _ = ready.send(());
            }));
            let _ = wait.recv_timeout(time_max);
        }
        self.loaded().cloned()
    }

    /// Loads the rules if necessary, and registers a function that is called when they are loaded,
    /// or when loading fails.
    pub(crate) fn then(&self, wake: Wake) {
        self.load();
        if let LoadProgress::Loading(waiting) = &mut *self.0.progress.lock() {
            waiting.push((Instant::now(), wake));
            return;
        }
        wake();
    }

    /// Wakes waiters that have waited too long.
    pub(crate) fn wake_overdue(&self, now: Instant) {
        let overdue: Vec<Wake> = match &mut *self.0.progress.lock() {
            LoadProgress::Loading(waiting) => waiting
                .extract_if(.., |(since, _)| now.duration_since(*since) > RULES_WAIT_MAX)
                .map(|(_, wake)| wake)
                .collect(),
            _ => return,
        };
        for wake in overdue {
            wake();
        }
    }
}

impl SharedRules {
    fn load(&self, load: LoadRules, after: AfterLoad) {
        let loaded = catch_unwind(AssertUnwindSafe(load));
        if let Ok(Some(rules)) = loaded {
            let rules = self.loaded.get_or_init(|| rules);
            self.end();
            after(rules);
        } else {
            tracing::error!(
                target: "rules",
                "the rules are not loaded: messages that need them are deferred until a reload"
            );
            self.end();
        }
    }

    /// Wakes all that wait, outside of the lock.
    fn end(&self) {
        let progress = mem::replace(&mut *self.progress.lock(), LoadProgress::Ended);
        if let LoadProgress::Loading(waiting) = progress {
            for (_, wake) in waiting {
                wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PATIENCE: Duration = Duration::from_mins(1);

    #[test]
    fn they_are_loaded_once_and_only_when_needed() {
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let (done, is_done) = mpsc::channel();
        let load = || {
            LOADS.fetch_add(1, Ordering::Relaxed);
            Some(Arc::new(RuleSet::embedded()))
        };
        let rules = DeferredRules::new(load, move |_| done.send(()).expect("awaited"));
        assert_eq!(rules.state(), RulesState::Unneeded);
        assert_eq!(LOADS.load(Ordering::Relaxed), 0);
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let rules = rules.clone();
                thread::spawn(move || rules.wait(PATIENCE).expect("they come"))
            })
            .collect();
        let all: Vec<_> = waiting
            .into_iter()
            .map(|thread| thread.join().expect("it ends"))
            .collect();
        assert!(all.iter().all(|one| Arc::ptr_eq(one, &all[0])));
        assert_eq!(rules.state(), RulesState::Loaded);
        is_done.recv_timeout(PATIENCE).expect("what follows ran");
        assert_eq!(LOADS.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_load_that_breaks_off_wakes_those_that_wait() {
        let rules = DeferredRules::new(|| panic!("not compiled"), |_| ());
        assert!(rules.wait(PATIENCE).is_none());
        assert_eq!(rules.state(), RulesState::Failed);
        assert!(rules.wait(PATIENCE).is_none());
    }

    #[test]
    fn who_waits_too_long_is_woken() {
        let (go_on, is_going_on) = mpsc::channel::<()>();
        let load = move || {
            is_going_on.recv().expect("it goes on");
            Some(Arc::new(RuleSet::embedded()))
        };
        let rules = DeferredRules::new(load, |_| ());
        let (woken, is_woken) = mpsc::channel();
        rules.then(Box::new(move || woken.send(()).expect("awaited")));
        rules.wake_overdue(Instant::now());
        assert!(is_woken.try_recv().is_err());
        rules.wake_overdue(Instant::now() + RULES_WAIT_MAX + Duration::from_secs(1));
        is_woken.recv_timeout(PATIENCE).expect("it is woken");
        assert_eq!(rules.state(), RulesState::Loading);
        go_on.send(()).expect("it waits");
        assert!(rules.wait(PATIENCE).is_some());
    }
}
