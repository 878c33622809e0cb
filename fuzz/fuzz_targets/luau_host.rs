//! The host functions for Luau code, called by a procedure that interprets the input: bytes build
//! tables, nest them, encode and decode them, publish and change the message. For any input, the
//! process continues, and the JSON that it writes can be read back.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, Topic};
use gatepost_procedures::{ProcedureArguments, ProcedureHost, Procedures, ProceduresConfiguration};
use gatepost_rules::RuleSet;
use libfuzzer_sys::fuzz_target;

const INTERPRETER: &str = r#"
return function(message)
    local input = message.body
    local values = { {} }
    local function top() return values[#values] end
    for at = 1, math.min(#input, 4096) do
        local byte = string.byte(input, at)
        local action, operand = byte % 12, byte // 12
        if action == 0 then values[#values] = { top() }
        elseif action == 1 then for _ = 1, operand * 64 do values[#values] = { top() } end
        elseif action == 2 then values[#values] = { [string.char(97 + operand)] = top() }
        elseif action == 3 then values[#values] = { top(), top() }
        elseif action == 4 then values[#values + 1] = operand / 7
        elseif action == 5 then values[#values + 1] = string.sub(input, at, at + operand)
        elseif action == 6 then
            local ok, text = pcall(json.encode, top())
            if ok then
                local value, why = json.decode(text)
                assert(why == nil or text == "null", why)
                values[#values] = text
            end
        elseif action == 7 then pcall(json.decode, string.sub(input, at))
        elseif action == 8 then pcall(json.decode, string.rep("[", operand * 1000))
        elseif action == 9 then pcall(publish, "copies/" .. operand, tostring(top()))
        elseif action == 10 then pcall(function() message.body = tostring(top()) end)
        else pcall(store.set, "key" .. operand, top(), operand)
        end
    end
    return "accept"
end"#;

static PROCEDURES: LazyLock<(Procedures, String)> = LazyLock::new(|| {
    let file = std::env::temp_dir().join(format!("gatepost-fuzz-{}.luau", std::process::id()));
    std::fs::write(&file, INTERPRETER).expect("a file");
    let rules = Arc::new(RuleSet::embedded());
    let configuration = ProceduresConfiguration::default();
    let started = Procedures::start_file(configuration, rules, ProcedureHost::detached(), &file);
    started.unwrap_or_else(|problems| panic!("{problems:?}"))
});

fuzz_target!(|input: &[u8]| {
    let (procedures, path) = &*PROCEDURES;
    let envelope = Envelope::new(Listener::Mqtt, Peer::Local);
    let topic = Topic::new("fuzz").ok();
    let body = Bytes::copy_from_slice(input);
    let message = Arc::new(Message::new(envelope, topic, Format::Payload, body));
    let deadline = Instant::now() + Duration::from_secs(1);
    let answer = procedures.call_here(path, &message, &ProcedureArguments::none(), deadline);
    let reason = answer.expect("the procedure").verdict.reason;
    assert!(!reason.contains("assertion"), "{reason}");
});
