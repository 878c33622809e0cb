//! Compound files, the container of Office before 2007 and of VBA projects since (MS-CFB).
//!
//! A file system within a file: sectors in chains, and a directory of storages (folders) and
//! streams (files) as a tree. Chains can be cyclic and the tree can be malformed: the number of
//! sectors or entries in the file bounds every traversal.

/// The first bytes of a compound file (MS-CFB section 2.2).
const SIGNATURE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// The greatest sector number; higher ones mark the end of a chain (section 2.1).
const SECTOR_MAX: u32 = 0xffff_fffa;
/// Bytes of an entry of the directory (section 2.6.1).
const ENTRY_BYTES: usize = 128;
/// The most entries of a directory that are read.
const ENTRIES_MAX: usize = 10_000;
/// The number of sectors of the allocation table in the header (section 2.2).
const HEADER_TABLE_PLACES: usize = 109;

const STORAGE: u8 = 1;
const STREAM: u8 = 2;
const ROOT: u8 = 5;

/// A compound file.
pub(super) struct CompoundFile<'d> {
    data: &'d [u8],
    sector_shift: u32,
    mini_shift: u32,
    /// Streams shorter than this are in the mini stream, in bytes.
    mini_below: u64,
    /// The next sector of each sector.
    table: Vec<u32>,
    mini_table: Vec<u32>,
    mini_stream: Vec<u8>,
    entries: Vec<CompoundEntry>,
}

/// A storage or a stream.
pub(super) struct CompoundEntry {
    pub(super) name: String,
    kind: u8,
    left: u32,
    right: u32,
    child: u32,
    start: u32,
    length: u64,
}

