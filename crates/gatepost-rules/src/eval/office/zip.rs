//! Reads members of a ZIP archive, by its central directory (APPNOTE.TXT sections 4.3.6 to 4.3.16).
//!
//! Only the features of office files and common archives: stored and deflated members of one file.
//! The output is bounded, whatever the archive claims, and however often it refers to the same
//! bytes.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::DeflateDecoder;

/// The most members of an archive that are read.
const MEMBERS_MAX: usize = 2_000;
/// The length of the record at the end of an archive, and of the longest comment after it, in
/// bytes.
const END_BYTES: usize = 22;
const COMMENT_BYTES_MAX: usize = 65_535;

/// An archive whose directory could be read.
pub(super) struct ZipArchive<'d> {
    data: &'d [u8],
    pub(super) members: Vec<ZipEntry>,
}

/// An entry of the directory.
pub(super) struct ZipEntry {
    pub(super) name: Vec<u8>,
    pub(super) is_encrypted: bool,
    method: u16,
    compressed_bytes: usize,
    header_at: usize,
}

fn number16(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(usize::from(u16::from_le_bytes(bytes)))
}

fn number32(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

impl<'d> ZipArchive<'d> {
    pub(super) fn read(data: &'d [u8]) -> Option<Self> {
        let tail_at = data.len().saturating_sub(END_BYTES + COMMENT_BYTES_MAX);
        let tail = data.get(tail_at..)?;
        let end_at = tail_at + memchr::memmem::rfind(tail, b"PK\x05\x06")?;
        let count = number16(data, end_at + 10)?;
        let length = number32(data, end_at + 12)?;
        let claimed = number32(data, end_at + 16)?;
        // Text before an archive, as in a self-extracting one, shifts all its offsets.
        let start = end_at.checked_sub(length)?;
        let moved = start.checked_sub(claimed)?;
        let mut members = Vec::new();
        let mut at = start;
        for _ in 0..count.min(MEMBERS_MAX) {
            let Some((member, next)) = ZipEntry::read(data, at, moved) else {
                break;
            };
            members.push(member);
            at = next;
        }
        (!members.is_empty()).then_some(Self { data, members })
    }

    /// A member's content; the larger of its compressed and decompressed size is subtracted from
    /// the budget. `None` if the member is encrypted, broken, compressed with another method or
    /// exceeds the budget.
    pub(super) fn content(&self, member: &ZipEntry, budget: &mut usize) -> Option<Cow<'d, [u8]>> {
        if member.is_encrypted {
            return None;
        }
        let names = number16(self.data, member.header_at + 26)?;
        let extra = number16(self.data, member.header_at + 28)?;
        let at = member.header_at + 30 + names + extra;
        let packed = self
            .data
            .get(at..at.checked_add(member.compressed_bytes)?)?;
        let most = *budget;
        *budget = budget.saturating_sub(packed.len());
        if packed.len() > most {
            return None;
        }
        match member.method {
            0 => Some(Cow::Borrowed(packed)),
            8 => {
                let mut content = Vec::new();
                let read = DeflateDecoder::new(packed)
                    .take(most as u64 + 1)
                    .read_to_end(&mut content);
                let is_whole = read.is_ok() && content.len() <= most;
                *budget = (*budget).min(most.saturating_sub(content.len()));
                is_whole.then_some(Cow::Owned(content))
            }
            _ => None,
        }
    }
}

impl ZipEntry {
    /// The entry at `at`, and the offset of the next one.
    fn read(data: &[u8], at: usize, moved: usize) -> Option<(Self, usize)> {
        if !data.get(at..)?.starts_with(b"PK\x01\x02") {
            return None;
        }
        let name_end = at + 46 + number16(data, at + 28)?;
        let member = Self {
            name: data.get(at + 46..name_end)?.to_vec(),
            is_encrypted: number16(data, at + 8)? & 1 != 0,
            method: u16::try_from(number16(data, at + 10)?).ok()?,
            compressed_bytes: number32(data, at + 20)?,
            header_at: number32(data, at + 42)?.checked_add(moved)?,
        };
        let next = name_end + number16(data, at + 30)? + number16(data, at + 32)?;
        Some((member, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One stored member, `a` with `hello`, after three bytes that are not part of the archive.
    const STORED: &[u8] = b"MZx\
        PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0\x86\xa6\x10\x36\x05\0\0\0\x05\0\0\0\x01\0\0\0ahello\
        PK\x01\x02\x1e\x03\x0a\0\0\0\0\0\0\0\0\0\x86\xa6\x10\x36\x05\0\0\0\x05\0\0\0\x01\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\0\0\0a\
        PK\x05\x06\0\0\0\0\x01\0\x01\0\x2f\0\0\0\x24\0\0\0\0\0";

    #[test]
    fn a_member_is_read_wherever_the_archive_begins() {
        for data in [STORED, &STORED[3..]] {
            let archive = ZipArchive::read(data).expect("an archive");
            let [member] = &archive.members[..] else {
                panic!("one member");
            };
            assert_eq!(member.name, b"a");
            let mut budget = 9;
            let content = archive.content(member, &mut budget);
            assert_eq!(content.as_deref(), Some(&b"hello"[..]));
            // The same bytes again, as an archive can refer to them thousands of times.
            assert!(archive.content(member, &mut budget).is_none());
            assert_eq!(budget, 0);
        }
    }

    #[test]
    fn cut_archives_are_none() {
        for end in 0..STORED.len() - 2 {
            assert!(ZipArchive::read(&STORED[3..end.max(3)]).is_none(), "{end}");
        }
    }
}
