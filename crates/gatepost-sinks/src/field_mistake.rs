//! A mistake in the settings of one sink.

/// A mistake below the table of one sink.
pub(crate) struct FieldMistake {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl FieldMistake {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { field, reason }
    }
}
