//! Reloaded files and settings: valid ones are applied, invalid ones are reported and change
//! nothing.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::Action;
use gatepost_procedures::ProcedureArguments;
use gatepost_rules::RuleSet;
use gatepost_settings::{ByteSize, Period};

use super::{Fixture, call, judge, mail, scope};

#[test]
fn mistakes_are_named_with_their_place() {
    let fixture = Fixture::new()
        .with("broken", "return function(\n  message\n  oops\nend")
        .with("nothing", "return 5")
        .with("sizecheck", "return function() end");
    let problems = fixture.try_start().err().expect("errors");
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let all = texts.join("\n");
    assert!(all.contains("broken.luau:3:"), "{all}");
    assert!(all.contains("not a function"), "{all}");
    assert!(all.contains("is built in"), "{all}");

    let fixture = Fixture::new()
        .scope(scope("mail", &["/noop"]))
        .scope(scope("/noop", &["/noop"]))
        .scope(scope("/empty", &[]))
        .scope(scope("/typo", &["/sizechek"]));
    let problems = fixture.try_start().err().expect("errors");
    let places: Vec<&str> = problems
        .iter()
        .map(|problem| problem.place.as_str())
        .collect();
    assert_eq!(
        places,
        ["scope.0.path", "scope.1.path", "scope.2.run", "scope.3.run"]
    );
    assert!(problems[3].text.contains("/sizecheck"), "{}", problems[3]);
}

/// Waits until `done` returns true; only a defect can reach the generous limit.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done().await {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_listed_removes_no_procedure() {
    let mut fixture = Fixture::new().with("own/greet", r#"return function() return "one" end"#);
    fixture.configuration.procedures.recheck = Period::seconds(0);
    let folder = fixture.folder.path().join("own");
    fixture.configuration.procedures.path.clone_from(&folder);
    let procedures = fixture.start();
    fs::rename(&folder, fixture.folder.path().join("moved")).expect("renamed");
    fs::write(&folder, "a file in its place").expect("written");
    procedures.read_folder();
    let answer = call(&procedures, "/greet", ProcedureArguments::none()).await;
    assert_eq!(answer.text, "one");
    let refused = procedures.in_force().refused;
    assert!(
        refused[0].problems[0].contains("cannot be read"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn files_are_taken_up_changed_and_kept_when_broken() {
    let fixture = Fixture::new().with("greet", r#"return function() return "one" end"#);
    let procedures = fixture.start();
    let text = async |expected: &str| {
        let answer = call(&procedures, "/greet", ProcedureArguments::none()).await;
        answer.text == expected
    };
    assert!(text("one").await);
    fixture.write("greet", r#"return function() return "two" end"#);
    until("the changed file", async || text("two").await).await;
    fixture.write("dropped/in", "return function() end");
    until("the new file", async || {
        procedures.needs("/dropped/in").is_some()
    })
    .await;
    // A file that does not compile changes nothing, and is loaded once it is fixed.
    let generation = procedures.generation();
    fixture.write("greet", "return function(");
    fixture.write("later", "return function() end");
    assert!(text("two").await);
    let refused = || !procedures.in_force().refused.is_empty();
    until("the status shows it", async || refused()).await;
    fixture.write("greet", r#"return function() return "three" end"#);
    until("the fixed file", async || text("three").await).await;
    assert!(procedures.needs("/later").is_some());
    assert!(procedures.generation() > generation);
    fs::remove_file(fixture.folder.path().join("later.luau")).expect("removed");
    assert!(!refused(), "{:?}", procedures.in_force());
    until("the removal", async || procedures.needs("/later").is_none()).await;
}

#[tokio::test]
async fn a_reload_swaps_everything_or_nothing() {
    let fixture = Fixture::new();
    let procedures = fixture.start();
    let rules = || Arc::new(RuleSet::embedded());
    let mut wrong = fixture.configuration.clone();
    wrong.scopes.push(scope("/mail", &["/nothing"]));
    let mistakes = procedures.reload(wrong, rules()).expect_err("a mistake");
    assert_eq!(judge(&procedures, mail("x")).await.action, Action::Accept);
    // Later calls of /status show it too, until something else is in force.
    procedures.refused(mistakes.iter().map(ToString::to_string));
    let status = async || {
        call(&procedures, "/status", ProcedureArguments::none())
            .await
            .text
    };
    let text = status().await;
    assert!(
        text.contains("\nthe reload of ") && text.contains("/nothing"),
        "{text}"
    );
    let mut right = fixture.configuration.clone();
    right.table.sizecheck.max = ByteSize(0);
    right.scopes.push(scope("/mail", &["/sizecheck"]));
    assert!(procedures.reload(right, rules()).is_ok());
    assert_eq!(judge(&procedures, mail("x")).await.action, Action::Reject);
    let text = status().await;
    assert!(
        text.contains("\nconfig and rules in force since "),
        "{text}"
    );
    assert!(!text.contains("refused"), "{text}");
}
