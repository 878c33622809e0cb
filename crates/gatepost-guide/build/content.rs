//! The texts of the guide, in one compressed file, which has a quarter of their size.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The texts so far, one after the other.
#[derive(Default)]
pub(crate) struct Content(String);

impl Content {
    /// Appends a text; its position, as the source of a `Span`.
    pub(crate) fn add(&mut self, text: &str) -> String {
        let start = self.0.len();
        self.0.push_str(text);
        format!("Span {{ start: {start}, end: {} }}", self.0.len())
    }

    /// The file.
    pub(crate) fn compressed(&self) -> io::Result<Vec<u8>> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(self.0.as_bytes())?;
        encoder.finish()
    }
}
