//! The `Received` field that stands for the mail server's own.
//!
//! A mail server sends every field but the one that it has added itself, so a substitute is judged
//! with the message. Edits count it among the fields of its name; the mail server does not have it.

const NAME: &str = "Received";

/// The place of the substitute among the `Received` fields, as the edits so far have left them;
/// `None` once it is removed. The topmost field has the number 1.
pub(super) struct SubstituteField(Option<u32>);

impl Default for SubstituteField {
    fn default() -> Self {
        Self(Some(1))
    }
}

impl SubstituteField {
    /// The place of a field as the mail server counts; `None` for the substitute.
    pub(super) fn passed(&self, name: &str, occurrence: u32) -> Option<u32> {
        match self.0.filter(|_| is_received(name)) {
            Some(own) if occurrence == own => None,
            Some(own) if occurrence > own => Some(occurrence - 1),
            _ => Some(occurrence),
        }
    }

    /// A field was inserted above all others.
    pub(super) fn note_insertion(&mut self, name: &str) {
        if is_received(name) {
            self.0 = self.0.map(|own| own.saturating_add(1));
        }
    }

    /// A field was replaced.
    pub(super) fn note_replacement(&mut self, name: &str, occurrence: u32) {
        if is_received(name) {
            self.0 = self.0.filter(|own| *own != occurrence);
        }
    }

    /// A field was removed.
    pub(super) fn note_removal(&mut self, name: &str, occurrence: u32) {
        self.note_replacement(name, occurrence);
        if is_received(name) {
            self.0 = self.0.map(|own| own - u32::from(occurrence < own));
        }
    }
}

fn is_received(name: &str) -> bool {
    name.eq_ignore_ascii_case(NAME)
}
