//! Edits of a message by procedures.
//!
//! A procedure never changes the bytes that arrived. It requests changes, as a list of [`Edit`]s in
//! a [`Verdict`](crate::Verdict). The code that passes the message on (to subscribers, to the next
//! hop, back to the mail server that requested a verdict) applies the list with [`apply`], or
//! forwards it edit by edit, as the milter protocol requires.
//!
//! Edits are applied in order. An occurrence is counted in the header as the previous edits left
//! it, so all fields of a name are removed by removing the first one repeatedly. Postfix counts in
//! the same way.

use bytes::Bytes;

use crate::{Format, Message};

mod field;
mod head;
mod occurrences;

pub use field::{EditedField, MalformedField};
use head::EditableHead;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Inserts a field before all others, where trace fields belong (RFC 5322, section 3.6.7).
    PrependField(EditedField),
    /// Appends a field after all others.
    AppendField(EditedField),
    /// Replaces the value of one field in place. Has no effect if there is no such field.
    ReplaceField {
        /// The name as it will be written, and the new value.
        field: EditedField,
        /// The index among the fields of that name: 1 is the topmost. The comparison of names
        /// ignores letter case.
        occurrence: u32,
    },
    /// Removes one field. Has no effect if there is no such field.
    RemoveField {
        /// The name, in any letter case.
        name: String,
        /// The index among the fields of that name: 1 is the topmost.
        occurrence: u32,
    },
    /// Replaces everything after the header; in a message that is not mail, everything.
    ReplaceBody(Bytes),
    /// Replaces the payload that subscribers receive instead of the listener's own form of the
    /// message. Has no effect on a mailbox, a next hop or a mail server that requested a verdict.
    SetPayload {
        /// The bytes.
        payload: Bytes,
        /// The MIME type of the bytes.
        content_type: Option<String>,
    },
}

/// The mail with all `edits` applied, in order. Everything else remains unchanged, byte for byte:
/// new parts use the line end of the mail's first line.
pub fn apply(mail: &Bytes, edits: &[Edit]) -> Bytes {
    if edits
        .iter()
        .all(|edit| matches!(edit, Edit::SetPayload { .. }))
    {
        return mail.clone();
    }
    let mut head = EditableHead::split(mail);
    for edit in edits {
        match edit {
            Edit::PrependField(field) => head.prepend(field),
            Edit::AppendField(field) => head.append(field),
            Edit::ReplaceField { field, occurrence } => head.replace(field, *occurrence),
            Edit::RemoveField { name, occurrence } => head.remove(name, *occurrence),
            Edit::ReplaceBody(body) => head.set_body(body),
            Edit::SetPayload { .. } => {}
        }
    }
    head.join()
}

/// The names of a mail's header fields, in order.
pub fn field_names(mail: &[u8]) -> Vec<String> {
    EditableHead::split(mail).names()
}

/// Applies an edit to a message that is not mail, whose header fields are its user properties.
/// Edits of the body have no effect.
pub fn apply_to_properties(user: &mut Vec<(String, String)>, edit: &Edit) {
    let pair = |field: &EditedField| (field.name().to_owned(), field.value().to_owned());
    match edit {
        Edit::PrependField(field) => user.insert(0, pair(field)),
        Edit::AppendField(field) => user.push(pair(field)),
        Edit::ReplaceField { field, occurrence } => {
            if let Some(place) = find(user, field.name(), *occurrence) {
                user[place] = pair(field);
            }
        }
        Edit::RemoveField { name, occurrence } => {
            if let Some(place) = find(user, name, *occurrence) {
                user.remove(place);
            }
        }
        Edit::ReplaceBody(_) | Edit::SetPayload { .. } => {}
    }
}

/// The position of the `occurrence`th user property of this name, counted from 1.
fn find(user: &[(String, String)], name: &str, occurrence: u32) -> Option<usize> {
    let named = |place: &usize| user[*place].0.eq_ignore_ascii_case(name);
    let mut places = (0..user.len()).filter(named);
    places.nth((occurrence as usize).checked_sub(1)?)
}

/// A message with the edits applied: the input of the next procedure of a chain, and the result for
/// a caller.
pub fn applied(message: &Message, edits: &[Edit]) -> Message {
    let mut message = message.clone();
    if message.format == Format::Mail {
        message.body = apply(&message.body, edits);
        message.size = message.body.len() as u64;
        return message;
    }
    for edit in edits {
        match edit {
            Edit::ReplaceBody(body) => message.body = body.clone(),
            Edit::SetPayload {
                payload,
                content_type,
            } => {
                message.body = payload.clone();
                if let Some(content_type) = content_type {
                    let properties = message.properties.get_or_insert_default();
                    properties.content_type = Some(content_type.clone());
                }
            }
            field => {
                let properties = message.properties.get_or_insert_default();
                apply_to_properties(&mut properties.user, field);
            }
        }
    }
    // The publisher's description of the payload does not hold for a different payload.
    if let Some(properties) = &mut message.properties
        && std::str::from_utf8(&message.body).is_err()
    {
        properties.payload_is_text = None;
    }
    message.size = message.body.len() as u64;
    message
}

