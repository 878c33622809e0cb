//! The choice of the scope that judges, the verdict of its chain, and calls of it like a procedure.

use std::sync::Arc;

use gatepost_message::{Action, Listener, Topic, TopicFilter, Verdict};
use gatepost_procedures::{Needs, ProcedureArguments, ProcedureCallError};

use super::{Fixture, call, judge, mail, scope};

#[tokio::test]
async fn a_message_without_scope_is_accepted() {
    let procedures = Fixture::new().start();
    assert_eq!(judge(&procedures, mail("x")).await, Verdict::accept());
    assert_eq!(procedures.scope_for(Listener::Smtp, Some("a"), &[]), None);
}

#[tokio::test]
async fn the_first_scope_whose_conditions_hold_judges() {
    let mut by_listener = scope("/mqtt-only", &["/noop"]);
    by_listener.listeners = vec![Listener::Mqtt];
    let mut by_topic = scope("/alarms", &["/sizecheck"]);
    by_topic.topics = vec![TopicFilter::new("alarms/#").expect("a filter")];
    let mut by_recipient = scope("/rest", &["/noop"]);
    by_recipient.recipients = vec!["*@localhost".into()];
    let fixture = Fixture::new()
        .scope(by_listener)
        .scope(by_topic)
        .scope(by_recipient);
    let procedures = fixture.start();
    let large = mail(&"x".repeat(101));
    let verdict = judge(&procedures, large.clone()).await;
    assert_eq!(
        (verdict.action, verdict.procedure.as_str()),
        (Action::Reject, "/sizecheck")
    );
    assert!(verdict.reason.contains("101 bytes"), "{}", verdict.reason);
    let mut elsewhere = large;
    elsewhere.topic = Topic::new("other").ok();
    assert_eq!(judge(&procedures, elsewhere).await.action, Action::Accept);
    assert!(procedures.scope_for(Listener::Http, None, &[]).is_none());
}

#[tokio::test]
async fn a_chain_gathers_tags_and_ends_at_the_first_refusal() {
    let tag = r#"return function(m)
        return {action = "tag", reason = "odd", tags = {["X-Odd"] = "1"}}
    end"#;
    let fixture = Fixture::new()
        .with("tag", tag)
        .with(
            "quarantine",
            r#"return function(m) return "quarantine", m.action end"#,
        )
        .with("never", r#"return function(m) error("not reached") end"#)
        .scope(scope("/chain", &["/noop", "/tag", "/quarantine", "/never"]));
    let procedures = fixture.start();
    let verdict = judge(&procedures, mail("x")).await;
    assert_eq!(verdict.action, Action::Quarantine);
    assert_eq!(verdict.procedure, "/quarantine");
    // The reason of the deciding procedure, which saw the earlier verdicts.
    assert_eq!(verdict.reason, "tag");
    assert_eq!(verdict.tags, [("X-Odd".to_owned(), "1".to_owned())]);
    let status = procedures.status();
    let requests = |path| {
        let found = status.procedures.iter().find(|one| one.path == path);
        found.map(|one| (one.requests, one.errors))
    };
    assert_eq!(requests("/tag"), Some((1, 0)));
    assert_eq!(requests("/never"), Some((0, 0)));
}

#[tokio::test]
async fn a_scope_that_runs_the_rules_tells_all_that_they_found() {
    let procedures = Fixture::new()
        .with("kind", "return function() return \"accept\" end")
        .scope(scope("/rules", &["/spamcheck", "/kind"]))
        .start();
    let message = Arc::new(mail("x"));
    let answer = procedures.judge_and_report(&message).await;
    let report = answer.report.expect("the rules ran");
    let score = answer.verdict.score.expect("a score");
    assert!((report.score - score.value).abs() < 1e-9);
    let procedures = Fixture::new()
        .with("kind", "return function() return \"accept\" end")
        .scope(scope("/none", &["/kind"]))
        .start();
    assert!(procedures.judge_and_report(&message).await.report.is_none());
}

#[tokio::test]
async fn a_scope_is_called_like_a_procedure() {
    let procedures = Fixture::new()
        .scope(scope("/mail", &["/noop", "/sizecheck"]))
        .start();
    assert_eq!(procedures.needs("/mail"), Some(Needs::Size));
    assert_eq!(procedures.needs("/spamcheck"), Some(Needs::Whole));
    assert_eq!(procedures.needs("/nothing"), None);
    let answer = call(&procedures, "/mail", ProcedureArguments::none()).await;
    assert_eq!(answer.verdict.action, Action::Accept);
    let message = Arc::new(mail("x"));
    let missing = procedures
        .call("/nothing", message, ProcedureArguments::none())
        .await;
    assert_eq!(missing.err(), Some(ProcedureCallError::NoSuchProcedure));
}
