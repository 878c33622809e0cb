//! Static files: their header texts, computed once, their compressed forms, and conditional and
//! range requests.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::clock;
use crate::encoding::Encoding;
use crate::memory_file::MemoryFile;
use crate::memory_file::recounted;
use crate::mime::mime_type;
use crate::resolve::FileStamp;

/// A static file.
#[derive(Debug, Clone)]
pub struct StaticFile {
    /// Its content; `None` for a file too large for the cache.
    pub content: Option<Bytes>,
    /// The content in a file in memory, if it is long.
    pub file: Option<Arc<MemoryFile>>,
    /// Its length in bytes.
    pub length: u64,
    /// Its MIME type.
    pub mime: &'static str,
    /// Its entity tag, with the quotes.
    pub etag: String,
    /// The time of the last change, as an HTTP date.
    pub last_modified: String,
    /// Its path below the root.
    pub path: PathBuf,
    /// The same file in other codings, smallest first.
    pub variants: Vec<Variant>,
    modified: SystemTime,
    stamp: FileStamp,
}

/// A file in a coding.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The coding.
    pub encoding: Encoding,
    /// The file, with the original's type.
    pub file: StaticFile,
}

/// The result of a request's conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The complete file.
    Whole,
    /// Not modified (304).
    NotModified,
    /// A precondition is false (412).
    PreconditionFailed,
    /// A range of bytes (206).
    Part(Range<u64>),
    /// The range is outside the file (416).
    Unsatisfiable,
}

/// The header fields that make a request conditional or partial.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // the names are the header fields'
pub struct Conditions<'a> {
    pub if_match: Option<&'a str>,
    pub if_none_match: Option<&'a str>,
    pub if_modified_since: Option<&'a str>,
    pub if_unmodified_since: Option<&'a str>,
    pub if_range: Option<&'a str>,
    pub range: Option<&'a str>,
}

impl StaticFile {
    /// A file in memory.
    pub fn in_memory(name: &str, stamp: FileStamp, content: Bytes) -> Self {
        Self {
            content: Some(content),
            ..Self::on_disk(name, stamp)
        }
    }

    /// A file that is read from disk for each request.
    pub fn on_disk(name: &str, stamp: FileStamp) -> Self {
        let since = stamp
            .modified
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            content: None,
            file: None,
            length: stamp.length,
            mime: mime_type(name),
            etag: format!("\"{:x}-{:x}\"", since.as_nanos(), stamp.length),
            last_modified: clock::http_date(stamp.modified),
            path: PathBuf::from(name),
            variants: Vec::new(),
            // HTTP dates have no fractions of a second.
            modified: UNIX_EPOCH + Duration::from_secs(since.as_secs()),
            stamp,
        }
    }

    /// The file with the content that it has now, if it has changed: it was opened in the state
    /// `now`. `encoding` is the coding of a variant.
    pub(crate) fn changed(&self, now: FileStamp, encoding: Option<Encoding>) -> Option<Self> {
        if now == self.stamp {
            return None;
        }
        let changed = Self {
            mime: self.mime,
            ..Self::on_disk(&self.path.to_string_lossy(), now)
        };
        Some(match encoding {
            Some(encoding) => changed.encoded(encoding),
            None => changed,
        })
    }

    /// The file as a representation in a coding, which is a different one (RFC 9110, section
    /// 8.8.3.3), even if its length and time happen to equal the original's.
    fn encoded(mut self, encoding: Encoding) -> Self {
        self.etag = format!("{}-{}\"", self.etag.trim_end_matches('"'), encoding.name());
        self
    }

    /// A copy with reference counts of its own.
    pub(crate) fn unshared_copy(&self) -> Self {
        let mut file = self.clone();
        file.content = file.content.as_ref().map(recounted);
        for variant in &mut file.variants {
            variant.file = variant.file.unshared_copy();
        }
        file
    }

    /// Adds the same content in a coding: from a precompressed file, or compressed here.
    pub fn add_variant(&mut self, encoding: Encoding, stamp: FileStamp, content: Option<Bytes>) {
        let name = format!("{}{}", self.path.display(), encoding.suffix());
        let file = Self {
            content,
            mime: self.mime,
            ..Self::on_disk(&name, stamp)
        };
        let file = file.encoded(encoding);
        self.variants.push(Variant { encoding, file });
    }

    /// Whether it is an HTML page, of which browsers must not keep an old version.
    pub fn is_page(&self) -> bool {
        self.mime.starts_with("text/html")
    }

    /// The content for a client with this `Accept-Encoding`, and its coding if it has one.
    pub fn choose(&self, accept: Option<&[u8]>) -> (Option<Encoding>, &Self) {
        let available = self.variants.iter().map(|variant| variant.encoding);
        let chosen = Encoding::choose(accept, available);
        let found = chosen.and_then(|encoding| {
            let mut variants = self.variants.iter();
            variants.find(|variant| variant.encoding == encoding)
        });
        match found {
            Some(variant) => (chosen, &variant.file),
            None => (None, self),
        }
    }

    /// Evaluates a request's conditions in the order of RFC 9110, section 13.2.2.
    pub fn select(&self, conditions: &Conditions<'_>) -> Selection {
        if let Some(tags) = conditions.if_match {
            if !names_tag(tags, &self.etag) {
                return Selection::PreconditionFailed;
            }
        } else if let Some(limit) = conditions
            .if_unmodified_since
            .and_then(clock::parse_http_date)
            && self.modified > limit
        {
            return Selection::PreconditionFailed;
        }
        if let Some(tags) = conditions.if_none_match {
            if is_known(tags, &self.etag) {
                return Selection::NotModified;
            }
        } else if let Some(since) = conditions
            .if_modified_since
            .and_then(clock::parse_http_date)
            && self.modified <= since
        {
            return Selection::NotModified;
        }
        match conditions.range {
            Some(range) if self.range_applies(conditions.if_range) => self.part(range),
            _ => Selection::Whole,
        }
    }

    /// RFC 9110, section 13.1.5: a tag or a date must be equal.
    fn range_applies(&self, if_range: Option<&str>) -> bool {
        if_range.is_none_or(|validator| validator == self.etag || validator == self.last_modified)
    }

    /// A single byte range; several ranges are answered with the complete file, which the standard
    /// permits (RFC 9110, section 14.2).
    fn part(&self, range: &str) -> Selection {
        let Some(spec) = range.strip_prefix("bytes=").map(str::trim) else {
            return Selection::Whole;
        };
        let Some((first, last)) = spec.split_once('-') else {
            return Selection::Whole;
        };
        if spec.contains(',') {
            return Selection::Whole;
        }
        let digits = |text: &str| -> Option<u64> {
            let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            all_digits.then(|| text.parse().ok()).flatten()
        };
        let range = match (digits(first), digits(last)) {
            // A suffix range.
            (None, Some(suffix)) if first.is_empty() => {
                if suffix == 0 {
                    return Selection::Unsatisfiable;
                }
                self.length.saturating_sub(suffix)..self.length
            }
            (Some(start), None) if last.is_empty() => start..self.length,
            (Some(start), Some(end)) if start <= end => {
                start..end.saturating_add(1).min(self.length)
            }
            _ => return Selection::Whole,
        };
        if range.start >= self.length {
            Selection::Unsatisfiable
        } else {
            Selection::Part(range)
        }
    }
}

