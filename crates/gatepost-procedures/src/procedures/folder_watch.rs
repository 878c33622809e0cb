//! Checks the folder of procedures periodically, so that an added, changed or removed file takes
//! effect without a signal, and does other periodic work.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::ProceduresCore;
use crate::luau::ProcedureFolder;

pub(crate) struct FolderWatch;

/// The interval of periodic tasks other than the folder.
const TICK: Duration = Duration::from_secs(1);
/// Windows of `/dedupe` that end closely together are handled in one tick.
const TICK_MIN: Duration = Duration::from_millis(20);

impl FolderWatch {
    /// Starts the thread. It ends once the procedures are dropped; with a period of zero it never
    /// checks the folder.
    pub(crate) fn start(inner: &Arc<ProceduresCore>, period: Duration) {
        let inner = Arc::downgrade(inner);
        let started = thread::Builder::new()
            .name("procedures".to_owned())
            .spawn(move || watch(&inner, period));
        if let Err(error) = started {
            tracing::error!(target: "procedures", "changed files will not be noticed: {error}");
        }
    }
}

fn watch(inner: &Weak<ProceduresCore>, period: Duration) {
    // The last state seen, so that a folder that cannot be used is reported once.
    let mut seen = ProcedureFolder::default();
    let mut looked = Instant::now();
    let mut rest = TICK;
    loop {
        let until_look = if period.is_zero() {
            TICK
        } else {
            period.saturating_sub(looked.elapsed())
        };
        thread::sleep(until_look.min(rest).min(TICK));
        let Some(inner) = inner.upgrade() else { return };
        if !period.is_zero() && looked.elapsed() >= period {
            seen = inner.recheck(&seen);
            looked = Instant::now();
        }
        rest = inner.tick(Instant::now()).max(TICK_MIN);
    }
}
