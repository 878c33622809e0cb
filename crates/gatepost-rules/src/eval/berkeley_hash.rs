//! Reads a Berkeley DB file of the hash method, the format of mail servers' maps.
//!
//! All pages are read once, whatever bucket they belong to; buckets matter only for the lookup of
//! one key. The layout is that of libdb since version 3, in either byte order.

use std::collections::HashMap;

/// The magic number of a hash file, at byte 12 of its first page.
const MAGIC: u32 = 0x0006_1561;
/// Kinds of pages with entries: sorted since version 4.6, unsorted before.
const HASH_PAGES: [u8; 2] = [13, 2];
/// The bytes before the offsets of a page's items.
const PAGE_HEAD_BYTES: usize = 26;
/// An item that is the key or value itself, and one that is on overflow pages.
const PLAIN_ITEM: u8 = 1;
const LONG_ITEM: u8 = 3;

/// The keys and values; `None` if the file has another format.
pub(super) fn read(data: &[u8]) -> Option<HashMap<Vec<u8>, Vec<u8>>> {
    let file = BerkeleyFile::open(data)?;
    let mut table = HashMap::new();
    for page in data.chunks_exact(file.page_bytes).skip(1) {
        if page.get(25).is_some_and(|kind| HASH_PAGES.contains(kind)) {
            file.read_page(page, &mut table);
        }
    }
    Some(table)
}

struct BerkeleyFile<'d> {
    data: &'d [u8],
    page_bytes: usize,
    is_big_endian: bool,
}

impl<'d> BerkeleyFile<'d> {
    fn open(data: &'d [u8]) -> Option<Self> {
        let little = Self {
            data,
            page_bytes: 0,
            is_big_endian: false,
        };
        let is_big_endian = match little.number32(data, 12)? {
            MAGIC => false,
            magic if magic.swap_bytes() == MAGIC => true,
            _ => return None,
        };
        let mut file = Self {
            is_big_endian,
            ..little
        };
        file.page_bytes = file.number32(data, 20)? as usize;
        (512..=65_536).contains(&file.page_bytes).then_some(file)
    }

    fn number32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let number = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.is_big_endian {
            u32::from_be_bytes(number)
        } else {
            u32::from_le_bytes(number)
        })
    }

    fn number16(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let number = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(usize::from(if self.is_big_endian {
            u16::from_be_bytes(number)
        } else {
            u16::from_le_bytes(number)
        }))
    }

    fn read_page(&self, page: &[u8], table: &mut HashMap<Vec<u8>, Vec<u8>>) {
        let count = self.number16(page, 20).unwrap_or_default();
        // Items are written from the page's end to its beginning: each ends where the previous one
        // begins.
        let mut end = page.len();
        let mut key = None;
        for index in 0..count {
            let Some(at) = self.number16(page, PAGE_HEAD_BYTES + 2 * index) else {
                return;
            };
            let Some(item) = page.get(at..end) else {
                return;
            };
            end = at;
            let content = self.item(item);
            match key.take() {
                None => key = Some(content),
                Some(Some(key)) => table.extend(content.map(|value| (key, value))),
                Some(None) => {}
            }
        }
    }

    fn item(&self, item: &[u8]) -> Option<Vec<u8>> {
        let (&kind, content) = item.split_first()?;
        let content = match kind {
            PLAIN_ITEM => content.to_vec(),
            LONG_ITEM => self.long_item(item)?,
            _ => return None,
        };
        // Some programs include the zero that terminates a string.
        Some(
            content
                .strip_suffix(&[0])
                .map(<[u8]>::to_vec)
                .unwrap_or(content),
        )
    }

    /// Follows a chain of pages; the length bounds a cycle.
    fn long_item(&self, item: &[u8]) -> Option<Vec<u8>> {
        let mut next = self.number32(item, 4)? as usize;
        let length = self.number32(item, 8)? as usize;
        if length > self.data.len() {
            return None;
        }
        let mut content = Vec::new();
        while content.len() < length && next != 0 {
            let start = next.checked_mul(self.page_bytes)?;
            let page = self.data.get(start..start + self.page_bytes)?;
            let used = self.number16(page, 22)?;
            if used == 0 {
                return None;
            }
            content.extend_from_slice(page.get(PAGE_HEAD_BYTES..PAGE_HEAD_BYTES + used)?);
            next = self.number32(page, 16)? as usize;
        }
        content.truncate(length);
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_damaged_files_are_read_as_far_as_they_go() {
        let whole = include_bytes!("../../tests/data/access.db");
        let table = read(whole).expect("a map");
        assert_eq!(
            table.get(&b"bad.example"[..]).map(Vec::as_slice),
            Some(&b"REJECT"[..])
        );
        for end in (0..whole.len()).step_by(97) {
            let _ = read(&whole[..end]);
        }
        for at in (0..whole.len()).step_by(13) {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0xff;
            let _ = read(&damaged);
        }
    }
}
