//! Periodic learning tasks of the serving gateway.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use gatepost_learning::LearningSettings;
use parking_lot::Mutex;

use super::{Learner, queue};

/// A thread that processes the requests of other processes and writes what was learned to the
/// database.
pub struct LearnerThread {
    settings: Arc<Mutex<LearningSettings>>,
    /// Dropped to end the thread.
    running: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl LearnerThread {
    /// Starts the thread.
    pub fn start(learner: Arc<Learner>, settings: LearningSettings) -> io::Result<Self> {
        let settings = Arc::new(Mutex::new(settings));
        let (sender, ended) = mpsc::channel::<()>();
        let threads_settings = settings.clone();
        let thread = std::thread::Builder::new()
            .name("learner".to_owned())
            .spawn(move || {
                while ended.recv_timeout(queue::PERIOD) == Err(RecvTimeoutError::Timeout) {
                    let settings = threads_settings.lock().bayes.clone();
                    match learner.process_requests(&settings) {
                        Ok(0) => {}
                        Ok(count) => {
                            tracing::info!(
                                target: "rules",
                                "{count} requests to learn or forget processed"
                            );
                        }
                        Err(error) => tracing::warn!(target: "rules", "{error}"),
                    }
                    keep(&learner);
                    // Looks only at the clock and a count, but for once in half a day.
                    match learner.learning.bayes.expire(&settings) {
                        Ok(0) => {}
                        Ok(count) => {
                            tracing::info!(target: "rules", "{count} old tokens forgotten");
                        }
                        Err(error) => tracing::warn!(target: "rules", "{error}"),
                    }
                }
                keep(&learner);
            })?;
        Ok(Self {
            settings,
            running: Mutex::new(Some((sender, thread))),
        })
    }

    /// The settings of reloaded rules.
    pub fn set_settings(&self, settings: LearningSettings) {
        *self.settings.lock() = settings;
    }

    /// The settings that hold now.
    pub fn settings(&self) -> LearningSettings {
        self.settings.lock().clone()
    }

    /// Hands over what is left and ends.
    pub fn end(&self) {
        if let Some((sender, thread)) = self.running.lock().take() {
            drop(sender);
            // A panic of the thread has been logged; there is nothing left to hand over.
            let _ = thread.join();
        }
    }
}

fn keep(learner: &Learner) {
    if let Err(error) = learner.keep() {
        tracing::warn!(target: "rules", "{error}");
    }
}