/// Whether the value of `If-None-Match` names this entity tag; tags are compared weakly (RFC 9110,
/// section 13.1.2).
pub fn is_known(tags: &str, etag: &str) -> bool {
    let mut tags = tags.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Whether the value of `If-Match` names this entity tag (RFC 9110, section 13.1.1).
fn names_tag(tags: &str, etag: &str) -> bool {
    let mut tags = tags.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> StaticFile {
        let stamp = FileStamp {
            modified: UNIX_EPOCH + Duration::from_millis(784_111_777_500),
            length: 100,
        };
        StaticFile::on_disk("a.txt", stamp)
    }

    #[test]
    fn ranges_select_bytes() {
        let select = |range| {
            file().select(&Conditions {
                range: Some(range),
                ..Conditions::default()
            })
        };
        assert_eq!(select("bytes=0-0"), Selection::Part(0..1));
        assert_eq!(select("bytes=90-"), Selection::Part(90..100));
        assert_eq!(select("bytes=-10"), Selection::Part(90..100));
        assert_eq!(select("bytes=-1000"), Selection::Part(0..100));
        assert_eq!(select("bytes=50-1000"), Selection::Part(50..100));
        assert_eq!(select("bytes=100-"), Selection::Unsatisfiable);
        assert_eq!(select("bytes=-0"), Selection::Unsatisfiable);
        for whole in [
            "bytes=5-2",
            "bytes=a-b",
            "lines=1-2",
            "bytes=0-1,3-4",
            "bytes=+1-2",
            "bytes=-",
        ] {
            assert_eq!(select(whole), Selection::Whole, "{whole}");
        }
    }

    #[test]
    fn conditional_requests_omit_content_that_the_client_has() {
        let file = file();
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let weak = format!("\"x\", W/{}", file.etag);
        let select = |conditions: Conditions<'_>| file.select(&conditions);
        let none = Conditions::default();
        assert_eq!(
            select(Conditions {
                if_none_match: Some(&weak),
                ..none
            }),
            Selection::NotModified
        );
        assert_eq!(
            select(Conditions {
                if_modified_since: Some(date),
                ..none
            }),
            Selection::NotModified
        );
        assert_eq!(
            select(Conditions {
                if_none_match: Some("\"x\""),
                if_modified_since: Some(date),
                ..none
            }),
            Selection::Whole,
            "a tag outranks a date"
        );
        assert_eq!(
            select(Conditions {
                if_match: Some("\"x\""),
                ..none
            }),
            Selection::PreconditionFailed
        );
        assert_eq!(
            select(Conditions {
                range: Some("bytes=0-1"),
                if_range: Some("\"x\""),
                ..none
            }),
            Selection::Whole
        );
        assert_eq!(
            select(Conditions {
                range: Some("bytes=0-1"),
                if_range: Some(date),
                ..none
            }),
            Selection::Part(0..2)
        );
    }
}
