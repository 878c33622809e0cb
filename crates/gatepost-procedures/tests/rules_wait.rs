//! Mail that arrives before the rules are loaded.

mod support;

use std::sync::{Arc, mpsc};

use gatepost_message::{Action, Verdict};
use gatepost_procedures::{
    DeferredRules, ProcedureArguments, ProcedureCallError, ProcedureHost, Procedures, RulesState,
};
use gatepost_rules::{RuleSet, RulesSettings};

use support::{Fixture, PATIENCE, mail, payload, until, until_waiting};

const RULES: &str = "header LOCAL Subject =~ /local/\nscore LOCAL 10\n";

/// Rules that are loaded when something is sent, and never if the sender is dropped.
fn rules() -> (DeferredRules, mpsc::Sender<()>) {
    let (go_on, is_going_on) = mpsc::channel::<()>();
    let load = move || {
        is_going_on.recv().ok()?;
        let settings = RulesSettings::default();
        Some(Arc::new(
            RuleSet::from_text("a.cf", RULES.as_bytes(), &settings).0,
        ))
    };
    (DeferredRules::new(load, |_| ()), go_on)
}

fn start(change: impl FnOnce(&mut Fixture)) -> (Procedures, mpsc::Sender<()>) {
    let mut fixture = Fixture::new().run(&["/spamcheck"]);
    change(&mut fixture);
    let (rules, go_on) = rules();
    let host = ProcedureHost::new(fixture.values.clone(), Some(fixture.notes.clone()));
    let (procedures, _) = Procedures::start_in(fixture.configuration, rules, host)
        .expect("a configuration without errors");
    (procedures, go_on)
}

const SPAM: &str = "Subject: local\r\n\r\ntext\r\n";
const HAM: &str = "Subject: other\r\n\r\ntext\r\n";

fn judge(procedures: &Procedures, text: &str) -> tokio::task::JoinHandle<Verdict> {
    let (procedures, message) = (procedures.clone(), Arc::new(mail(text)));
    tokio::spawn(async move { procedures.judge(&message).await })
}

#[tokio::test]
async fn a_message_that_needs_no_rules_loads_none() {
    let (procedures, _go_on) = start(|_| {});
    let reading = procedures.judge(&Arc::new(payload("a/b", "21.5"))).await;
    assert_eq!(reading.action, Action::Accept);
    assert_eq!(procedures.rules().state(), RulesState::Unneeded);
}

#[tokio::test]
async fn mail_waits_for_the_rules_and_is_judged_by_them() {
    const MAILS: usize = 50;
    let (procedures, go_on) = start(|_| {});
    let spam: Vec<_> = (0..MAILS).map(|_| judge(&procedures, SPAM)).collect();
    let ham = judge(&procedures, HAM);
    let scanned = tokio::spawn({
        let procedures = procedures.clone();
        async move { procedures.scan(Arc::new(mail(SPAM))).await }
    });
    let (reported, report) = mpsc::channel();
    procedures.scan_then(Arc::new(mail(SPAM)), move |outcome| {
        reported.send(outcome).expect("awaited");
    });
    until_waiting(&procedures, MAILS + 3).await;
    assert_eq!(procedures.rules().state(), RulesState::Loading);
    go_on.send(()).expect("it waits");
    for spam in spam {
        let verdict = spam.await.expect("judged");
        assert_eq!(verdict.action, Action::Reject, "{verdict:?}");
    }
    assert_eq!(ham.await.expect("judged").action, Action::Accept);
    let scanned = scanned.await.expect("it ends").expect("scanned");
    assert_eq!(scanned.hits.len(), 1);
    let report = report.recv_timeout(PATIENCE).expect("an answer");
    assert_eq!(report.expect("a report").hits.len(), 1);
    assert_eq!(procedures.status().waiting_for_network, 0);
}

#[tokio::test]
async fn beyond_the_bound_of_waiting_mails_the_judges_wait_along() {
    let (procedures, go_on) = start(|fixture| {
        fixture.configuration.procedures.waiting_max = 1;
        fixture.configuration.procedures.queue_max = 1;
    });
    // One waits without a judge, two hold the two judges, one is in the queue.
    let mut admitted = Vec::new();
    let mut deferred = 0;
    while deferred == 0 {
        assert!(admitted.len() <= 4, "the queue is bounded");
        let mail = judge(&procedures, SPAM);
        // A mail that is not taken is answered immediately.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        if mail.is_finished() {
            assert_eq!(mail.await.expect("judged").action, Action::Defer);
            deferred += 1;
        } else {
            admitted.push(mail);
        }
    }
    go_on.send(()).expect("it waits");
    for mail in admitted {
        assert_eq!(mail.await.expect("judged").action, Action::Reject);
    }
}

#[tokio::test]
async fn mail_is_deferred_if_the_rules_cannot_be_loaded() {
    let (procedures, go_on) = start(|_| {});
    let first = judge(&procedures, HAM);
    until_waiting(&procedures, 1).await;
    drop(go_on);
    assert_eq!(first.await.expect("judged").action, Action::Defer);
    assert_eq!(procedures.rules().state(), RulesState::Failed);
    let second = procedures.judge(&Arc::new(mail(HAM))).await;
    assert_eq!(second.action, Action::Defer, "{second:?}");
    let scanned = procedures.scan(Arc::new(mail(HAM))).await;
    assert_eq!(scanned.err(), Some(ProcedureCallError::Busy));
}

#[tokio::test]
async fn a_call_that_names_them_is_the_first_to_load_them() {
    let (procedures, go_on) = start(|fixture| fixture.configuration.scopes.clear());
    let accepted = procedures.judge(&Arc::new(mail(SPAM))).await;
    assert_eq!(accepted.action, Action::Accept, "no scope asks them");
    assert_eq!(procedures.rules().state(), RulesState::Unneeded);
    let called = tokio::spawn({
        let procedures = procedures.clone();
        async move {
            let message = Arc::new(mail(SPAM));
            procedures
                .call("/spamcheck", message, ProcedureArguments::none())
                .await
        }
    });
    until_waiting(&procedures, 1).await;
    go_on.send(()).expect("it waits");
    let answer = called.await.expect("it ends").expect("a procedure");
    assert_eq!(answer.verdict.action, Action::Reject);
    let rules = procedures.rules();
    until("the rules stay", || rules.loaded());
}
