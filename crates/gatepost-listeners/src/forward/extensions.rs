//! The extensions of a next hop, from its reply to EHLO or LHLO.

use super::login_mechanisms::LoginMechanisms;
use super::reply::HopReply;

/// The extensions that the next hop offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is one keyword of EHLO
pub(super) struct HopExtensions {
    pub(super) size: bool,
    pub(super) eight_bit: bool,
    pub(super) utf8: bool,
    pub(super) dsn: bool,
    pub(super) chunking: bool,
    pub(super) binary: bool,
    pub(super) starttls: bool,
    /// XFORWARD with NAME, ADDR, PROTO and HELO.
    pub(super) xforward: bool,
    /// The mechanisms of AUTH that we know.
    pub(super) logins: LoginMechanisms,
}

impl HopExtensions {
    pub(super) fn read(hello: &HopReply) -> Self {
        let mut offers = Self::default();
        for line in hello.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split(' ');
            match words.next().unwrap_or_default() {
                "SIZE" => offers.size = true,
                "8BITMIME" => offers.eight_bit = true,
                "SMTPUTF8" => offers.utf8 = true,
                "DSN" => offers.dsn = true,
                "CHUNKING" => offers.chunking = true,
                "BINARYMIME" => offers.binary = true,
                "STARTTLS" => offers.starttls = true,
                "AUTH" => offers.logins = LoginMechanisms::among(words),
                "XFORWARD" => {
                    let names: Vec<&str> = words.collect();
                    let wanted = ["NAME", "ADDR", "PROTO", "HELO"];
                    offers.xforward = wanted.iter().all(|name| names.contains(name));
                }
                _ => {}
            }
        }
        offers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_read_in_any_case() {
        let reply = HopReply {
            code: 250,
            lines: [
                "DSN mx",
                "size 100",
                "8BITMIME",
                "XFORWARD NAME ADDR PROTO HELO SOURCE",
                "CHUNKING",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        let expected = HopExtensions {
            size: true,
            eight_bit: true,
            chunking: true,
            xforward: true,
            ..HopExtensions::default()
        };
        assert_eq!(HopExtensions::read(&reply), expected);
    }
}
