//! Changes of a mail: the first bytes say which, the rest is the mail.
#![no_main]

use bytes::Bytes;
use gatepost_message::{Edit, EditedField, edit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, u8, &[u8])| {
    let (name, value, kind, mail) = input;
    let mail = Bytes::copy_from_slice(mail);
    let Ok(field) = EditedField::new(name, value) else {
        return;
    };
    let occurrence = u32::from(kind >> 4);
    let remove = |name: &str, occurrence| Edit::RemoveField {
        name: name.to_owned(),
        occurrence,
    };
    let edits = match kind & 3 {
        0 => vec![Edit::PrependField(field)],
        1 => vec![Edit::AppendField(field), Edit::ReplaceBody(mail.clone())],
        2 => vec![Edit::ReplaceField { field, occurrence }],
        _ => vec![remove(name, occurrence)],
    };
    let before = edit::field_names(&mail).len();
    let changed = edit::apply(&mail, &edits);
    let after = edit::field_names(&changed).len();
    assert!(after <= before + 1, "a value made a field of its own");
});
