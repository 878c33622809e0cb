//! Setting the timestamp of a Sparkplug payload changes nothing else, and the result is a payload.
#![no_main]

use gatepost_message::sparkplug::with_timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (first, second, bytes) = input;
    if let Ok(changed) = with_timestamp(bytes, first) {
        assert_eq!(with_timestamp(&changed, second), with_timestamp(bytes, second));
        assert_eq!(with_timestamp(&changed, first).as_ref(), Ok(&changed));
    }
});
