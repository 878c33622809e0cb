//! The mechanisms of AUTH (RFC 4954) that a next hop offers.

/// The mechanisms that a next hop offers, of those that we know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LoginMechanisms {
    pub(super) scram: bool,
    pub(super) plain: bool,
    pub(super) login: bool,
}

impl LoginMechanisms {
    /// Reads the parameters of AUTH, in capitals.
    pub(super) fn among<'w>(words: impl Iterator<Item = &'w str>) -> Self {
        let mut known = Self::default();
        for word in words {
            match word {
                "SCRAM-SHA-256" => known.scram = true,
                "PLAIN" => known.plain = true,
                "LOGIN" => known.login = true,
                _ => {}
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_mechanisms_are_passed_over() {
        let offered = LoginMechanisms::among("CRAM-MD5 LOGIN XOAUTH2".split(' '));
        let expected = LoginMechanisms {
            login: true,
            ..LoginMechanisms::default()
        };
        assert_eq!(offered, expected);
    }
}
