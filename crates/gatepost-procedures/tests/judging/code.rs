//! Operators' Luau code: its inputs and results, and proof that no code delays others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::Action;
use gatepost_procedures::ProcedureArguments;
use gatepost_settings::{ByteSize, Period};

use super::{Fixture, call, mail};

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
    let mut fixture = Fixture::new().with("who", source);
    let luau = &mut fixture.configuration.procedures.luau;
    luau.arguments = [("user", "nobody"), ("list", "all")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let procedures = fixture.start();
    let arguments = ProcedureArguments::from_iter([("user", "anna")]);
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
        let procedures = Fixture::new().with("one", source).start();
        let answer = call(&procedures, "/one", ProcedureArguments::none()).await;
        assert_eq!(answer.verdict.action, action, "{source}");
        assert_eq!(answer.verdict.reason, reason, "{source}");
        assert_eq!(answer.text, text, "{source}");
    }
}

/// For any code, the call ends in time with the verdict for failures, and the next call of another
/// procedure finds its judge.
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
        ("a wrong action", r#"return {action = ("explode")}"#),
        ("no score", r#"return {action = "tag", score = 0 / 0}"#),
        ("no such field", "return message.body.nothing.at.all"),
    ];
    for (name, body) in attacks {
        let source = format!("return function(message) {body} end");
        let mut fixture = Fixture::new().with("attack", &source);
        fixture.configuration.procedures.luau.on_error = Action::Quarantine;
        fixture.configuration.procedures.judges = 1;
        let procedures = fixture.start();
        for _ in 0..2 {
            let started = Instant::now();
            let answer = call(&procedures, "/attack", ProcedureArguments::none()).await;
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
        let after = call(&procedures, "/status", ProcedureArguments::none()).await;
        assert!(after.text.contains("/attack"), "{}", after.text);
    }
}

/// Few loops, each of which has the host read the whole of a large mail.
///
/// After the end of its time, one in sixteen of the loops and calls of a procedure reads the clock.
/// If that is one of its last, the procedure fails and does not say how many loops it made. So each
/// of sixteen procedures makes one more loop at its beginning than the one before.
#[tokio::test]
async fn work_of_the_host_counts_as_time_of_the_call() {
    let source = |loops| {
        format!(
            "return function(message)
                for _ = 1, {loops} do end
                local count = 0
                local _, why = pcall(function()
                    while count < 1000 do
                        local text = message.text
                        count += 1
                    end
                end)
                return `{{count}} {{why}}`
            end"
        )
    };
    let mut fixture = (0..16).fold(Fixture::new(), |fixture, loops| {
        fixture.with(&format!("read{loops}"), &source(loops))
    });
    let luau = &mut fixture.configuration.procedures.luau;
    // A fast machine reads the mail of 16 MB some twenty times before garbage is collected.
    luau.memory_max = ByteSize::mebibytes(2048);
    luau.time_max = Period::milliseconds(100);
    let procedures = fixture.start();
    let message = Arc::new(mail(&format!(
        "Subject: a\r\n\r\n{}",
        "a line\r\n".repeat(1 << 21)
    )));
    for loops in 0..16 {
        let path = format!("/read{loops}");
        let answer = procedures
            .call(&path, message.clone(), ProcedureArguments::none())
            .await
            .expect("a procedure");
        if let Some((count, why)) = answer.text.split_once(' ') {
            assert!(why.contains("ran longer than the 100 ms"), "{why}");
            assert!(count.parse().is_ok_and(|count: u32| count < 40), "{count}");
            return;
        }
    }
    panic!("no procedure says how many loops it made");
}

#[tokio::test]
async fn code_reaches_nothing_outside() {
    let source = r#"
        return function()
            for _, name in {"io", "require", "package", "loadfile", "loadstring", "dofile"} do
                assert(getfenv()[name] == nil, name)
            end
            assert(os.execute == nil and os.getenv == nil and os.remove == nil)
            assert(not pcall(function() string.format = nil end), "libraries are read-only")
            return "accept"
        end"#;
    let procedures = Fixture::new().with("probe", source).start();
    let answer = call(&procedures, "/probe", ProcedureArguments::none()).await;
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
    let mut fixture = Fixture::new().with("keep", source);
    fixture.configuration.procedures.judges = 1;
    let procedures = fixture.start();
    let first = call(&procedures, "/keep", ProcedureArguments::none()).await;
    assert_eq!(first.verdict.action, Action::Accept);
    let second = call(&procedures, "/keep", ProcedureArguments::none()).await;
    assert_eq!(
        (second.verdict.action, second.verdict.reason.as_str()),
        (Action::Drop, "false")
    );
}

#[tokio::test]
async fn a_full_queue_defers() {
    let source = "return function() local n = 0 while true do n += 1 end end";
    let mut fixture = Fixture::new().with("slow", source);
    fixture.configuration.procedures.judges = 1;
    fixture.configuration.procedures.queue_max = 1;
    let procedures = fixture.start();
    let calls = (0..8).map(|_| {
        let procedures = procedures.clone();
        tokio::spawn(async move { call(&procedures, "/slow", ProcedureArguments::none()).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut busy = 0;
    for one in calls {
        let verdict = one.await.expect("no panic").verdict;
        assert_eq!(verdict.action, Action::Defer);
        busy += usize::from(verdict.reason.contains("busy"));
    }
    assert!(busy >= 1, "one ran, one waited, the others were refused");
}
