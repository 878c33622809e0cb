//! The header fields that a rule examines: `From:addr`, `Received:raw`, `ALL`.

/// A field name with modifiers, as written after `header NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderSelector {
    /// The name without modifiers, in its original case.
    pub name: String,
    /// `:raw`: the original text, neither decoded nor unfolded.
    pub(crate) raw: bool,
    /// The part of each field.
    pub(crate) part: FieldPart,
    /// The choice among several fields with this name.
    pub(crate) which: FieldChoice,
    /// The part of that value.
    pub(crate) inner: InnerPart,
}

/// The part of a field that a rule examines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum FieldPart {
    /// The whole value.
    #[default]
    Whole,
    /// `:addr`: its addresses.
    Address,
    /// `:name`: its display names.
    Name,
}

/// The choice of a rule among several fields with one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum FieldChoice {
    /// All fields.
    #[default]
    All,
    /// `:first`: the topmost.
    First,
    /// `:last`: the bottommost.
    Last,
}

/// The part of a field's value or address that a rule examines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum InnerPart {
    /// The whole value.
    #[default]
    Whole,
    /// `:host`: the first full host name.
    Host,
    /// `:domain`: the registered domain of that host.
    Domain,
    /// `:ip`: the first IP address.
    Ip,
    /// `:revip`: that address in the reverse notation of DNS lists.
    ReverseIp,
}

impl HeaderSelector {
    /// Parses a name with modifiers. Unknown modifiers are ignored, as in SpamAssassin.
    pub fn parse(text: &str) -> Self {
        let mut pieces = text.split(':');
        let mut selector = Self {
            name: pieces.next().unwrap_or_default().to_owned(),
            raw: false,
            part: FieldPart::default(),
            which: FieldChoice::default(),
            inner: InnerPart::default(),
        };
        for modifier in pieces {
            match modifier {
                "raw" => selector.raw = true,
                "addr" => selector.part = FieldPart::Address,
                "name" if selector.part == FieldPart::Whole => selector.part = FieldPart::Name,
                "first" => selector.which = FieldChoice::First,
                "last" if selector.which == FieldChoice::All => selector.which = FieldChoice::Last,
                "host" if selector.inner != InnerPart::Domain => selector.inner = InnerPart::Host,
                "domain" => selector.inner = InnerPart::Domain,
                "ip" if selector.inner == InnerPart::Whole => selector.inner = InnerPart::Ip,
                "revip" if selector.inner == InnerPart::Whole => {
                    selector.inner = InnerPart::ReverseIp;
                }
                _ => {}
            }
        }
        selector
    }
}
