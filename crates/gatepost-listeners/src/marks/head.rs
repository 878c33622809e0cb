//! The head of a mail as bytes: its fields where they lie, and changes to them.
//!
//! Nothing is decoded and nothing is reordered: what no change names keeps its bytes, since
//! signatures (RFC 6376) stand on them.

use memchr::memchr;

/// One field as it stands in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// Without the colon and blanks before it.
    pub(crate) name: &'a [u8],
    /// What follows the colon, with the line end of its last line.
    pub(crate) value: &'a [u8],
    /// Both, as they stand.
    whole: &'a [u8],
}

impl Field<'_> {
    /// Names differ by more than case.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// One change of a head. Occurrences count from 1 among the fields of one name, in the head as it
/// was before any change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Takes a field away.
    Remove { name: String, occurrence: u32 },
    /// Gives a field another value, without blank in front and line end behind.
    Replace {
        name: String,
        occurrence: u32,
        value: Vec<u8>,
    },
    /// Puts a field in front of the head; of several the first stands topmost. The lines of a
    /// folded value are separated by LF.
    Insert { name: String, value: Vec<u8> },
}

/// The fields of a message's head, and the rest: the empty line and the body. A line that is no
/// field ends the head as well.
pub(crate) fn split(message: &[u8]) -> (Vec<Field<'_>>, &[u8]) {
    let mut fields = Vec::new();
    let mut rest = message;
    while let Some(field) = first_field(rest) {
        rest = rest.get(field.whole.len()..).unwrap_or_default();
        fields.push(field);
    }
    (fields, rest)
}

fn first_field(head: &[u8]) -> Option<Field<'_>> {
    let colon = memchr(b':', head)?;
    let name = head.get(..colon)?.trim_ascii_end();
    // RFC 5322 § 2.2: printable characters other than the colon.
    if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let mut end = colon;
    loop {
        end = memchr(b'\n', head.get(end..)?).map_or(head.len(), |at| end + at + 1);
        if !matches!(head.get(end), Some(b' ' | b'\t')) {
            break;
        }
    }
    Some(Field {
        name,
        value: head.get(colon + 1..end)?,
        whole: head.get(..end)?,
    })
}

/// The message with the changes made.
pub(crate) fn apply(message: &[u8], changes: &[Change]) -> Vec<u8> {
    let (fields, rest) = split(message);
    let mut changed = Vec::with_capacity(message.len() + 512);
    for change in changes {
        if let Change::Insert { name, value } = change {
            write_field(&mut changed, name.as_bytes(), value);
        }
    }
    for (place, field) in fields.iter().enumerate() {
        let before = fields.get(..place).unwrap_or_default();
        let same = |other: &&Field<'_>| other.name.eq_ignore_ascii_case(field.name);
        let number = before.iter().filter(same).count() as u32 + 1;
        let fits = |name: &str, occurrence: u32| occurrence == number && field.is(name);
        let change = changes.iter().find(|change| match change {
            Change::Remove { name, occurrence }
            | Change::Replace {
                name, occurrence, ..
            } => fits(name, *occurrence),
            Change::Insert { .. } => false,
        });
        match change {
            Some(Change::Replace { value, .. }) => write_field(&mut changed, field.name, value),
            Some(_) => {}
            None => changed.extend_from_slice(field.whole),
        }
    }
    changed.extend_from_slice(rest);
    changed
}

fn write_field(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    head.extend_from_slice(name);
    head.extend_from_slice(b": ");
    for line in value.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                head.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                head.extend_from_slice(b"\r\n");
            }
            None => head.extend_from_slice(line),
        }
    }
    head.extend_from_slice(b"\r\n");
}

