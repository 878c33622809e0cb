//! Looks at the folder of procedures from time to time, so that a file dropped in, changed or
//! removed takes effect without a signal.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::Folder;
use crate::procedures::Inner;

pub(crate) struct Watch;

impl Watch {
    /// Starts the thread. It ends by itself once nobody holds the procedures any more; a period
    /// of zero means never to look.
    pub(crate) fn start(inner: &Arc<Inner>, period: Duration) {
        if period.is_zero() {
            return;
        }
        let inner = Arc::downgrade(inner);
        let started = thread::Builder::new()
            .name("procedures".to_owned())
            .spawn(move || watch(&inner, period));
        if let Err(error) = started {
            tracing::error!(target: "procedures", "changed files will not be noticed: {error}");
        }
    }
}

fn watch(inner: &Weak<Inner>, period: Duration) {
    // What was seen last, so that a folder that cannot be used is complained of once.
    let mut seen = Folder::default();
    loop {
        thread::sleep(period);
        let Some(inner) = inner.upgrade() else { return };
        seen = inner.recheck(&seen);
    }
}
