//! Members of a scope, `/path -key value …`, and the arguments of each over a procedure's settings.
#![no_main]

use gatepost_procedures::ScopeMember;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(member) = text.parse::<ScopeMember>() else {
        return;
    };
    // Written out in quotes, it is the same member.
    let mut again = member.path.clone();
    if again.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') || again.is_empty() {
        return;
    }
    for (name, value) in member.arguments.iter() {
        if name.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
            return;
        }
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        again += &format!(" -{name} \"{value}\"");
    }
    assert_eq!(again.parse::<ScopeMember>(), Ok(member));
});
