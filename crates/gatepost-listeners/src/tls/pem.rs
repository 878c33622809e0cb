//! PEM files (RFC 7468), read with line numbers, so that an error names the line of the mistake.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::TlsError;

/// A larger file is not a certificate or key.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// One `-----BEGIN LABEL-----` … `-----END LABEL-----`.
struct PemSection {
    label: String,
    /// The line that it begins in, from 1.
    line: usize,
    der: Vec<u8>,
}

/// The certificates of a file, in its order.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let sections = read(file)?;
    let holds_key = sections
        .iter()
        .any(|section| section.label.ends_with("PRIVATE KEY"));
    let certificates: Vec<_> = sections
        .into_iter()
        .filter(|section| section.label == "CERTIFICATE")
        .map(|section| CertificateDer::from(section.der))
        .collect();
    match (certificates.is_empty(), holds_key) {
        (false, _) => Ok(certificates),
        (true, true) => Err(TlsError::file(
            file,
            0,
            "this is a private key, not a certificate; fix: see whether cert and key are swapped",
        )),
        (true, false) => Err(TlsError::file(
            file,
            0,
            "there is no certificate in it; fix: give a file with -----BEGIN CERTIFICATE-----",
        )),
    }
}

/// The first private key of a file.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let mut holds_certificate = false;
    for section in read(file)? {
        match section.label.as_str() {
            "PRIVATE KEY" => return Ok(PrivateKeyDer::Pkcs8(section.der.into())),
            "RSA PRIVATE KEY" => return Ok(PrivateKeyDer::Pkcs1(section.der.into())),
            "EC PRIVATE KEY" => return Ok(PrivateKeyDer::Sec1(section.der.into())),
            "ENCRYPTED PRIVATE KEY" => {
                let reason = "the key is encrypted, and a server cannot ask for its password; \
                              fix: openssl pkey -in ENCRYPTED -out KEY";
                return Err(TlsError::file(file, section.line, reason));
            }
            label => holds_certificate |= label == "CERTIFICATE",
        }
    }
    let reason = if holds_certificate {
        "this is a certificate, not a key; fix: see whether cert and key are swapped"
    } else {
        "there is no private key in it; fix: give a file with -----BEGIN PRIVATE KEY-----"
    };
    Err(TlsError::file(file, 0, reason))
}

fn read(file: &Path) -> Result<Vec<PemSection>, TlsError> {
    let whole = |reason: String| TlsError::file(file, 0, reason);
    if file.as_os_str().is_empty() {
        return Err(TlsError::Setting(
            "tls.cert and tls.key go together; fix: set both",
        ));
    }
    let metadata = std::fs::metadata(file).map_err(|error| whole(error.to_string()))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(whole("the file is too large for certificates".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|error| whole(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        whole("this is not a PEM file; fix: openssl x509 -inform DER -in FILE".to_owned())
    })?;
    parse(text).map_err(|(line, reason)| TlsError::file(file, line, reason))
}

/// Text between sections is commentary, as `openssl` writes it.
fn parse(text: &str) -> Result<Vec<PemSection>, (usize, String)> {
    let mut sections = Vec::new();
    let mut open: Option<(String, usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        match (marker(line, "BEGIN"), marker(line, "END"), &mut open) {
            (Some(label), _, None) => open = Some((label.to_owned(), number, String::new())),
            (Some(_), _, Some((label, begun, _))) => {
                let reason = format!(
                    "'{label}' began in line {begun} and has not ended; \
                     fix: the file is cut short or pasted wrongly"
                );
                return Err((number, reason));
            }
            (None, Some(label), Some((begun, ..))) if label == begun => {
                if let Some((label, begun, body)) = open.take() {
                    sections.push(section(label, begun, &body)?);
                }
            }
            (None, Some(label), _) => {
                return Err((number, format!("'{label}' ends here but did not begin")));
            }
            (None, None, Some((_, _, body))) => {
                // Old OpenSSL keys carry fields ("Proc-Type: 4,ENCRYPTED").
                if line.contains(':') {
                    let reason = "the key is encrypted in OpenSSL's old way; \
                                  fix: openssl pkey -in ENCRYPTED -out KEY";
                    return Err((number, reason.to_owned()));
                }
                if let Some(wrong) = line.chars().find(|&character| !is_base64(character)) {
                    let reason = format!("'{}' does not belong in base64", wrong.escape_default());
                    return Err((number, reason));
                }
                body.push_str(line);
            }
            (None, None, None) => {}
        }
    }
    match open {
        None => Ok(sections),
        Some((label, begun, _)) => {
            let reason = format!("'{label}' does not end; fix: the file is cut short");
            Err((begun, reason))
        }
    }
}

fn section(label: String, line: usize, body: &str) -> Result<PemSection, (usize, String)> {
    match STANDARD.decode(body) {
        Ok(der) => Ok(PemSection { label, line, der }),
        Err(error) => Err((line, format!("'{label}' holds damaged base64: {error}"))),
    }
}

fn marker<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let line = line.strip_prefix("-----")?.strip_prefix(word)?;
    line.strip_prefix(' ')?.strip_suffix("-----")
}

const fn is_base64(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '+' | '/' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> (usize, String) {
        parse(text).err().expect("a problem")
    }

    #[test]
    fn sections_stand_among_commentary() {
        let text = "Bag Attributes\n-----BEGIN A B-----\nAQ\nID\n-----END A B-----\n\n# x: y\n\
                    -----BEGIN C-----\r\nBA==\r\n-----END C-----\r\n";
        let sections = parse(text).expect("well-formed");
        let found: Vec<_> = sections
            .iter()
            .map(|section| (section.label.as_str(), section.line, section.der.as_slice()))
            .collect();
        assert_eq!(found, [("A B", 2, &[1, 2, 3][..]), ("C", 8, &[4][..])]);
    }

    #[test]
    fn every_mistake_has_its_line() {
        for (text, line, hint) in [
            ("-----BEGIN A-----\nAQID\n", 1, "does not end"),
            ("x\n-----BEGIN A-----\nA!ID\n-----END A-----", 3, "'!'"),
            (
                "-----BEGIN A-----\nAQI\n-----END A-----",
                1,
                "damaged base64",
            ),
            ("-----BEGIN A-----\n-----BEGIN B-----\n", 2, "has not ended"),
            ("\n-----END A-----\n", 2, "did not begin"),
            ("-----BEGIN A-----\nAQID\n-----END B-----", 3, "'B' ends"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
                2,
                "encrypted",
            ),
        ] {
            let (found, reason) = problem(text);
            assert_eq!(found, line, "{text}");
            assert!(reason.contains(hint), "{reason}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(-----(BEGIN|END) (A|B)-----\n|[A-Z=:]{0,5}\n|.{0,20}){0,8}") {
            let _ = parse(&text).is_ok();
        }
    }
}
