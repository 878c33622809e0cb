//! Periodic learning tasks of the serving gateway.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use gatepost_learning::bayes::BayesSettings;
use gatepost_procedures::{Procedures, RULES_WAIT_MAX};
use parking_lot::Mutex;

use super::{Learner, LearningError, queue};

/// A thread that processes the requests of other processes and writes what was learned to the
/// database. The settings of learning are those of the rules in force, which it loads only for
/// requests.
pub struct LearnerThread {
    /// Dropped to end the thread.
    running: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl LearnerThread {
    /// Starts the thread.
    pub fn start(learner: Arc<Learner>, procedures: Procedures) -> io::Result<Self> {
        let (sender, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("learner".to_owned())
            .spawn(move || {
                if let Err(error) = learner.forget_refusals() {
                    tracing::warn!(target: "rules", "{error}");
                }
                while ended.recv_timeout(queue::PERIOD) == Err(RecvTimeoutError::Timeout) {
                    let settings = || bayes_settings(&procedures);
                    report(learner.process_requests(settings), |count| {
                        format!("{count} requests to learn or forget processed")
                    });
                    keep(&learner);
                    report(expire(&learner, &procedures), |count| {
                        format!("{count} old tokens forgotten")
                    });
                }
                keep(&learner);
            })?;
        Ok(Self {
            running: Mutex::new(Some((sender, thread))),
        })
    }

    /// Stores the remaining data and ends.
    pub fn end(&self) {
        if let Some((sender, thread)) = self.running.lock().take() {
            drop(sender);
            // A panic of the thread has been logged; there is no remaining data.
            let _ = thread.join();
        }
    }
}

/// The settings of the rules in force, which are loaded if necessary.
fn bayes_settings(procedures: &Procedures) -> Option<BayesSettings> {
    let rules = procedures.rules().wait(RULES_WAIT_MAX)?;
    Some(rules.learning_settings().bayes.clone())
}

/// Removes old tokens. Except for once in half a day, this only reads the clock and a count;
/// without rules, there is no mail that could add any.
fn expire(learner: &Learner, procedures: &Procedures) -> Result<usize, LearningError> {
    match procedures.rules().loaded() {
        Some(rules) => {
            let bayes = &learner.learning()?.bayes;
            Ok(bayes.expire(&rules.learning_settings().bayes)?)
        }
        None => Ok(0),
    }
}

fn report(outcome: Result<usize, LearningError>, text: impl FnOnce(usize) -> String) {
    match outcome {
        Ok(0) => {}
        Ok(count) => tracing::info!(target: "rules", "{}", text(count)),
        Err(error) => tracing::warn!(target: "rules", "{error}"),
    }
}

fn keep(learner: &Learner) {
    if let Err(error) = learner.keep() {
        tracing::warn!(target: "rules", "{error}");
    }
}
