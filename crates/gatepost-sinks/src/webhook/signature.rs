//! The signature of a request: Standard Webhooks' header fields, and the HMAC of the body alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;

/// The prefix of a secret that is written in base64.
const BASE64_PREFIX: &str = "whsec_";

/// The keys of a webhook. The first is the newest.
#[derive(Clone, Default)]
pub(super) struct WebhookSigner(Vec<hmac::Key>);

/// A line of the file that is not a secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MalformedSecret {
    #[error("the file contains no secret; write one in each line")]
    None,
    #[error("what follows whsec_ is not base64")]
    Base64,
}

impl WebhookSigner {
    /// Reads secrets, one in each line.
    pub(super) fn new(text: &str) -> Result<Self, MalformedSecret> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(MalformedSecret::None);
        }
        Ok(Self(keys))
    }

    /// `webhook-signature`: a signature by each key; `None` if there is no key.
    pub(super) fn standard(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let signed = self.0.iter().map(|key| {
            let mut context = hmac::Context::with_key(key);
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                context.update(part);
            }
            format!("v1,{}", BASE64.encode(context.sign()))
        });
        let signed: Vec<String> = signed.collect();
        (!signed.is_empty()).then(|| signed.join(" "))
    }

    /// `sha256=` and the HMAC of the body by the first key.
    pub(super) fn of_body(&self, body: &[u8]) -> Option<String> {
        use std::fmt::Write as _;
        let tag = hmac::sign(self.0.first()?, body);
        let mut text = "sha256=".to_owned();
        for byte in tag.as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        Some(text)
    }
}

fn key(secret: &str) -> Result<hmac::Key, MalformedSecret> {
    let bytes = match secret.strip_prefix(BASE64_PREFIX) {
        Some(encoded) => BASE64
            .decode(encoded)
            .map_err(|_| MalformedSecret::Base64)?,
        None => secret.as_bytes().to_vec(),
    };
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Standard Webhooks' libraries.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let signer =
            WebhookSigner::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("a secret");
        let signature = signer.standard(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(
            signature.as_deref(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    /// GitHub's example of `X-Hub-Signature-256`.
    #[test]
    fn the_hmac_of_the_body_is_githubs() {
        let signer = WebhookSigner::new("It's a Secret to Everybody").expect("a secret");
        assert_eq!(
            signer.of_body(b"Hello, World!").as_deref(),
            Some("sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
        );
    }

    #[test]
    fn two_secrets_sign_twice_and_none_is_an_error() {
        let signer = WebhookSigner::new("one\n\ntwo\n").expect("secrets");
        let signature = signer.standard("a", "1", b"").expect("signed");
        assert_eq!(signature.split(' ').count(), 2);
        assert_eq!(WebhookSigner::new(" \n").err(), Some(MalformedSecret::None));
        assert_eq!(
            WebhookSigner::new("whsec_%").err(),
            Some(MalformedSecret::Base64)
        );
        assert_eq!(WebhookSigner::default().standard("a", "1", b""), None);
    }
}
