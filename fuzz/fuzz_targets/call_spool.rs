//! XMail's spool file, as the thin client reads it.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (has_mark, bytes) = input;
    let path = std::env::temp_dir().join(format!("gatepost-spool-{}", std::process::id()));
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
    if written.is_ok() {
        let _ = gatepost_call::fuzz_spool(&path, has_mark);
    }
});
