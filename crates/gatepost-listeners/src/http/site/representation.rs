//! The header fields that describe a representation: of a page, or of a file.

use gatepost_pages::{Encoding, StaticFile};

/// The media type of an HTML page.
pub(in crate::http) const HTML: &str = "text/html; charset=utf-8";

/// The fields of every response with a page that is the same for all visitors.
pub(in crate::http) fn page_fields<'a>(
    varies: bool,
    with_gzip: bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = [("Content-Type", HTML), ("Cache-Control", "no-cache")];
    let vary = varies.then_some(("Vary", "Accept-Encoding"));
    let coding = with_gzip.then_some(("Content-Encoding", "gzip"));
    fields.into_iter().chain(vary).chain(coding)
}

/// The fields of every response with a file.
pub(in crate::http) fn file_fields(
    file: &StaticFile,
) -> impl Iterator<Item = (&'static str, &str)> {
    let fields = [
        ("Content-Type", file.mime),
        ("ETag", &file.etag),
        ("Last-Modified", &file.last_modified),
        ("Accept-Ranges", "bytes"),
    ];
    let caching = file.is_page().then_some(("Cache-Control", "no-cache"));
    fields.into_iter().chain(caching)
}

/// The fields that inform caches and clients about content codings.
pub(in crate::http) fn coding_fields(
    original: &StaticFile,
    encoding: Option<Encoding>,
) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let varies = (!original.variants.is_empty()).then_some(("Vary", "Accept-Encoding"));
    let enencoded = encoding.map(|encoding| ("Content-Encoding", encoding.name()));
    varies.into_iter().chain(enencoded)
}
