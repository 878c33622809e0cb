//! Encryption of a push message for one browser (RFC 8291), in the content coding `aes128gcm` (RFC
//! 8188): one record, sealed with a key used for this message only.

use ring::aead::{self, AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// A point of P-256 in its uncompressed form.
pub(super) const POINT_BYTES: usize = 65;
/// The secret that the browser shares with the server (RFC 8291, section 3.2).
pub(super) const AUTH_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
/// The size of a record. A push service need not take a larger body (RFC 8030, section 7.2).
const RECORD_BYTES: u32 = 4_096;
/// Salt, record size, length of the key, key (RFC 8188, section 2.1).
const HEADER_BYTES: usize = SALT_BYTES + 4 + 1 + POINT_BYTES;
const TAG_BYTES: usize = 16;
/// Ends the text of the last record (RFC 8188, section 2).
const LAST_RECORD: u8 = 2;
/// The longest text.
pub(super) const TEXT_BYTES_MAX: usize = RECORD_BYTES as usize - HEADER_BYTES - TAG_BYTES - 1;

/// The keys of a subscription, as its browser made them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BrowserKeys {
    pub(super) public: [u8; POINT_BYTES],
    pub(super) auth: [u8; AUTH_BYTES],
}

impl BrowserKeys {
    /// Whether a message can be encrypted for these keys: the point may not be on the curve.
    pub(super) fn are_usable(&self) -> bool {
        self.encrypt(b"").is_ok()
    }

    /// The body of a request that carries `text`, of at most [`TEXT_BYTES_MAX`].
    pub(super) fn encrypt(&self, text: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let random = SystemRandom::new();
        let own = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
        let own_public = own.compute_public_key()?;
        let own_public = own_public.as_ref().try_into().map_err(|_| Unspecified)?;
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt)?;
        let theirs = UnparsedPublicKey::new(&ECDH_P256, &self.public);
        agree_ephemeral(own, &theirs, |shared| {
            self.seal(shared, &own_public, salt, text)
        })?
    }

    /// Seals one record (RFC 8291, section 3.4).
    fn seal(
        &self,
        shared: &[u8],
        own_public: &[u8; POINT_BYTES],
        salt: [u8; SALT_BYTES],
        text: &[u8],
    ) -> Result<Vec<u8>, Unspecified> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Unspecified);
        }
        let combined = Salt::new(HKDF_SHA256, &self.auth).extract(shared);
        let info = [b"WebPush: info\0", &self.public[..], own_public];
        let input: [u8; 32] = derived(&combined, &info)?;
        let keys = Salt::new(HKDF_SHA256, &salt).extract(&input);
        let key: [u8; 16] = derived(&keys, &[b"Content-Encoding: aes128gcm\0"])?;
        // The first record's nonce is not changed by its number, which is 0.
        let nonce: [u8; aead::NONCE_LEN] = derived(&keys, &[b"Content-Encoding: nonce\0"])?;
        let mut sealed = [text, &[LAST_RECORD]].concat();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed)?;
        let length = [POINT_BYTES as u8];
        let record_bytes = RECORD_BYTES.to_be_bytes();
        Ok([&salt[..], &record_bytes, &length, own_public, &sealed].concat())
    }
}

/// Derives `N` bytes of key material for one purpose.
fn derived<const N: usize>(from: &Prk, info: &[&[u8]]) -> Result<[u8; N], Unspecified> {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut bytes = [0; N];
    from.expand(info, Length(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

    fn bytes(text: &str) -> Vec<u8> {
        BASE64.decode(text).expect("base64")
    }

    fn browser() -> BrowserKeys {
        let public = bytes(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkN\
             toIAiw4",
        );
        BrowserKeys {
            public: public.try_into().expect("a point"),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg")
                .try_into()
                .expect("a secret"),
        }
    }

    /// RFC 8291, section 5 and appendix A, from the shared secret on.
    #[test]
    fn the_example_of_the_rfc_is_encrypted_as_there() {
        let own_public = bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
             u3jl7A8",
        );
        let body = browser().seal(
            &bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            &own_public.try_into().expect("a point"),
            bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().expect("a salt"),
            b"When I grow up, I want to be a watermelon",
        );
        assert_eq!(
            BASE64.encode(body.expect("sealed")),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc\
             InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLV\
             WGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn a_message_fills_one_record_and_no_two_encryptions_are_equal() {
        let text = [b'x'; TEXT_BYTES_MAX];
        let first = browser().encrypt(&text).expect("sealed");
        assert_eq!(first.len(), RECORD_BYTES as usize);
        assert_ne!(first, browser().encrypt(&text).expect("sealed"));
        assert!(browser().encrypt(&[0; TEXT_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn points_off_the_curve_are_found() {
        assert!(browser().are_usable());
        for change in [(0, 3), (64, 7)] {
            let mut keys = browser();
            keys.public[change.0] ^= change.1;
            assert!(!keys.are_usable());
        }
    }
}
