//! Macros: values that the mail server sends beside its packets, such as the login and its own id
//! of the message. A value holds until the next one for the same macro.

use bytes::Bytes;

use super::packet;

/// Macros beyond these are not kept: no mail server sends so many.
const MACROS_MAX: usize = 256;
const MACRO_BYTES_MAX: usize = 4_096;

/// Names and values, as they were sent.
#[derive(Debug, Default)]
pub(super) struct Macros(Vec<(Bytes, Bytes)>);

impl Macros {
    /// Adds the macros of a packet: the step that they belong to, then names and values in turn.
    pub(super) fn take(&mut self, data: &Bytes) {
        let Some(pairs) = data.get(1..) else { return };
        let mut strings = packet::strings(pairs);
        while let (Some(name), Some(value)) = (strings.next(), strings.next()) {
            if name.len() + value.len() > MACRO_BYTES_MAX {
                continue;
            }
            let value = Bytes::copy_from_slice(value);
            if let Some(known) = self.0.iter_mut().find(|known| known.0 == name) {
                known.1 = value;
            } else if self.0.len() < MACROS_MAX {
                self.0.push((Bytes::copy_from_slice(name), value));
            }
        }
    }

    /// The value of a macro that was sent and is not empty.
    pub(super) fn value_of(&self, name: &str) -> Option<String> {
        let bare = name.trim_matches(['{', '}']);
        let (_, value) = self.0.iter().find(|(known, _)| {
            // One-letter names come without braces, but some mail servers write them with braces.
            known == name || known.strip_prefix(b"{") == Some(format!("{bare}}}").as_bytes())
        })?;
        (!value.is_empty()).then(|| packet::text(value))
    }

    /// Drops the macros of an earlier message.
    pub(super) fn forget_message(&mut self) {
        self.0
            .retain(|(name, _)| name != "i" && name != "{auth_authen}");
    }
}
