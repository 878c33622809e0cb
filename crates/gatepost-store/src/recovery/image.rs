//! The pages of a damaged database: its file, overlaid by the committed frames of its write-ahead
//! log (SQLite file format, sections 1 and 4).
//!
//! An error of the system ends the recovery; only content can be damaged.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE_BYTES_DEFAULT: usize = 4_096;
/// The file's header, which the first page begins with.
pub(super) const HEADER_BYTES: usize = 100;
const WAL_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The lowest bit says that checksums are computed over big-endian words.
const WAL_MAGIC: u32 = 0x377f_0682;

pub(super) struct DatabaseImage {
    file: Option<File>,
    file_bytes: u64,
    log: Option<File>,
    /// The place of the newest committed version of each page in the log.
    frames: HashMap<u32, u64>,
    page_bytes: usize,
    pages: u32,
}

impl DatabaseImage {
    pub(super) fn open(database: &Path, wal: &Path) -> io::Result<Self> {
        let (file, log) = (open(database)?, open(wal)?);
        let file_bytes = match &file {
            Some(file) => file.metadata()?.len(),
            None => 0,
        };
        let mut image = Self {
            file,
            file_bytes,
            log,
            frames: HashMap::new(),
            page_bytes: PAGE_BYTES_DEFAULT,
            pages: 0,
        };
        let header = image.read_file(0, HEADER_BYTES)?;
        if let Some(bytes) = page_bytes(&header) {
            image.page_bytes = bytes;
        }
        let size_in_log = image.read_log()?;
        let in_file = file_bytes.div_ceil(image.page_bytes as u64);
        image.pages = size_in_log.unwrap_or(u32::try_from(in_file).unwrap_or(u32::MAX));
        Ok(image)
    }

    pub(super) const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The number of the last page; the first is 1.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// A page's bytes; those that the file does not have are zero.
    pub(super) fn page(&self, number: u32) -> io::Result<Vec<u8>> {
        if let (Some(offset), Some(log)) = (self.frames.get(&number), &self.log) {
            return read_at(log, *offset, self.page_bytes);
        }
        let offset = u64::from(number.saturating_sub(1)) * self.page_bytes as u64;
        self.read_file(offset, self.page_bytes)
    }

    fn read_file(&self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        match &self.file {
            Some(file) if offset < self.file_bytes => read_at(file, offset, count),
            _ => Ok(vec![0; count]),
        }
    }

    /// Notes the frames of every whole transaction. Returns the database's size in pages after the
    /// last one, if there is any.
    fn read_log(&mut self) -> io::Result<Option<u32>> {
        let Some(log) = &self.log else {
            return Ok(None);
        };
        let length = log.metadata()?.len();
        let header = read_at(log, 0, WAL_HEADER_BYTES)?;
        let magic = u32_at(&header, 0);
        let page_bytes = u32_at(&header, 8) as usize;
        if magic & !1 != WAL_MAGIC || !is_page_size(page_bytes) {
            return Ok(None);
        }
        let is_big_endian = magic & 1 == 1;
        let mut sum = WalChecksum::default();
        sum.update(&header[..24], is_big_endian);
        if !sum.is(&header[24..32]) {
            return Ok(None);
        }
        self.page_bytes = page_bytes;
        let salt = &header[16..24];
        let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        let mut offset = WAL_HEADER_BYTES as u64;
        let (mut pending, mut size) = (Vec::new(), None);
        while offset + frame_bytes as u64 <= length {
            let frame = read_at(log, offset, frame_bytes)?;
            sum.update(&frame[..8], is_big_endian);
            sum.update(&frame[FRAME_HEADER_BYTES..], is_big_endian);
            // Left over from before the last checkpoint, or torn: the log ends here.
            if &frame[8..16] != salt || !sum.is(&frame[16..24]) {
                break;
            }
            pending.push((u32_at(&frame, 0), offset + FRAME_HEADER_BYTES as u64));
            let committed = u32_at(&frame, 4);
            if committed > 0 {
                self.frames.extend(pending.drain(..));
                size = Some(committed);
            }
            offset += frame_bytes as u64;
        }
        Ok(size)
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Reads as far as the file goes; the rest is zero.
fn read_at(file: &File, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(bytes)
}

/// Offset 16 of the file's header; 1 stands for 65,536.
fn page_bytes(header: &[u8]) -> Option<usize> {
    let bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => usize::from(bytes),
    };
    (header.starts_with(b"SQLite format 3\0") && is_page_size(bytes)).then_some(bytes)
}

const fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 512 && bytes <= 65_536
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

/// The log's running checksum (SQLite file format, section 4.2).
#[derive(Default)]
struct WalChecksum(u32, u32);

impl WalChecksum {
    fn update(&mut self, bytes: &[u8], is_big_endian: bool) {
        let word = |bytes: &[u8]| {
            let word = bytes.try_into().unwrap_or_default();
            if is_big_endian {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        };
        for pair in bytes.chunks_exact(8) {
            self.0 = self.0.wrapping_add(word(&pair[..4])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word(&pair[4..])).wrapping_add(self.0);
        }
    }

    fn is(&self, stored: &[u8]) -> bool {
        (u32_at(stored, 0), u32_at(stored, 4)) == (self.0, self.1)
    }
}
