//! Scopes, chains and the user's own procedures, through the handle that listeners hold.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_message::{
    Action, Envelope, Format, Listener, Message, Peer, Topic, TopicFilter, Verdict,
};
use gatepost_procedures::{
    Answer, Arguments, CallError, Configuration, Needs, Problem, Procedures, ScopeSettings,
};
use gatepost_rules::RuleSet;
use gatepost_settings::{ByteSize, Period};
use tempfile::TempDir;

struct World {
    folder: TempDir,
    configuration: Configuration,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut configuration = Configuration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.procedures.judges = 2;
        configuration.procedures.recheck = Period::milliseconds(20);
        configuration.table.sizecheck.max = ByteSize(100);
        Self {
            folder,
            configuration,
        }
    }

    fn with(self, path: &str, source: &str) -> Self {
        self.write(path, source);
        self
    }

    fn write(&self, path: &str, source: &str) {
        let file = self.folder.path().join(format!("{path}.luau"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        // Renamed into place, so that a half-written file is never read.
        let draft = file.with_extension("draft");
        fs::write(&draft, source).expect("written");
        fs::rename(draft, file).expect("renamed");
    }

    fn scope(mut self, scope: ScopeSettings) -> Self {
        self.configuration.scopes.push(scope);
        self
    }

    fn try_start(&self) -> Result<Procedures, Vec<Problem>> {
        let rules = Arc::new(RuleSet::embedded());
        Procedures::start(self.configuration.clone(), rules).map(|(procedures, _)| procedures)
    }

    fn start(&self) -> Procedures {
        self.try_start().expect("a configuration without errors")
    }
}

fn scope(path: &str, run: &[&str]) -> ScopeSettings {
    ScopeSettings {
        path: path.to_owned(),
        run: run.iter().map(ToString::to_string).collect(),
        ..ScopeSettings::default()
    }
}

fn mail(body: &str) -> Message {
    let mut envelope = Envelope::new(Listener::Smtp, Peer::Local);
    envelope.sender = Some("anna@example.org".into());
    envelope.recipients = vec!["alarms+fire@localhost".into()];
    let topic = Topic::new("alarms/fire").ok();
    let body = Bytes::copy_from_slice(body.as_bytes());
    Message::new(envelope, topic, Format::Mail, body)
}

async fn judge(procedures: &Procedures, message: Message) -> Verdict {
    procedures.judge(&Arc::new(message)).await
}

async fn call(procedures: &Procedures, path: &str, arguments: Arguments) -> Answer {
    let message = Arc::new(mail(
        "Subject: hello\r\nX-Kind: test\r\n\r\nthe needle is here\r\n",
    ));
    procedures.call(path, message, arguments).await.expect(path)
}

#[tokio::test]
async fn a_message_without_scope_is_accepted() {
    let procedures = World::new().start();
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
    let world = World::new()
        .scope(by_listener)
        .scope(by_topic)
        .scope(by_recipient);
    let procedures = world.start();
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
    let tag = r#"return function(m) return {action = "tag", reason = "odd", tags = {["X-Odd"] = "1"}} end"#;
    let world = World::new()
        .with("tag", tag)
        .with(
            "quarantine",
            r#"return function(m) return "quarantine", m.action end"#,
        )
        .with("never", r#"return function(m) error("not reached") end"#)
        .scope(scope("/chain", &["/noop", "/tag", "/quarantine", "/never"]));
    let procedures = world.start();
    let verdict = judge(&procedures, mail("x")).await;
    assert_eq!(verdict.action, Action::Quarantine);
    assert_eq!(verdict.procedure, "/quarantine");
    // The reason of the one that decided, which saw what was said before it.
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
    let procedures = World::new()
        .with("kind", "return function() return \"accept\" end")
        .scope(scope("/rules", &["/spamcheck", "/kind"]))
        .start();
    let message = Arc::new(mail("x"));
    let answer = procedures.judge_and_report(&message).await;
    let report = answer.report.expect("the rules ran");
    let score = answer.verdict.score.expect("a score");
    assert!((report.score - score.value).abs() < 1e-9);
    let procedures = World::new()
        .with("kind", "return function() return \"accept\" end")
        .scope(scope("/none", &["/kind"]))
        .start();
    assert!(procedures.judge_and_report(&message).await.report.is_none());
}

#[tokio::test]
async fn a_scope_is_called_like_a_procedure() {
    let procedures = World::new()
        .scope(scope("/mail", &["/noop", "/sizecheck"]))
        .start();
    assert_eq!(procedures.needs("/mail"), Some(Needs::Size));
    assert_eq!(procedures.needs("/spamcheck"), Some(Needs::Whole));
    assert_eq!(procedures.needs("/nothing"), None);
    let answer = call(&procedures, "/mail", Arguments::none()).await;
    assert_eq!(answer.verdict.action, Action::Accept);
    let message = Arc::new(mail("x"));
    let missing = procedures
        .call("/nothing", message, Arguments::none())
        .await;
    assert_eq!(missing.err(), Some(CallError::NoSuchProcedure));
}

#[tokio::test]
async fn luau_code_sees_the_message_and_its_arguments() {
    let source = r#"
        return function(message, arguments)
            assert(message.sender == "anna@example.org")
            assert(message.recipients[1] == "alarms+fire@localhost")
            assert(message.topic == "alarms/fire" and message.listener == "smtp")
            assert(message.size == #message.body)
            assert(message:contains("needle") and not message:contains("thread"))
            assert(message:header("X-Kind") == "test", message:header("X-Kind"))
            assert(message:header("X-None") == nil)
            assert(message.subject == "hello", message.subject)
            assert(message.user == nil and message.score == nil)
            return {text = "for " .. arguments.user .. " and " .. arguments.list}
        end"#;
    let mut world = World::new().with("who", source);
    let luau = &mut world.configuration.procedures.luau;
    luau.arguments = [("user", "nobody"), ("list", "all")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let procedures = world.start();
    let arguments = Arguments::from_iter([("user", "anna")]);
    let answer = call(&procedures, "/who", arguments).await;
    assert_eq!(answer.text, "for anna and all", "{:?}", answer.verdict);
}

#[tokio::test]
async fn each_kind_of_answer_is_read() {
    for (source, action, reason, text) in [
        ("return function() end", Action::Accept, "", ""),
        (
            r#"return function() return "accept" end"#,
            Action::Accept,
            "",
            "",
        ),
        (
            r#"return function() return "drop", "why" end"#,
            Action::Drop,
            "why",
            "",
        ),
        (
            r#"return function() return "Hello" end"#,
            Action::Accept,
            "",
            "Hello",
        ),
        ("return function() return 42 end", Action::Accept, "", "42"),
        (
            r#"return function() return {action = "defer", reason = "a\r\nb", text = "t"} end"#,
            Action::Defer,
            "a  b",
            "t",
        ),
    ] {
        let procedures = World::new().with("one", source).start();
        let answer = call(&procedures, "/one", Arguments::none()).await;
        assert_eq!(answer.verdict.action, action, "{source}");
        assert_eq!(answer.verdict.reason, reason, "{source}");
        assert_eq!(answer.text, text, "{source}");
    }
}

/// Whatever the code does, the call ends in time with the verdict for failures, and the next
/// call of another procedure finds its judge.
#[tokio::test]
async fn hostile_code_is_stopped() {
    let attacks = [
        ("endless loop", "while true do end"),
        (
            "a loop that catches errors",
            "while true do pcall(function() while true do end end) end",
        ),
        (
            "deep recursion",
            "local function f(n) return 1 + f(n + 1) end return f(1)",
        ),
        (
            "recursion that catches",
            "local function f() pcall(f) while true do end end f()",
        ),
        (
            "a string bomb",
            r#"local s = "x" while true do s = s .. s end"#,
        ),
        ("string.rep", r#"return string.rep("x", 1e9)"#),
        (
            "a memory bomb",
            "local t = {} while true do t[#t + 1] = {1, 2, 3} end",
        ),
        ("table.create", "return table.create(1e9, 1)"),
        ("a buffer", "return buffer.create(1e9)"),
        (
            "a slow pattern",
            r#"return (string.rep("a", 5000)):find(string.rep("a-", 30) .. "b")"#,
        ),
        (
            "coroutines",
            "coroutine.wrap(function() while true do end end)()",
        ),
        ("an error value", "error({})"),
        ("a wrong answer", "return function() end"),
        ("a wrong action", r#"return {action = "explode"}"#),
        ("no such field", "return message.body.nothing.at.all"),
    ];
    for (name, body) in attacks {
        let source = format!("return function(message) {body} end");
        let mut world = World::new().with("attack", &source);
        world.configuration.procedures.luau.on_error = Action::Quarantine;
        world.configuration.procedures.judges = 1;
        let procedures = world.start();
        for _ in 0..2 {
            let started = Instant::now();
            let answer = call(&procedures, "/attack", Arguments::none()).await;
            assert_eq!(answer.verdict.action, Action::Quarantine, "{name}");
            assert_eq!(answer.verdict.procedure, "/attack", "{name}");
            assert!(started.elapsed() < Duration::from_secs(20), "{name}");
        }
        let status = procedures.status();
        let attack = status.procedures.iter().find(|one| one.path == "/attack");
        assert_eq!(
            attack.map(|one| (one.requests, one.errors)),
            Some((2, 2)),
            "{name}"
        );
        let after = call(&procedures, "/status", Arguments::none()).await;
        assert!(after.text.contains("/attack"), "{}", after.text);
    }
}

#[tokio::test]
async fn code_reaches_nothing_outside() {
    let source = r#"
        return function()
            for _, name in {"io", "require", "package", "loadfile", "dofile"} do
                assert(getfenv()[name] == nil, name)
            end
            assert(os.execute == nil and os.getenv == nil and os.remove == nil)
            assert(not pcall(function() string.format = nil end), "libraries are read-only")
            return "accept"
        end"#;
    let procedures = World::new().with("probe", source).start();
    let answer = call(&procedures, "/probe", Arguments::none()).await;
    assert_eq!(
        answer.verdict.action,
        Action::Accept,
        "{}",
        answer.verdict.reason
    );
}

#[tokio::test]
async fn a_kept_message_is_closed_after_the_call() {
    let source = r#"
        local kept
        return function(message)
            if kept then return "drop", tostring(pcall(function() return kept.size end)) end
            kept = message
            return "accept"
        end"#;
    let mut world = World::new().with("keep", source);
    world.configuration.procedures.judges = 1;
    let procedures = world.start();
    let first = call(&procedures, "/keep", Arguments::none()).await;
    assert_eq!(first.verdict.action, Action::Accept);
    let second = call(&procedures, "/keep", Arguments::none()).await;
    assert_eq!(
        (second.verdict.action, second.verdict.reason.as_str()),
        (Action::Drop, "false")
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let world = World::new()
        .with("broken", "return function(\n  message\n  oops\nend")
        .with("nothing", "return 5")
        .with("sizecheck", "return function() end");
    let problems = world.try_start().err().expect("errors");
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let all = texts.join("\n");
    assert!(all.contains("broken.luau:3:"), "{all}");
    assert!(all.contains("not a function"), "{all}");
    assert!(all.contains("is built in"), "{all}");

    let world = World::new()
        .scope(scope("mail", &["/noop"]))
        .scope(scope("/noop", &["/noop"]))
        .scope(scope("/empty", &[]))
        .scope(scope("/typo", &["/sizechek"]));
    let problems = world.try_start().err().expect("errors");
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

/// Waits until `done` says so; the limit is generous, and only reached by a defect.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done().await {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn files_are_taken_up_changed_and_kept_when_broken() {
    let world = World::new().with("greet", r#"return function() return "one" end"#);
    let procedures = world.start();
    let text = async |expected: &str| {
        let answer = call(&procedures, "/greet", Arguments::none()).await;
        answer.text == expected
    };
    assert!(text("one").await);
    world.write("greet", r#"return function() return "two" end"#);
    until("the changed file", async || text("two").await).await;
    world.write("dropped/in", "return function() end");
    until("the new file", async || {
        procedures.needs("/dropped/in").is_some()
    })
    .await;
    // A file that does not compile changes nothing, and is taken once it is mended.
    let generation = procedures.generation();
    world.write("greet", "return function(");
    world.write("later", "return function() end");
    assert!(text("two").await);
    let refused = || !procedures.in_force().refused.is_empty();
    until("the status tells", async || refused()).await;
    world.write("greet", r#"return function() return "three" end"#);
    until("the mended file", async || text("three").await).await;
    assert!(procedures.needs("/later").is_some());
    assert!(procedures.generation() > generation);
    fs::remove_file(world.folder.path().join("later.luau")).expect("removed");
    assert!(!refused(), "{:?}", procedures.in_force());
    until("the removal", async || procedures.needs("/later").is_none()).await;
}

#[tokio::test]
async fn a_reload_swaps_everything_or_nothing() {
    let world = World::new();
    let procedures = world.start();
    let rules = || Arc::new(RuleSet::embedded());
    let mut wrong = world.configuration.clone();
    wrong.scopes.push(scope("/mail", &["/nothing"]));
    let mistakes = procedures.reload(wrong, rules()).expect_err("a mistake");
    assert_eq!(judge(&procedures, mail("x")).await.action, Action::Accept);
    // Whoever asks later is told, until something else is in force.
    procedures.refused(mistakes.iter().map(ToString::to_string));
    let status = async || call(&procedures, "/status", Arguments::none()).await.text;
    let told = status().await;
    assert!(
        told.contains("\nthe reload of ") && told.contains("/nothing"),
        "{told}"
    );
    let mut right = world.configuration.clone();
    right.table.sizecheck.max = ByteSize(0);
    right.scopes.push(scope("/mail", &["/sizecheck"]));
    assert!(procedures.reload(right, rules()).is_ok());
    assert_eq!(judge(&procedures, mail("x")).await.action, Action::Reject);
    let told = status().await;
    assert!(
        told.contains("\nconfig and rules in force since "),
        "{told}"
    );
    assert!(!told.contains("refused"), "{told}");
}

#[tokio::test]
async fn a_full_queue_defers() {
    let source = "return function() local n = 0 while true do n += 1 end end";
    let mut world = World::new().with("slow", source);
    world.configuration.procedures.judges = 1;
    world.configuration.procedures.queue_max = 1;
    let procedures = world.start();
    let calls = (0..8).map(|_| {
        let procedures = procedures.clone();
        tokio::spawn(async move { call(&procedures, "/slow", Arguments::none()).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut busy = 0;
    for one in calls {
        let verdict = one.await.expect("no panic").verdict;
        assert_eq!(verdict.action, Action::Defer);
        busy += usize::from(verdict.reason.contains("busy"));
    }
    assert!(
        busy >= 1,
        "one ran, one waited, the others were turned away"
    );
}

#[test]
fn settings_read_as_toml_and_refuse_what_they_do_not_know() {
    #[derive(serde::Deserialize)]
    struct Config {
        #[serde(default)]
        scope: Vec<ScopeSettings>,
        #[serde(default)]
        procedure: gatepost_procedures::ProcedureTable,
    }
    let text = r#"
        [[scope]]
        path = "/mail"
        listeners = ["smtp", "mqtt"]
        topics = ["alarms/#"]
        run = ["/sizecheck", "/mail/greylist"]
        [procedure."/sizecheck"]
        max = "1KB"
        [procedure."/spamcheck"]
        action = "tag"
        reject = 15.0
        [procedure."/mail/greylist"]
        time_max = "1s"
        on_error = "accept"
        arguments = { days = "3" }
    "#;
    let config: Config = toml::from_str(text).expect("a config");
    assert_eq!(config.scope[0].listeners, [Listener::Smtp, Listener::Mqtt]);
    assert_eq!(config.procedure.sizecheck.max, ByteSize(1000));
    assert_eq!(config.procedure.spamcheck.reject, Some(15.0));
    let greylist = &config.procedure.luau["/mail/greylist"];
    assert_eq!(
        (greylist.on_error, greylist.time_max),
        (Action::Accept, Period::seconds(1))
    );
    let written = toml::to_string(&config.procedure).expect("TOML");
    let again: gatepost_procedures::ProcedureTable = toml::from_str(&written).expect("TOML");
    assert_eq!(again, config.procedure);
    for (text, complaint) in [
        ("[procedure.\"/sizecheck\"]\nmaximum = 1", "maximum"),
        ("[procedure.\"/noop\"]\nx = 1", "no settings"),
        ("[procedure.sizecheck]\nmax = \"1KB\"", "\"/sizecheck\""),
        ("[[scope]]\nlisteners = [\"smpt\"]", "smpt"),
        ("[[scope]]\ntopics = [\"a#\"]", "a#"),
        ("[procedure.\"/x\"]\non_error = \"explode\"", "explode"),
    ] {
        let error = toml::from_str::<Config>(text)
            .err()
            .expect(text)
            .to_string();
        assert!(error.contains(complaint), "{text}: {error}");
        assert!(error.contains("line"), "{text}: {error}");
    }
}
