//! The type of a file, by its first bytes.
//!
//! Whatever a sender declares, a file is served as one of these types only. None of them can run
//! code in a browser, so HTML, SVG and XML are text or bytes.

/// The type of a file that is none of the others.
const BINARY: RecognisedType = RecognisedType::new("application/octet-stream", "bin");
/// The type of a file that is valid UTF-8.
const TEXT: RecognisedType = RecognisedType::new("text/plain; charset=utf-8", "txt");

/// A type that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecognisedType {
    pub(super) content_type: &'static str,
    /// The ending of names of such files.
    pub(super) extension: &'static str,
}

impl RecognisedType {
    const fn new(content_type: &'static str, extension: &'static str) -> Self {
        Self {
            content_type,
            extension,
        }
    }

    /// The type of a file with this content. A program for Android is recognised by its name,
    /// because its content is a ZIP archive.
    pub(super) fn of(content: &[u8], name: &str) -> Self {
        if name.to_ascii_lowercase().ends_with(".apk") && content.starts_with(b"PK\x03\x04") {
            return Self::new("application/vnd.android.package-archive", "apk");
        }
        let known = SIGNATURES.iter().find(|signature| {
            let from = content.get(signature.offset..).unwrap_or_default();
            from.starts_with(signature.bytes) && content.starts_with(signature.container)
        });
        match known {
            Some(signature) => signature.kind,
            None if is_text(content) => TEXT,
            None => BINARY,
        }
    }

    /// Whether browsers and phones show it as a picture.
    pub(super) fn is_image(self) -> bool {
        self.content_type.starts_with("image/")
    }
}

fn is_text(content: &[u8]) -> bool {
    !content.contains(&0) && std::str::from_utf8(content).is_ok()
}

/// The bytes by which a type is recognised.
struct TypeSignature {
    /// The first bytes of the file.
    container: &'static [u8],
    offset: usize,
    bytes: &'static [u8],
    kind: RecognisedType,
}

const fn signature(
    container: &'static [u8],
    offset: usize,
    bytes: &'static [u8],
    kind: RecognisedType,
) -> TypeSignature {
    TypeSignature {
        container,
        offset,
        bytes,
        kind,
    }
}

const SIGNATURES: [TypeSignature; 13] = [
    signature(
        b"",
        0,
        b"\xff\xd8\xff",
        RecognisedType::new("image/jpeg", "jpg"),
    ),
    signature(
        b"",
        0,
        b"\x89PNG\r\n\x1a\n",
        RecognisedType::new("image/png", "png"),
    ),
    signature(b"", 0, b"GIF8", RecognisedType::new("image/gif", "gif")),
    signature(
        b"RIFF",
        8,
        b"WEBP",
        RecognisedType::new("image/webp", "webp"),
    ),
    signature(b"RIFF", 8, b"WAVE", RecognisedType::new("audio/wav", "wav")),
    signature(b"", 4, b"ftypM4A", RecognisedType::new("audio/mp4", "m4a")),
    signature(b"", 4, b"ftyp", RecognisedType::new("video/mp4", "mp4")),
    signature(b"", 0, b"OggS", RecognisedType::new("audio/ogg", "ogg")),
    signature(b"", 0, b"ID3", RecognisedType::new("audio/mpeg", "mp3")),
    signature(
        b"",
        0,
        b"\xff\xfb",
        RecognisedType::new("audio/mpeg", "mp3"),
    ),
    signature(
        b"",
        0,
        b"%PDF-",
        RecognisedType::new("application/pdf", "pdf"),
    ),
    signature(
        b"",
        0,
        b"PK\x03\x04",
        RecognisedType::new("application/zip", "zip"),
    ),
    signature(
        b"",
        0,
        b"\x1f\x8b\x08",
        RecognisedType::new("application/gzip", "gz"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_and_nothing_can_run() {
        for (content, name, expected) in [
            (&b"\xff\xd8\xff\xe0"[..], "a.html", "image/jpeg"),
            (b"\x89PNG\r\n\x1a\n", "", "image/png"),
            (b"RIFF\0\0\0\0WEBP", "", "image/webp"),
            (
                b"<html><script>alert(1)</script>",
                "a.html",
                "text/plain; charset=utf-8",
            ),
            (
                b"<svg onload='alert(1)'/>",
                "a.svg",
                "text/plain; charset=utf-8",
            ),
            (b"\xff\xfe<\0h\0", "a.html", "application/octet-stream"),
            (
                b"PK\x03\x04",
                "a.APK",
                "application/vnd.android.package-archive",
            ),
            (b"text", "a.apk", "text/plain; charset=utf-8"),
            (b"", "", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(
                RecognisedType::of(content, name).content_type,
                expected,
                "{name}"
            );
        }
    }
}
