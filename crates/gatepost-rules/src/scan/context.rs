//! The facts about a message that the caller of a scan knows: user and envelope sender.

/// Optional facts about a message that the caller knows in addition to its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanContext<'a> {
    /// The user for which the message is judged, as in spamd's `User` header.
    pub user: Option<&'a str>,
    /// The envelope sender, if the caller knows it; empty for a bounce. Otherwise it is taken from
    /// the header, as SpamAssassin does.
    pub envelope_sender: Option<&'a str>,
    /// Report the matched text of each hit ([`crate::Hit::matched`]). Costs a little.
    pub explain: bool,
}
