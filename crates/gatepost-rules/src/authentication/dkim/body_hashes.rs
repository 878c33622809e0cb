//! The hashes of a body that signatures contain, each computed once.

use super::algorithm::Algorithm;
use super::canonical::Canonicalization;

/// The text of a hash, in a canonical form and up to a length, and the name of its method.
type HashKind = (Canonicalization, Option<usize>, &'static str);

/// The hashes of one body so far. Signatures of the same kind share one: a message of many
/// signatures has its body hashed once or twice.
pub(crate) struct BodyHashes<'m> {
    body: &'m [u8],
    /// `None` if the body is shorter than the length.
    known: Vec<(HashKind, Option<Vec<u8>>)>,
}

impl<'m> BodyHashes<'m> {
    pub(crate) const fn of(body: &'m [u8]) -> Self {
        Self {
            body,
            known: Vec::new(),
        }
    }

    /// The hash of the canonical body up to `length`; `None` if the body is shorter.
    pub(super) fn hash(
        &mut self,
        form: Canonicalization,
        length: Option<usize>,
        algorithm: Algorithm,
    ) -> Option<&[u8]> {
        let kind = (form, length, algorithm.hash_name());
        let place = self.known.iter().position(|(known, _)| *known == kind);
        let place = place.unwrap_or_else(|| {
            let body = form.body(self.body);
            let signed = match length {
                None => Some(&body[..]),
                Some(length) => body.get(..length),
            };
            self.known
                .push((kind, signed.map(|signed| algorithm.hash(signed))));
            self.known.len() - 1
        });
        self.known.get(place)?.1.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_hashed_once() {
        let mut hashes = BodyHashes::of(b"a  b\r\n");
        let (simple, relaxed) = (Canonicalization::Simple, Canonicalization::Relaxed);
        let whole = hashes.hash(simple, None, Algorithm::RsaSha256);
        assert_eq!(whole, Some(&Algorithm::RsaSha256.hash(b"a  b\r\n")[..]));
        // Both algorithms sign the same hash.
        hashes.hash(simple, None, Algorithm::Ed25519Sha256);
        assert_eq!(hashes.known.len(), 1);
        let part = hashes.hash(relaxed, Some(3), Algorithm::RsaSha1);
        assert_eq!(part, Some(&Algorithm::RsaSha1.hash(b"a b")[..]));
        assert_eq!(hashes.hash(relaxed, Some(6), Algorithm::RsaSha1), None);
        assert_eq!(hashes.known.len(), 3);
    }
}
