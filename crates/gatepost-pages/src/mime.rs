//! MIME types by file extension.

/// The type of files with this name; binary if the extension is unknown.
pub fn mime_type(file_name: &str) -> &'static str {
    let extension = file_name.rsplit_once('.').map_or("", |(_, end)| end);
    TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map_or("application/octet-stream", |(_, mime)| mime)
}

/// Whether compression of a file of this type is worthwhile.
pub fn is_compressible(mime: &str) -> bool {
    mime.starts_with("text/")
        || ["json", "javascript", "xml", "yaml", "toml", "wasm"]
            .iter()
            .any(|part| mime.contains(part))
}

/// Text types name their charset: browsers guess otherwise.
const TYPES: [(&str, &str); 69] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("xhtml", "application/xhtml+xml"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("jsonl", "application/x-ndjson"),
    ("xml", "application/xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("jxl", "image/jxl"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ico", "image/x-icon"),
    ("bmp", "image/bmp"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("mov", "video/quicktime"),
    ("ogv", "video/ogg"),
    ("webm", "video/webm"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("pdf", "application/pdf"),
    ("epub", "application/epub+zip"),
    ("apk", "application/vnd.android.package-archive"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("zst", "application/zstd"),
    ("bz2", "application/x-bzip2"),
    ("xz", "application/x-xz"),
    ("7z", "application/x-7z-compressed"),
    ("tar", "application/x-tar"),
    ("wasm", "application/wasm"),
    ("eml", "message/rfc822"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_by_the_last_extension() {
        assert_eq!(mime_type("a.tar.gz"), "application/gzip");
        assert_eq!(mime_type("INDEX.HTML"), "text/html; charset=utf-8");
        assert_eq!(mime_type("Makefile"), "application/octet-stream");
        assert_eq!(mime_type("html"), "application/octet-stream");
        assert_eq!(mime_type("talk.M4A"), "audio/mp4");
        assert!(is_compressible(mime_type("a.svg")));
        assert!(is_compressible(mime_type("compose.yml")));
        assert!(!is_compressible(mime_type("a.png")));
    }
}
