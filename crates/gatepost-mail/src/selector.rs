//! Which fields of the head a rule is about: `From:addr`, `Received:raw`, `ALL`.

/// A field name of a rule with its modifiers, as written after `header NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderSelector {
    /// The name without modifiers, in the case it was written in.
    pub name: String,
    /// `:raw`: as it came, neither decoded nor unfolded.
    pub(crate) raw: bool,
    /// What of each field is taken.
    pub(crate) part: FieldPart,
    /// Which of several fields of that name are taken.
    pub(crate) which: WhichFields,
    /// What is taken of that again.
    pub(crate) inner: InnerPart,
}

/// What of a field is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum FieldPart {
    /// All of it.
    #[default]
    Whole,
    /// `:addr`: the addresses in it.
    Address,
    /// `:name`: the display names in it.
    Name,
}

/// Which of several fields of one name are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum WhichFields {
    /// All of them.
    #[default]
    All,
    /// `:first`: the topmost.
    First,
    /// `:last`: the lowest.
    Last,
}

/// What is taken of a field's value or address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum InnerPart {
    /// All of it.
    #[default]
    Whole,
    /// `:host`: the first full host name.
    Host,
    /// `:domain`: the registered domain of that host.
    Domain,
    /// `:ip`: the first IP address.
    Ip,
    /// `:revip`: that address in the reverse order DNS lists use.
    ReverseIp,
}

impl HeaderSelector {
    /// Reads a name with modifiers. Unknown modifiers are dropped, as SpamAssassin drops them.
    pub fn parse(text: &str) -> Self {
        let mut pieces = text.split(':');
        let mut selector = Self {
            name: pieces.next().unwrap_or_default().to_owned(),
            raw: false,
            part: FieldPart::default(),
            which: WhichFields::default(),
            inner: InnerPart::default(),
        };
        for modifier in pieces {
            match modifier {
                "raw" => selector.raw = true,
                "addr" => selector.part = FieldPart::Address,
                "name" if selector.part == FieldPart::Whole => selector.part = FieldPart::Name,
                "first" => selector.which = WhichFields::First,
                "last" if selector.which == WhichFields::All => selector.which = WhichFields::Last,
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
