//! The answer to a complete message: the changes, then the verdict as the protocol encodes it.
//!
//! A change that the mail server did not offer is omitted: its own settings decide which changes
//! filters may make, and the verdict holds without the header fields.

use gatepost_gateway::StorageFailure;
use gatepost_message::{Action, Edit, EditedField, Verdict};

use super::negotiation::{NegotiatedOptions, action, step};
use super::packet::{self, CHUNK_BYTES_MAX};
use super::substitute::SubstituteField;

/// Longer reasons are cut: a reply line has at most 512 octets (RFC 5321, section 4.5.3.1.5).
const TEXT_BYTES_MAX: usize = 450;

/// Appends "continue", the answer to a step.
pub(super) fn write_continue(output: &mut Vec<u8>) {
    packet::write(output, b'c', &[]);
}

/// Appends "skip": the rest of the body is not needed.
pub(super) fn write_skip(output: &mut Vec<u8>) {
    packet::write(output, b's', &[]);
}

/// Appends "progress": the message is still being judged, so the mail server keeps waiting.
pub(super) fn write_progress(output: &mut Vec<u8>) {
    packet::write(output, b'p', &[]);
}

/// The changes of a message that is passed on.
#[derive(Debug, Default)]
pub(super) struct PassedChanges<'a> {
    /// The edits in order; their positions count a Received field of Gatepost at the top of the
    /// head.
    pub(super) edits: &'a [Edit],
    /// Recipients that do not receive the message, as the mail server wrote them.
    pub(super) without: &'a [String],
}

/// Appends the answer to a message; `held` means that the mail server keeps a quarantined message.
pub(super) fn write(
    output: &mut Vec<u8>,
    agreement: NegotiatedOptions,
    verdict: &Verdict,
    changes: &PassedChanges<'_>,
    held: bool,
) {
    match verdict.action {
        Action::Accept | Action::Tag => write_changes(output, agreement, changes),
        Action::Quarantine if held && agreement.may(action::QUARANTINE) => {
            write_changes(output, agreement, changes);
            let reason = reason(verdict, "quarantined");
            packet::write(output, b'q', &[reason.as_bytes(), &[0]]);
        }
        // Quarantined by Gatepost, or dropped: the sender sees success in both cases.
        Action::Quarantine | Action::Drop => return packet::write(output, b'd', &[]),
        Action::Reject => return write_reply(output, "550 5.7.1", &reason(verdict, "refused")),
        Action::Defer => {
            let reason = reason(verdict, "not now, try again later");
            return write_reply(output, "451 4.7.1", &reason);
        }
    }
    write_continue(output);
}

/// Appends the answer to a message whose copy could not be stored (RFC 3463, section 3.4).
pub(super) fn write_storage_failure(output: &mut Vec<u8>, failure: StorageFailure) {
    let codes = match failure {
        StorageFailure::DiskFull => "452 4.3.1",
        StorageFailure::TooLong => "552 5.3.4",
        StorageFailure::Failed => "451 4.3.0",
    };
    write_reply(output, codes, &failure.to_string());
}

/// A refusal with Gatepost's own text.
pub(super) fn write_reply(output: &mut Vec<u8>, codes: &str, text: &str) {
    // Mail servers undo one doubling of percent signs, as sendmail's library has it.
    let text = text.replace('%', "%%");
    packet::write(
        output,
        b'y',
        &[codes.as_bytes(), b" ", text.as_bytes(), &[0]],
    );
}

fn reason(verdict: &Verdict, otherwise: &str) -> String {
    let reason = match verdict.reason.as_str() {
        "" => otherwise,
        reason => reason,
    };
    let mut text = String::new();
    for character in reason.chars() {
        if text.len() + character.len_utf8() > TEXT_BYTES_MAX {
            break;
        }
        text.push(if character.is_control() {
            ' '
        } else {
            character
        });
    }
    text
}

