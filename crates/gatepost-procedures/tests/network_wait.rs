//! Mail whose rules wait for the network, and mail without queries meanwhile.

mod support;

use std::net::UdpSocket;
use std::sync::Arc;

use gatepost_message::Action;
use gatepost_procedures::{ProcedureArguments, ProcedureHost, Procedures};
use gatepost_rules::{RuleSet, RulesSettings};
use gatepost_settings::Period;

use support::{Fixture, PATIENCE, answer_when_notified, mail, until_waiting};

const RULES: &str = "header LISTED eval:check_rbl('list-lastexternal', 'list.example.')\n\
    score LISTED 10\n\
    header LOCAL Subject =~ /local/\n\
    score LOCAL 10\n";

/// Rules that query the list, since the mail passed a relay.
fn asking(number: usize) -> gatepost_message::Message {
    mail(&format!(
        "Received: from a.example (a.example [198.51.{}.{}]) by mx.example.org (Postfix) with \
         ESMTP\r\n\
         \tid 1; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\r\n\
         Subject: listed?\r\n\r\ntext\r\n",
        number / 250,
        number % 250 + 1
    ))
}

fn start(server: &UdpSocket, change: impl FnOnce(&mut Fixture)) -> Procedures {
    let settings = RulesSettings {
        network: true,
        dns_server: Some(server.local_addr().expect("an address").to_string()),
        network_time_max: Period::seconds(50),
        list_unanswered_max: 0,
        ..RulesSettings::default()
    };
    let (rules, problems) = RuleSet::from_text("rules.cf", RULES.as_bytes(), &settings);
    assert!(problems.is_empty(), "{problems:?}");
    let mut fixture = Fixture::new().run(&["/spamcheck"]);
    change(&mut fixture);
    let host = ProcedureHost::new(fixture.values.clone(), Some(fixture.notes.clone()));
    Procedures::start_in(fixture.configuration, Arc::new(rules), host)
        .expect("a configuration without errors")
        .0
}

#[tokio::test]
async fn a_thousand_mails_that_wait_for_a_silent_list_hold_no_judge() {
    const MAILS: usize = 1000;
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let procedures = start(&silent, |_| {});
    let mut waiting = Vec::new();
    for number in 0..MAILS {
        let procedures = procedures.clone();
        waiting.push(tokio::spawn(async move {
            procedures.judge(&Arc::new(asking(number))).await
        }));
    }
    until_waiting(&procedures, MAILS).await;
    // Both judges are free: with one of them held, this would end only with the others.
    let local = mail("Subject: local\r\n\r\ntext\r\n");
    let verdict = procedures.judge(&Arc::new(local)).await;
    assert_eq!(verdict.action, Action::Reject, "{verdict:?}");
    let report = procedures
        .scan(Arc::new(mail("Subject: local\r\n\r\ntext\r\n")))
        .await
        .expect("a judge is free");
    assert_eq!(report.hits.len(), 1);
    assert_eq!(procedures.status().waiting_for_network, MAILS);
    for waiting in waiting {
        waiting.abort();
    }
}

#[tokio::test]
async fn the_judgement_of_a_mail_continues_when_the_response_has_arrived() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let procedures = start(&server, |_| {});
    let notify = answer_when_notified(server);
    let judge = |number| {
        let procedures = procedures.clone();
        tokio::spawn(async move { procedures.judge(&Arc::new(asking(number))).await })
    };
    let scanned = {
        let procedures = procedures.clone();
        tokio::spawn(async move { procedures.scan(Arc::new(asking(7))).await })
    };
    let judged = [judge(1), judge(2)];
    until_waiting(&procedures, 3).await;
    notify.send(()).expect("the server runs");
    for judged in judged {
        let verdict = judged.await.expect("judged");
        assert_eq!(verdict.action, Action::Reject);
        assert_eq!(verdict.hits[0].name, "LISTED");
    }
    let report = scanned.await.expect("scanned").expect("a judge is free");
    assert_eq!(&*report.hits[0].name, "LISTED");
    assert_eq!(procedures.status().waiting_for_network, 0);
}

#[tokio::test]
async fn beyond_its_bound_a_judge_waits_along() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let procedures = start(&server, |fixture| {
        fixture.configuration.procedures.waiting_max = 1;
    });
    let notify = answer_when_notified(server);
    let judge = |number| {
        let procedures = procedures.clone();
        tokio::spawn(async move { procedures.judge(&Arc::new(asking(number))).await })
    };
    let judged = [judge(1), judge(2), judge(3)];
    until_waiting(&procedures, 1).await;
    notify.send(()).expect("the server runs");
    for judged in judged {
        let verdict = judged.await.expect("judged");
        assert_eq!(verdict.action, Action::Reject);
    }
}

#[tokio::test]
async fn a_caller_on_its_own_thread_waits_there() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let procedures = start(&server, |_| {});
    answer_when_notified(server)
        .send(())
        .expect("the server runs");
    let message = Arc::new(asking(1));
    let called = tokio::task::spawn_blocking(move || {
        let deadline = std::time::Instant::now() + PATIENCE;
        procedures.call_here(
            "/spamcheck",
            &message,
            &ProcedureArguments::none(),
            deadline,
        )
    });
    let answer = called.await.expect("called").expect("there is one");
    assert_eq!(answer.verdict.action, Action::Reject);
}
