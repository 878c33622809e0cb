//! The number in one field of a payload.

use serde_json::Value;

/// Larger payloads are not searched for a value: a sensor's reading is short.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// The place of a number in a JSON payload.
#[derive(Debug)]
pub(crate) struct PayloadField {
    /// RFC 6901; empty for the payload itself.
    pointer: String,
}

impl PayloadField {
    /// The place that a dotted path such as `readings.0.value` names.
    pub(crate) fn new(field: &str) -> Self {
        let mut pointer = String::new();
        for level in field.split('.').filter(|_| !field.is_empty()) {
            pointer.push('/');
            pointer.push_str(&level.replace('~', "~0").replace('/', "~1"));
        }
        Self { pointer }
    }

    /// The number in that field. A string that contains a number counts as one, and `true` and
    /// `false` count as 1 and 0.
    pub(crate) fn of(&self, payload: &[u8]) -> Option<f64> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return None;
        }
        let document: Value = serde_json::from_slice(payload).ok()?;
        let number = match document.pointer(&self.pointer)? {
            Value::Number(number) => number.as_f64()?,
            Value::String(text) => text.trim().parse().ok()?,
            Value::Bool(is_true) => f64::from(u8::from(*is_true)),
            _ => return None,
        };
        number.is_finite().then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_their_place() {
        for (field, payload, expected) in [
            ("", "21.5", Some(21.5)),
            ("", "\" 21.5 \"", Some(21.5)),
            ("", "{\"value\":1}", None),
            ("value", "21.5", None),
            ("value", "{\"value\":-3}", Some(-3.0)),
            ("a.b", "{\"a\":{\"b\":true}}", Some(1.0)),
            ("readings.1", "{\"readings\":[1,2]}", Some(2.0)),
            ("readings.2", "{\"readings\":[1,2]}", None),
            ("m/s", "{\"m/s\":4}", Some(4.0)),
            ("value", "{\"value\":\"NaN\"}", None),
            ("value", "{\"value\":\"inf\"}", None),
            ("value", "{\"value\":1e999}", None),
            ("value", "{\"value\":null}", None),
            ("value", "{\"value\":", None),
            ("", "", None),
        ] {
            assert_eq!(
                PayloadField::new(field).of(payload.as_bytes()),
                expected,
                "{field} {payload}"
            );
        }
        let deep = "[".repeat(60_000);
        assert_eq!(PayloadField::new("").of(deep.as_bytes()), None);
        assert_eq!(
            PayloadField::new("").of(" 1".repeat(40_000).as_bytes()),
            None
        );
    }
}