/// The payload that the last [`Edit::SetPayload`] set, with its MIME type.
pub fn payload(edits: &[Edit]) -> Option<(&Bytes, Option<&str>)> {
    edits.iter().rev().find_map(|edit| match edit {
        Edit::SetPayload {
            payload,
            content_type,
        } => Some((payload, content_type.as_deref())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(name: &str, value: &str) -> EditedField {
        EditedField::new(name, value).expect("a field")
    }

    fn edited(mail: &str, edits: &[Edit]) -> String {
        let mail = apply(&Bytes::copy_from_slice(mail.as_bytes()), edits);
        String::from_utf8(mail.to_vec()).expect("text")
    }

    const MAIL: &str = "X-A: one\r\nSubject: hello\r\n there\r\nx-a: two\r\n\r\nbody\r\n";

    #[test]
    fn fields_are_put_in_front_and_behind() {
        let edits = [
            Edit::PrependField(field("X-First", "1")),
            Edit::AppendField(field("X-Last", "9")),
        ];
        assert_eq!(
            edited(MAIL, &edits),
            "X-First: 1\r\nX-A: one\r\nSubject: hello\r\n there\r\nx-a: two\r\nX-Last: 9\r\n\r\n\
             body\r\n"
        );
    }

    #[test]
    fn occurrences_are_counted_as_the_edits_before_left_them() {
        let remove = || Edit::RemoveField {
            name: "X-A".to_owned(),
            occurrence: 1,
        };
        assert_eq!(
            edited(MAIL, &[remove()]),
            "Subject: hello\r\n there\r\nx-a: two\r\n\r\nbody\r\n"
        );
        assert_eq!(
            edited(MAIL, &[remove(), remove(), remove()]),
            "Subject: hello\r\n there\r\n\r\nbody\r\n"
        );
        let second = Edit::ReplaceField {
            field: field("X-A", "second"),
            occurrence: 2,
        };
        assert_eq!(
            edited(MAIL, &[second]),
            "X-A: one\r\nSubject: hello\r\n there\r\nX-A: second\r\n\r\nbody\r\n"
        );
    }

    /// The places are collected after some edits; the result must not depend on it.
    #[test]
    fn many_edits_have_the_same_effect_as_few() {
        let name = |turn: u32| if turn.is_multiple_of(2) { "X-A" } else { "x-b" };
        let additions = (0..60).flat_map(|turn| {
            let field = field(name(turn), &turn.to_string());
            [Edit::PrependField(field.clone()), Edit::AppendField(field)]
        });
        let changes = (0..60).flat_map(|turn| {
            [
                Edit::ReplaceField {
                    field: field("X-A", "replaced"),
                    occurrence: turn % 5 + 1,
                },
                Edit::RemoveField {
                    name: name(turn).to_uppercase(),
                    occurrence: turn % 7 + 1,
                },
            ]
        });
        let edits: Vec<Edit> = additions.chain(changes).collect();
        let whole = edited(MAIL, &edits);
        let one_by_one = edits.iter().fold(MAIL.to_owned(), |mail, edit| {
            edited(&mail, std::slice::from_ref(edit))
        });
        assert_eq!(whole, one_by_one);
        assert!(whole.contains("replaced"), "{whole}");
    }

    #[test]
    fn a_folded_field_is_replaced_whole() {
        let subject = Edit::ReplaceField {
            field: field("Subject", "[spam] hello"),
            occurrence: 1,
        };
        assert_eq!(
            edited(MAIL, &[subject]),
            "X-A: one\r\nSubject: [spam] hello\r\nx-a: two\r\n\r\nbody\r\n"
        );
    }

    #[test]
    fn the_body_is_replaced_and_the_line_ends_stay() {
        let edits = [
            Edit::AppendField(field("X-B", "b")),
            Edit::ReplaceBody("new\n".into()),
        ];
        assert_eq!(edited("A: a\n\nold\n", &edits), "A: a\nX-B: b\n\nnew\n");
        // A mail that consists of a header only, even without a final line end.
        assert_eq!(edited("A: a", &edits), "A: a\r\nX-B: b\r\n\r\nnew\n");
        assert_eq!(edited("", &edits), "X-B: b\r\n\r\nnew\n");
        assert_eq!(edited("\r\nbody", &edits[..1]), "X-B: b\r\n\r\nbody");
    }

    #[test]
    fn the_last_payload_holds_and_changes_no_byte_of_the_mail() {
        let edit = |text: &'static str| Edit::SetPayload {
            payload: text.into(),
            content_type: Some("application/json".to_owned()),
        };
        let edits = [edit("1"), edit("2")];
        assert_eq!(edited(MAIL, &edits), MAIL);
        assert_eq!(
            payload(&edits),
            Some((&Bytes::from("2"), Some("application/json")))
        );
        assert_eq!(payload(&[]), None);
    }

    proptest! {
        #[test]
        fn without_edits_every_byte_stays(mail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mail = Bytes::from(mail);
            prop_assert_eq!(EditableHead::split(&mail).join(), mail);
        }

        #[test]
        fn removing_an_appended_field_restores_the_mail(
            mail in "([A-C]: [a-z ]{0,5}\r\n( [a-z]{1,4}\r\n)?){0,4}\r\n[a-z\r\n]{0,20}",
            value in "\\PC{0,200}",
        ) {
            let mail = Bytes::from(mail);
            let edits = [
                Edit::AppendField(field("X-New", &value)),
                Edit::RemoveField { name: "x-new".to_owned(), occurrence: 1 },
            ];
            prop_assert_eq!(apply(&mail, &edits), mail);
        }

        #[test]
        fn no_value_breaks_out_of_its_field(name in "\\PC{0,6}", value in any::<String>()) {
            let Ok(field) = EditedField::new(&name, &value) else { return Ok(()) };
            let mail = apply(&Bytes::from("\r\nbody"), &[Edit::PrependField(field)]);
            let head = &mail[..mail.len() - "\r\nbody".len()];
            let lines: Vec<&[u8]> = head.split_inclusive(|byte| *byte == b'\n').collect();
            prop_assert!(lines[0].starts_with(name.as_bytes()));
            for line in &lines[1..] {
                prop_assert!(line.starts_with(b" ") || line.starts_with(b"\t"));
                prop_assert!(!line.trim_ascii().is_empty());
            }
        }
    }
}