/// The changes that turn the head `before` into `after`, both as [`split`] gives them: fields
/// that stand in both, in order, stay.
pub(crate) fn difference(before: &[Field<'_>], after: &[Field<'_>]) -> Vec<Change> {
    let mut changes = Vec::new();
    // What a procedure adds stands in front; what follows is the old head, less what it removed.
    let mut kept = vec![false; before.len()];
    let mut added = Vec::new();
    let mut from = 0;
    for field in after {
        let found = before
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, old)| old.whole == field.whole);
        if let Some((place, _)) = found {
            kept.iter_mut()
                .skip(place)
                .take(1)
                .for_each(|it| *it = true);
            from = place + 1;
        } else {
            added.push(*field);
        }
    }
    for (place, (field, kept)) in before.iter().zip(&kept).enumerate() {
        if *kept {
            continue;
        }
        let before = before.get(..place).unwrap_or_default();
        let same = |other: &&Field<'_>| other.name.eq_ignore_ascii_case(field.name);
        let name = String::from_utf8_lossy(field.name).into_owned();
        let occurrence = before.iter().filter(same).count() as u32 + 1;
        // One of the same name that is new takes the old one's place.
        let successor = added.iter().position(|new| new.is(&name));
        changes.push(match successor.map(|at| added.remove(at)) {
            Some(new) => Change::Replace {
                name,
                occurrence,
                value: new.value.trim_ascii().to_vec(),
            },
            None => Change::Remove { name, occurrence },
        });
    }
    changes.extend(added.into_iter().map(|field| Change::Insert {
        name: String::from_utf8_lossy(field.name).into_owned(),
        value: field.value.trim_ascii().to_vec(),
    }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAIL: &[u8] =
        b"Received: a\r\n\tb\r\nSubject: x\r\nX-Spam-Flag: NO\r\nx-spam-flag : no\r\n\r\nbody: y\r\n";

    fn remove(name: &str, occurrence: u32) -> Change {
        Change::Remove {
            name: name.to_owned(),
            occurrence,
        }
    }

    #[test]
    fn a_head_ends_at_the_empty_line_or_at_no_field() {
        let (fields, rest) = split(MAIL);
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        let expected: [&[u8]; 4] = [b"Received", b"Subject", b"X-Spam-Flag", b"x-spam-flag"];
        assert_eq!(names, expected);
        assert_eq!(fields[0].value, b" a\r\n\tb\r\n");
        assert_eq!(rest, b"\r\nbody: y\r\n");
        assert_eq!(split(b"no field\r\nA: b\r\n").0, []);
        assert_eq!(split(b"A: b").0.len(), 1);
        assert_eq!(split(b""), (Vec::new(), &b""[..]));
    }

    #[test]
    fn changes_are_made_where_they_belong() {
        let changes = [
            remove("X-Spam-Flag", 2),
            Change::Replace {
                name: "subject".to_owned(),
                occurrence: 1,
                value: b"[SPAM] x".to_vec(),
            },
            Change::Insert {
                name: "X-One".to_owned(),
                value: b"1\n\t2".to_vec(),
            },
            Change::Insert {
                name: "X-Two".to_owned(),
                value: b"2".to_vec(),
            },
        ];
        let expected = "X-One: 1\r\n\t2\r\nX-Two: 2\r\nReceived: a\r\n\tb\r\nSubject: [SPAM] x\r\n\
            X-Spam-Flag: NO\r\n\r\nbody: y\r\n";
        assert_eq!(String::from_utf8_lossy(&apply(MAIL, &changes)), expected);
    }

    #[test]
    fn a_difference_is_found_field_by_field() {
        let after = b"X-New: 1\r\nReceived: a\r\n\tb\r\nSubject: z\r\nx-spam-flag : no\r\n\r\n";
        let changes = difference(&split(MAIL).0, &split(after).0);
        let expected = [
            Change::Replace {
                name: "Subject".to_owned(),
                occurrence: 1,
                value: b"z".to_vec(),
            },
            remove("X-Spam-Flag", 1),
            Change::Insert {
                name: "X-New".to_owned(),
                value: b"1".to_vec(),
            },
        ];
        assert_eq!(changes, expected);
    }

    proptest! {
        #[test]
        fn without_changes_every_byte_stays(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(apply(&message, &[]), message);
        }

        #[test]
        fn a_difference_leads_from_one_head_to_fields_of_the_other(
            before in "(A: [a-c]\r\n|B: [a-c]\r\n){0,6}",
            after in "(A: [a-c]\r\n|B: [a-c]\r\n){0,6}",
        ) {
            let changes = difference(&split(before.as_bytes()).0, &split(after.as_bytes()).0);
            let changed = apply(before.as_bytes(), &changes);
            let sorted = |head: &[u8]| {
                let mut fields: Vec<Vec<u8>> = split(head).0.iter().map(|f| f.whole.to_vec()).collect();
                fields.sort();
                fields
            };
            prop_assert_eq!(sorted(&changed), sorted(after.as_bytes()));
        }
    }
}
