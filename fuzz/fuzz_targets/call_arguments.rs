//! The thin client's command line, as a line of XMail's filter files spells it: words in quotes,
//! separated by TABs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let words = line.split(|&byte| byte == b'\t').map(|word| {
        let inner = word.strip_prefix(b"\"").unwrap_or(word);
        inner.strip_suffix(b"\"").unwrap_or(inner)
    });
    gatepost_call::fuzz_arguments(words);
});