fn write_changes(output: &mut Vec<u8>, agreement: NegotiatedOptions, changes: &PassedChanges<'_>) {
    let mut substitute = SubstituteField::default();
    for edit in changes.edits {
        match edit {
            Edit::PrependField(field) => {
                substitute.note_insertion(field.name());
                write_insertion(output, agreement, field);
            }
            Edit::AppendField(field) => write_addition(output, agreement, field),
            Edit::ReplaceField { field, occurrence } => {
                match substitute.passed(field.name(), *occurrence) {
                    Some(occurrence) => {
                        let value = spaced(agreement, &value(field));
                        write_change(output, agreement, field.name(), occurrence, &value);
                    }
                    // The mail server has nothing in its place.
                    None => write_insertion(output, agreement, field),
                }
                substitute.note_replacement(field.name(), *occurrence);
            }
            Edit::RemoveField { name, occurrence } => {
                if let Some(occurrence) = substitute.passed(name, *occurrence) {
                    // An empty value removes.
                    write_change(output, agreement, name, occurrence, &[]);
                }
                substitute.note_removal(name, *occurrence);
            }
            Edit::ReplaceBody(body) => write_body(output, agreement, body),
            Edit::SetPayload { .. } => {}
        }
    }
    if agreement.may(action::DELETE_RECIPIENTS) {
        for recipient in changes.without {
            packet::write(output, b'-', &[recipient.as_bytes(), &[0]]);
        }
    }
}

fn write_change(
    output: &mut Vec<u8>,
    agreement: NegotiatedOptions,
    name: &str,
    occurrence: u32,
    value: &[u8],
) {
    if agreement.may(action::CHANGE_HEADERS) {
        let index = occurrence.to_be_bytes();
        packet::write(output, b'm', &[&index, name.as_bytes(), &[0], value, &[0]]);
    }
}

fn write_insertion(output: &mut Vec<u8>, agreement: NegotiatedOptions, field: &EditedField) {
    if agreement.version < 6 {
        // Only later versions can insert a field; with earlier ones it can only be appended.
        return write_addition(output, agreement, field);
    }
    if agreement.may(action::ADD_HEADERS) {
        let top = 0_u32.to_be_bytes();
        let (name, value) = (field.name().as_bytes(), spaced(agreement, &value(field)));
        packet::write(output, b'i', &[&top, name, &[0], &value, &[0]]);
    }
}

fn write_addition(output: &mut Vec<u8>, agreement: NegotiatedOptions, field: &EditedField) {
    if agreement.may(action::ADD_HEADERS) {
        let (name, value) = (field.name().as_bytes(), spaced(agreement, &value(field)));
        packet::write(output, b'h', &[name, &[0], &value, &[0]]);
    }
}

fn write_body(output: &mut Vec<u8>, agreement: NegotiatedOptions, body: &[u8]) {
    if !agreement.may(action::CHANGE_BODY) {
        return;
    }
    if body.is_empty() {
        packet::write(output, b'b', &[]);
    }
    for chunk in body.chunks(CHUNK_BYTES_MAX) {
        packet::write(output, b'b', &[chunk]);
    }
}

/// The value as the protocol encodes it: folded lines end with LF, the last one has no line end.
fn value(field: &EditedField) -> Vec<u8> {
    let whole = field.write(b"\n");
    let value = whole.get(field.name().len() + 1..).unwrap_or_default();
    value.trim_ascii().to_vec()
}