fn number16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn number32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn numbers(data: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = data.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

/// UTF-16 in little endian, as names are written.
pub(super) fn wide_text(data: &[u8]) -> String {
    let (pairs, _) = data.as_chunks::<2>();
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

impl<'d> CompoundFile<'d> {
    pub(super) fn read(data: &'d [u8]) -> Option<Self> {
        if !data.starts_with(SIGNATURE) {
            return None;
        }
        let sector_shift = u32::from(number16(data, 30)?);
        let mini_shift = u32::from(number16(data, 32)?);
        // Section 2.2: 512 or 4096 bytes, and 64.
        if !matches!(sector_shift, 9 | 12) || mini_shift != 6 {
            return None;
        }
        let mut file = Self {
            data,
            sector_shift,
            mini_shift,
            mini_below: u64::from(number32(data, 56)?),
            table: Vec::new(),
            mini_table: Vec::new(),
            mini_stream: Vec::new(),
            entries: Vec::new(),
        };
        file.table = file.allocation_table()?;
        let directory = file.chain(number32(data, 48)?, data.len());
        let read = directory
            .chunks_exact(ENTRY_BYTES)
            .map_while(CompoundEntry::read);
        file.entries = read.take(ENTRIES_MAX).collect();
        file.mini_table = numbers(&file.chain(number32(data, 60)?, data.len())).collect();
        let root = file.entries.first().filter(|root| root.kind == ROOT)?;
        file.mini_stream = file.chain(root.start, data.len());
        Some(file)
    }

    fn sector(&self, number: u32) -> Option<&'d [u8]> {
        let at = (number as usize)
            .checked_add(1)?
            .checked_shl(self.sector_shift)?;
        let end = self.data.len().min(at.checked_add(1 << self.sector_shift)?);
        self.data.get(at..end).filter(|sector| !sector.is_empty())
    }

    /// Sections 2.3 and 2.5: the header and a chain of further sectors name the table's own
    /// sectors.
    fn allocation_table(&self) -> Option<Vec<u32>> {
        let sectors_max = self.data.len() >> self.sector_shift;
        let mut places: Vec<u32> =
            numbers(self.data.get(76..76 + 4 * HEADER_TABLE_PLACES)?).collect();
        let mut next = number32(self.data, 68)?;
        while next <= SECTOR_MAX && places.len() < sectors_max + HEADER_TABLE_PLACES {
            let Some((last, more)) = self
                .sector(next)
                .and_then(<[u8]>::split_last_chunk::<4>)
                .map(|(more, last)| (last, more))
            else {
                break;
            };
            places.extend(numbers(more));
            next = u32::from_le_bytes(*last);
        }
        let used = places.into_iter().filter(|&place| place <= SECTOR_MAX);
        let sectors = used
            .take(sectors_max)
            .filter_map(|place| self.sector(place));
        Some(sectors.flat_map(numbers).take(sectors_max + 1).collect())
    }

    /// The content of the chain of sectors from `start` on, up to `most` bytes and the rest of a
    /// sector.
    fn chain(&self, start: u32, most: usize) -> Vec<u8> {
        let mut content = Vec::new();
        let mut next = start;
        // A chain that is longer than the file is cyclic.
        let most = most.min(self.data.len());
        while next <= SECTOR_MAX && content.len() < most {
            let Some(sector) = self.sector(next) else {
                break;
            };
            content.extend_from_slice(sector);
            next = self.table.get(next as usize).copied().unwrap_or(u32::MAX);
        }
        content
    }

    /// The same in the mini stream, section 2.4.
    fn mini_chain(&self, start: u32, most: usize) -> Vec<u8> {
        let mut content = Vec::new();
        let mut next = start;
        let most = most.min(self.mini_stream.len());
        while next <= SECTOR_MAX && content.len() < most {
            let at = (next as usize) << self.mini_shift;
            let end = self.mini_stream.len().min(at + (1 << self.mini_shift));
            let Some(sector) = self
                .mini_stream
                .get(at..end)
                .filter(|sector| !sector.is_empty())
            else {
                break;
            };
            content.extend_from_slice(sector);
            next = self
                .mini_table
                .get(next as usize)
                .copied()
                .unwrap_or(u32::MAX);
        }
        content
    }

    /// The content of a stream, subtracted from `left`; `None` if it is larger than that. Streams
    /// of a valid file do not overlap, so all of them are no longer than the file; the streams of
    /// an attacker's file may be the same bytes ten thousand times.
    pub(super) fn content(&self, stream: &CompoundEntry, left: &mut usize) -> Option<Vec<u8>> {
        let length = usize::try_from(stream.length).unwrap_or(usize::MAX);
        let most = length.min(left.saturating_add(1));
        let mut content = if stream.length < self.mini_below {
            self.mini_chain(stream.start, most)
        } else {
            self.chain(stream.start, most)
        };
        content.truncate(most);
        *left = left.checked_sub(content.len())?;
        Some(content)
    }

    /// The streams of each storage.
    pub(super) fn storages(&self) -> impl Iterator<Item = Vec<&CompoundEntry>> {
        let mut reached = vec![false; self.entries.len()];
        let storages = self
            .entries
            .iter()
            .filter(|entry| matches!(entry.kind, STORAGE | ROOT));
        storages.map(move |storage| {
            let mut streams = Vec::new();
            let mut open = vec![storage.child];
            while let Some(number) = open.pop() {
                let Some(entry) = self.entries.get(number as usize) else {
                    continue;
                };
                // Each entry belongs to one storage; an entry met again is part of a cycle.
                match reached.get_mut(number as usize) {
                    Some(reached) if !*reached => *reached = true,
                    _ => continue,
                }
                open.extend([entry.left, entry.right]);
                if entry.kind == STREAM {
                    streams.push(entry);
                }
            }
            streams
        })
    }
}

impl CompoundEntry {
    fn read(data: &[u8]) -> Option<Self> {
        let name_bytes = usize::from(number16(data, 64)?).min(64);
        Some(Self {
            name: wide_text(data.get(..name_bytes)?),
            kind: *data.get(66)?,
            left: number32(data, 68)?,
            right: number32(data, 72)?,
            child: number32(data, 76)?,
            start: number32(data, 116)?,
            // The upper half is unreliable in files of version 3 (section 2.6.1).
            length: u64::from(number32(data, 120)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_no_more_than_was_left_for_them() {
        let data = include_bytes!("../../../tests/data/office/hidden.doc");
        let file = CompoundFile::read(data).expect("a compound file");
        let streams: Vec<&CompoundEntry> = file.storages().flatten().collect();
        let mut left = data.len();
        let contents = streams.iter().map(|stream| file.content(stream, &mut left));
        let contents: Option<Vec<_>> = contents.collect();
        let contents = contents.expect("an honest file's streams fit into it");
        let longest = contents.iter().map(Vec::len).max().expect("streams");
        // The longest stream repeatedly, as in a hostile directory.
        let stream = streams
            .iter()
            .find(|stream| stream.length == longest as u64);
        let stream = stream.expect("it is there");
        let mut left = 2 * longest + longest / 2;
        assert!(file.content(stream, &mut left).is_some());
        assert!(file.content(stream, &mut left).is_some());
        assert_eq!(file.content(stream, &mut left), None);
    }
}
