//! Any bytes as a message: all its views exist.
#![no_main]

#[path = "../all_views.rs"]
mod all_views;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    all_views::make_all_views(data);
});