/// Begins the value with a blank where the MTA has agreed that the milter writes leading blanks.
fn spaced(agreement: NegotiatedOptions, value: &[u8]) -> Vec<u8> {
    let space: &[u8] = if agreement.has(step::LEADING_SPACE) {
        b" "
    } else {
        b""
    };
    let value: Vec<u8> = value
        .iter()
        .copied()
        .filter(|&b| b != 0 && b != b'\r')
        .collect();
    [space, &value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    fn agreement(actions: u32, steps: u32) -> NegotiatedOptions {
        let offer = [6, actions, steps].map(u32::to_be_bytes).concat();
        NegotiatedOptions::from_offer(&offer).expect("an offer")
    }

    /// The packets as text, NUL as `|`.
    fn written(
        agreement: NegotiatedOptions,
        verdict: &Verdict,
        changes: &PassedChanges<'_>,
    ) -> Vec<String> {
        let mut output = Vec::new();
        write(&mut output, agreement, verdict, changes, true);
        let mut input = BytesMut::from(&output[..]);
        let mut packets = Vec::new();
        while let Some(packet) = packet::take(&mut input, 1 << 20).expect("well formed") {
            let data = String::from_utf8_lossy(&packet.data).replace('\0', "|");
            packets.push(format!("{}{data}", char::from(packet.command)));
        }
        packets
    }

    #[test]
    fn verdicts_have_their_words() {
        let all = agreement(0x1ff, 0);
        for (action, reason, expected) in [
            (Action::Accept, "", vec!["c"]),
            (
                Action::Reject,
                "100% spam\r\n",
                vec!["y550 5.7.1 100%% spam  |"],
            ),
            (Action::Reject, "", vec!["y550 5.7.1 refused|"]),
            (Action::Defer, "later", vec!["y451 4.7.1 later|"]),
            (Action::Drop, "", vec!["d"]),
            (Action::Quarantine, "odd", vec!["qodd|", "c"]),
        ] {
            let verdict = Verdict::new(action, reason);
            assert_eq!(written(all, &verdict, &PassedChanges::default()), expected);
        }
        let cannot_hold = agreement(0x1, 0);
        let verdict = Verdict::new(Action::Quarantine, "odd");
        assert_eq!(
            written(cannot_hold, &verdict, &PassedChanges::default()),
            ["d"]
        );
    }

    #[test]
    fn changes_come_before_the_verdict() {
        let field = |name: &str, value: &str| EditedField::new(name, value).expect("a field");
        let remove = |name: &str, occurrence| Edit::RemoveField {
            name: name.to_owned(),
            occurrence,
        };
        let edits = [
            remove("X-Spam", 2),
            remove("Received", 1),
            remove("received", 2),
            Edit::ReplaceField {
                field: field("Subject", "new"),
                occurrence: 1,
            },
            Edit::PrependField(field("X-One", "1")),
            Edit::AppendField(field("X-Two", "2")),
            Edit::ReplaceBody("text".into()),
        ];
        let without = ["<a@b>".to_owned()];
        let changes = PassedChanges {
            edits: &edits,
            without: &without,
        };
        let verdict = Verdict::accept();
        assert_eq!(
            written(agreement(0x1ff, 0x10_0000), &verdict, &changes),
            [
                "m|||\u{2}X-Spam||",
                "m|||\u{2}received||",
                "m|||\u{1}Subject| new|",
                "i||||X-One| 1|",
                "hX-Two| 2|",
                "btext",
                "-<a@b>|",
                "c",
            ]
        );
        assert_eq!(written(agreement(0, 0), &verdict, &changes), ["c"]);
    }

    #[test]
    fn the_field_that_stands_for_the_mail_servers_own_is_not_counted() {
        let received = |value: &str| EditedField::new("Received", value).expect("a field");
        let remove = |occurrence| Edit::RemoveField {
            name: "Received".to_owned(),
            occurrence,
        };
        let replace = |occurrence| Edit::ReplaceField {
            field: received("new"),
            occurrence,
        };
        let prepend = || Edit::PrependField(received("first"));
        for (edits, expected) in [
            // All fields of a message that has two of them beside the substitute.
            (
                vec![remove(1), remove(1), remove(1)],
                vec!["m|||\u{1}Received||", "m|||\u{1}Received||", "c"],
            ),
            // One is left of them, with another value.
            (
                vec![remove(2), remove(2), replace(1)],
                vec![
                    "m|||\u{1}Received||",
                    "m|||\u{1}Received||",
                    "i||||Received|new|",
                    "c",
                ],
            ),
            (
                vec![prepend(), remove(1), remove(2), replace(1)],
                vec![
                    "i||||Received|first|",
                    "m|||\u{1}Received||",
                    "m|||\u{1}Received||",
                    "i||||Received|new|",
                    "c",
                ],
            ),
            (vec![remove(3)], vec!["m|||\u{2}Received||", "c"]),
        ] {
            let changes = PassedChanges {
                edits: &edits,
                without: &[],
            };
            let verdict = Verdict::accept();
            let packets = written(agreement(0x1ff, 0), &verdict, &changes);
            assert_eq!(packets, expected, "{edits:?}");
        }
    }
}
