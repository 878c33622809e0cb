//! The texts of the guide, which the build script has compressed. They are decompressed when the
//! first of them is read: until then, a server holds no memory for them.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

static CONTENT: LazyLock<String> = LazyLock::new(|| {
    let compressed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/content.zlib"));
    let mut content = String::new();
    let read = ZlibDecoder::new(compressed).read_to_string(&mut content);
    debug_assert!(read.is_ok(), "the build script compressed it: {read:?}");
    content
});

/// The position of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// The text.
    pub(crate) fn text(self) -> &'static str {
        CONTENT.get(self.start..self.end).unwrap_or_default()
    }
}
