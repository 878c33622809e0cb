//! Distributes messages to judging threads, and returns results in order.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gatepost_mail::mailbox::{MailboxMessage, MailboxProblem};
use gatepost_rules::{NearMiss, Report, RuleSet, ScanContext, ScanProfile};

/// Messages that wait for a judge, and results that wait to be printed, per thread.
const WAITING_PER_THREAD: usize = 16;

/// One message and its result.
pub(super) struct ScannedMessage {
    pub(super) name: String,
    pub(super) outcome: Result<Report, MailboxProblem>,
    /// Rules that nearly hit, if explanations were requested.
    pub(super) near_misses: Vec<NearMiss>,
    /// The message with a filter's header fields, or without them, if either was requested.
    pub(super) message: Vec<u8>,
    pub(super) source_bytes: u64,
}

/// The requested work for each message.
#[derive(Clone, Copy, Default)]
pub(super) struct ScanTask {
    /// The texts that matched, and the rules that nearly did.
    pub(super) explain: bool,
    /// The message with the header fields of its report.
    pub(super) rewrite: bool,
    /// The message without any filter's header fields, and no scan.
    pub(super) unmark: bool,
}

type MailboxItem = Result<MailboxMessage, MailboxProblem>;

/// Judges all messages on `jobs` threads and hands results to `print` in order. Ends early, with
/// its error, if `print` fails. A profile is taken on one thread only.
pub(super) fn run(
    rules: &RuleSet,
    messages: impl Iterator<Item = MailboxItem> + Send,
    jobs: usize,
    task: ScanTask,
    mut profile: Option<&mut ScanProfile>,
    mut print: impl FnMut(ScannedMessage) -> io::Result<()>,
) -> io::Result<()> {
    if jobs == 1 {
        return messages
            .map(|item| judge(rules, item, task, profile.as_deref_mut()))
            .try_for_each(print);
    }
    let waiting = jobs * WAITING_PER_THREAD;
    let (send_message, messages_to_judge) = mpsc::sync_channel(waiting);
    let (send_result, results) = mpsc::sync_channel(waiting);
    let messages_to_judge = Mutex::new(messages_to_judge);
    thread::scope(|scope| {
        scope.spawn(move || {
            for numbered in messages.enumerate() {
                // Fails when all workers have ended, because printing failed.
                if send_message.send(numbered).is_err() {
                    return;
                }
            }
        });
        let start = |_| {
            let send_result = send_result.clone();
            let messages_to_judge = &messages_to_judge;
            let judge = move || judge_all(rules, messages_to_judge, &send_result, task);
            thread::Builder::new().spawn_scoped(scope, judge).map(drop)
        };
        // The system may permit fewer threads; one is enough.
        let first = start(0);
        let _ = (1..jobs).try_for_each(start);
        drop(send_result);
        let printed = first.and_then(|()| in_order(&results, &mut print));
        drop(results);
        // Releases a reader that waits for space in the queue.
        let receiver = messages_to_judge
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while printed.is_err() && receiver.recv().is_ok() {}
        printed
    })
}

fn judge_all(
    rules: &RuleSet,
    messages: &Mutex<Receiver<(usize, MailboxItem)>>,
    results: &SyncSender<(usize, ScannedMessage)>,
    task: ScanTask,
) {
    loop {
        // The lock is held only for receiving.
        let next = messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok((number, item)) = next else { return };
        if results
            .send((number, judge(rules, item, task, None)))
            .is_err()
        {
            return;
        }
    }
}

fn judge(
    rules: &RuleSet,
    item: MailboxItem,
    task: ScanTask,
    profile: Option<&mut ScanProfile>,
) -> ScannedMessage {
    match item {
        Ok(message) if task.unmark => ScannedMessage {
            message: rules.remove_markup(&message.bytes).into_owned(),
            outcome: Ok(Report::default()),
            near_misses: Vec::new(),
            name: message.name,
            source_bytes: message.source_bytes,
        },
        Ok(message) => {
            let context = ScanContext {
                explain: task.explain,
                ..ScanContext::default()
            };
            let bytes = &message.bytes;
            let (report, near_misses) = match profile {
                Some(profile) => (rules.profile(bytes, &context, profile), Vec::new()),
                None if task.explain => rules.explain(bytes, &context),
                None => (rules.scan(bytes, &context), Vec::new()),
            };
            let rewritten = task.rewrite.then(|| report.rewrite(&message.bytes));
            ScannedMessage {
                name: message.name,
                outcome: Ok(report),
                near_misses,
                message: rewritten.unwrap_or_default(),
                source_bytes: message.source_bytes,
            }
        }
        Err(problem) => ScannedMessage {
            name: problem.path.display().to_string(),
            outcome: Err(problem),
            near_misses: Vec::new(),
            message: Vec::new(),
            source_bytes: 0,
        },
    }
}

fn in_order(
    results: &Receiver<(usize, ScannedMessage)>,
    print: &mut impl FnMut(ScannedMessage) -> io::Result<()>,
) -> io::Result<()> {
    // The channels bound this: a slow message delays at most the messages that they hold.
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (number, judged) in results {
        early.insert(number, judged);
        while let Some(judged) = early.remove(&next) {
            print(judged)?;
            next += 1;
        }
    }
    Ok(())
}
