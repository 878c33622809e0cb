//! The timestamp of a Sparkplug B payload, which is a message of protocol buffers: its field 1, a
//! varint of milliseconds since 1970.
//!
//! Only this field is decoded. The other fields are skipped by their lengths and keep their bytes,
//! their order and their encoding. Groups, which the schema of Sparkplug does not have, count as
//! malformed.

/// The number of the timestamp's field.
const TIMESTAMP: u64 = 1;
/// The tag of the timestamp's field: its number and the wire type of a varint.
const TIMESTAMP_TAG: u8 = 0x08;
/// The longest varint.
const VARINT_BYTES_MAX: usize = 10;
/// The highest number of a field.
const FIELD_MAX: u64 = (1 << 29) - 1;

/// The bytes are no payload of Sparkplug B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no payload of Sparkplug B")]
pub struct MalformedPayload;

/// The payload with this timestamp, in milliseconds since 1970, in place of its own; appended where
/// it has none. All other bytes remain.
pub fn with_timestamp(payload: &[u8], milliseconds: u64) -> Result<Vec<u8>, MalformedPayload> {
    let mut changed = Vec::with_capacity(payload.len() + 1 + VARINT_BYTES_MAX);
    let mut rest = payload;
    let mut is_set = false;
    while !rest.is_empty() {
        let field = Field::first(rest)?;
        if field.number == TIMESTAMP {
            // A field that is repeated has its last value: each of them gets the same.
            changed.extend(&rest[..field.value_at]);
            push_varint(&mut changed, milliseconds);
            is_set = true;
        } else {
            changed.extend(&rest[..field.length]);
        }
        rest = &rest[field.length..];
    }
    if !is_set {
        changed.push(TIMESTAMP_TAG);
        push_varint(&mut changed, milliseconds);
    }
    Ok(changed)
}

/// The place of one field at the beginning of some bytes.
struct Field {
    number: u64,
    /// The end of its tag.
    value_at: usize,
    /// Its whole length, at most that of the bytes.
    length: usize,
}

impl Field {
    fn first(bytes: &[u8]) -> Result<Self, MalformedPayload> {
        let (tag, value_at) = varint(bytes)?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if !(1..=FIELD_MAX).contains(&number) || (number == TIMESTAMP && wire_type != 0) {
            return Err(MalformedPayload);
        }
        let value = &bytes[value_at..];
        let value_length = match wire_type {
            0 => varint(value)?.1,
            1 => 8,
            2 => {
                let (length, length_bytes) = varint(value)?;
                let length = usize::try_from(length).map_err(|_| MalformedPayload)?;
                length.checked_add(length_bytes).ok_or(MalformedPayload)?
            }
            5 => 4,
            _ => return Err(MalformedPayload),
        };
        if value_length > value.len() {
            return Err(MalformedPayload);
        }
        Ok(Self {
            number,
            value_at,
            length: value_at + value_length,
        })
    }
}

/// The number at the beginning of some bytes, and the length of its encoding.
fn varint(bytes: &[u8]) -> Result<(u64, usize), MalformedPayload> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 && byte > 1 {
            return Err(MalformedPayload); // more than 64 bits
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, index + 1));
        }
    }
    Err(MalformedPayload)
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_timestamp_is_replaced_or_appended() {
        let death = b"\x08\x05\x12\x06\x0a\x04bdSe\x18\x00";
        let changed = with_timestamp(death, 300).expect("a payload");
        assert_eq!(changed, b"\x08\xac\x02\x12\x06\x0a\x04bdSe\x18\x00");
        assert_eq!(
            with_timestamp(b"\x18\x07", 1),
            Ok(b"\x18\x07\x08\x01".to_vec())
        );
        assert_eq!(with_timestamp(b"", 0), Ok(b"\x08\x00".to_vec()));
        // In any place, written with more bytes than needed, and more than once.
        let twice = b"\x18\x07\x08\x85\x80\x00\x25abcd\x88\x00\x09";
        let changed = with_timestamp(twice, 1).expect("a payload");
        assert_eq!(changed, b"\x18\x07\x08\x01\x25abcd\x88\x00\x01");
        // A timestamp within a metric belongs to the metric.
        let metric = b"\x12\x02\x08\x05";
        assert_eq!(
            with_timestamp(metric, u64::MAX).expect("a payload"),
            b"\x12\x02\x08\x05\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }

    #[test]
    fn malformed_payloads_are_refused() {
        for bytes in [
            &b"\x08"[..],                                        // no value
            b"\x08\x80",                                         // half a number
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     // more than 64 bits
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", // too long a number
            b"\x0a\x01x",                                        // the timestamp is no number
            b"\x12\x05abcd",                                     // beyond the end
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x",    // far beyond the end
            b"\x11abcdefg",                                      // seven bytes of eight
            b"\x15abc",                                          // three bytes of four
            b"\x13\x14",                                         // a group
            b"\x16\x00",                                         // no wire type
            b"\x00\x00",                                         // no field
            b"\x80\x80\x80\x80\x10\x00",                         // a field beyond the highest
            b"{\"timestamp\":1}",
        ] {
            assert_eq!(with_timestamp(bytes, 1), Err(MalformedPayload), "{bytes:?}");
        }
    }

    /// One field as it is encoded: its number, its wire type and its value.
    fn field() -> impl Strategy<Value = (u64, Vec<u8>)> {
        let number = prop_oneof![Just(1), 2..20_u64, 1..=FIELD_MAX];
        let value = (
            0..4_u64,
            any::<u64>(),
            proptest::collection::vec(any::<u8>(), 0..40),
        );
        (number, value).prop_map(|(number, (kind, integer, bytes))| {
            let wire_type = [0, 1, 2, 5][kind as usize];
            let wire_type = if number == TIMESTAMP { 0 } else { wire_type };
            let mut out = Vec::new();
            push_varint(&mut out, number << 3 | wire_type);
            match wire_type {
                0 => push_varint(&mut out, integer),
                1 => out.extend(integer.to_le_bytes()),
                2 => {
                    push_varint(&mut out, bytes.len() as u64);
                    out.extend(bytes);
                }
                _ => out.extend((integer as u32).to_le_bytes()),
            }
            (number, out)
        })
    }

    proptest! {
        /// The other fields keep their bytes and their order, and each timestamp is the new one.
        #[test]
        fn only_the_timestamp_changes(
            fields in proptest::collection::vec(field(), 0..12),
            time in any::<u64>(),
        ) {
            let payload: Vec<u8> = fields.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut timestamp = vec![TIMESTAMP_TAG];
            push_varint(&mut timestamp, time);
            let mut expected: Vec<u8> = Vec::new();
            for (number, bytes) in &fields {
                expected.extend(if *number == TIMESTAMP { &timestamp } else { bytes });
            }
            if fields.iter().all(|(number, _)| *number != TIMESTAMP) {
                expected.extend(&timestamp);
            }
            prop_assert_eq!(with_timestamp(&payload, time), Ok(expected));
        }

        /// No input causes a panic, and the result of a change is changed like any payload.
        #[test]
        fn a_changed_payload_is_a_payload(bytes: Vec<u8>, first: u64, second: u64) {
            if let Ok(changed) = with_timestamp(&bytes, first) {
                prop_assert!(changed.len() <= bytes.len() + bytes.len() * 5 + 11);
                prop_assert_eq!(with_timestamp(&changed, second), with_timestamp(&bytes, second));
                prop_assert_eq!(with_timestamp(&changed, first), Ok(changed));
            }
        }
    }
}
