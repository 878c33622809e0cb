//! HTML as the body of a message.
#![no_main]

#[path = "../all_views.rs"]
mod all_views;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    all_views::make_all_views(&[&b"Content-Type: text/html; charset=utf-8\n\n"[..], data].concat());
});
