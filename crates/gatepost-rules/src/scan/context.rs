//! What is known of a message besides its bytes.

/// What a caller knows of a message besides its bytes; all of it optional.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanContext<'a> {
    /// The user for whom it is judged, as spamd's `User` header names him.
    pub user: Option<&'a str>,
    /// The envelope's sender, where whoever received the message knows it; empty for a bounce.
    /// Otherwise the head is searched for it, as SpamAssassin does.
    pub envelope_sender: Option<&'a str>,
    /// Note for each hit the text that matched ([`crate::Hit::matched`]). Costs a little.
    pub explain: bool,
}
