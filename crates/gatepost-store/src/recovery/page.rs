//! The rows of one b-tree page (SQLite file format, sections 1.6 and 2).
//!
//! No value is trusted: every offset may be wrong, and an invalid cell is reported as damaged.

use std::io;

use rusqlite::types::Value;

use super::image::{DatabaseImage, HEADER_BYTES, u32_at};

/// Kinds of b-tree pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    TableInterior,
    TableLeaf,
    IndexInterior,
    IndexLeaf,
}

impl PageKind {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            2 => Self::IndexInterior,
            5 => Self::TableInterior,
            10 => Self::IndexLeaf,
            13 => Self::TableLeaf,
            _ => return None,
        })
    }

    pub(super) const fn is_table(self) -> bool {
        matches!(self, Self::TableInterior | Self::TableLeaf)
    }

    const fn is_interior(self) -> bool {
        matches!(self, Self::TableInterior | Self::IndexInterior)
    }
}

/// A row as it is stored in a page.
pub(super) struct RawRow {
    /// The row id, in a table with row ids.
    pub(super) rowid: Option<i64>,
    pub(super) values: Vec<Value>,
}

/// One page, decoded.
pub(super) struct DatabasePage {
    pub(super) kind: PageKind,
    /// Pages below this one.
    pub(super) children: Vec<u32>,
    pub(super) rows: Vec<RawRow>,
    /// Cells that could not be decoded.
    pub(super) damaged: u64,
}

impl DatabasePage {
    /// Returns `None` if the page does not belong to a b-tree.
    pub(super) fn read(image: &DatabaseImage, number: u32) -> io::Result<Option<Self>> {
        let bytes = image.page(number)?;
        let start = if number == 1 { HEADER_BYTES } else { 0 };
        let Some(kind) = PageKind::of(bytes[start]) else {
            return Ok(None);
        };
        let header = if kind.is_interior() { 12 } else { 8 };
        let cells = usize::from(u16_at(&bytes, start + 3));
        if start + header + 2 * cells > bytes.len() {
            return Ok(None);
        }
        let mut page = Self {
            kind,
            children: Vec::new(),
            rows: Vec::new(),
            damaged: 0,
        };
        for cell in 0..cells {
            let offset = usize::from(u16_at(&bytes, start + header + 2 * cell));
            if page.read_cell(image, &bytes, offset)?.is_none() {
                page.damaged += 1;
            }
        }
        if kind.is_interior() {
            page.children.push(u32_at(&bytes, start + 8));
        }
        Ok(Some(page))
    }

    /// Returns `None` if the cell is invalid.
    fn read_cell(
        &mut self,
        image: &DatabaseImage,
        bytes: &[u8],
        offset: usize,
    ) -> io::Result<Option<()>> {
        let mut cursor = Cursor(bytes.get(offset..).unwrap_or_default());
        if self.kind.is_interior() {
            let Some(child) = cursor.take(4) else {
                return Ok(None);
            };
            self.children.push(u32_at(child, 0));
        }
        if self.kind == PageKind::TableInterior {
            return Ok(Some(()));
        }
        let Some(length) = cursor
            .varint()
            .and_then(|length| usize::try_from(length).ok())
        else {
            return Ok(None);
        };
        let rowid = if self.kind == PageKind::TableLeaf {
            let Some(rowid) = cursor.varint() else {
                return Ok(None);
            };
            Some(rowid)
        } else {
            None
        };
        let Some(payload) = payload(image, cursor, length, self.kind)? else {
            return Ok(None);
        };
        let values = record(&payload);
        Ok(values.map(|values| self.rows.push(RawRow { rowid, values })))
    }
}

/// The whole payload, including overflow pages.
fn payload(
    image: &DatabaseImage,
    mut cell: Cursor<'_>,
    length: usize,
    kind: PageKind,
) -> io::Result<Option<Vec<u8>>> {
    let usable = image.page_bytes();
    if length as u64 > u64::from(image.pages()) * usable as u64 {
        return Ok(None);
    }
    let local_max = if kind.is_table() {
        usable - 35
    } else {
        (usable - 12) * 64 / 255 - 23
    };
    if length <= local_max {
        return Ok(cell.take(length).map(<[u8]>::to_vec));
    }
    let local_min = (usable - 12) * 32 / 255 - 23;
    let local = local_min + (length - local_min) % (usable - 4);
    let local = if local <= local_max { local } else { local_min };
    let (Some(beginning), Some(next)) = (cell.take(local), cell.take(4)) else {
        return Ok(None);
    };
    let mut payload = beginning.to_vec();
    let mut next = u32_at(next, 0);
    // Each page adds bytes, so a circular chain ends too.
    while payload.len() < length {
        if next == 0 || next > image.pages() {
            return Ok(None);
        }
        let page = image.page(next)?;
        let count = (length - payload.len()).min(usable - 4);
        payload.extend_from_slice(&page[4..4 + count]);
        next = u32_at(&page, 0);
    }
    Ok(Some(payload))
}

/// The values of a record (SQLite file format, section 2.1).
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let mut header = Cursor(payload);
    let header_bytes = usize::try_from(header.varint()?).ok()?;
    let read = payload.len() - header.0.len();
    let mut types = Cursor(payload.get(read..header_bytes)?);
    let mut body = Cursor(payload.get(header_bytes..)?);
    let mut values = Vec::new();
    while !types.0.is_empty() {
        let kind = types.varint()?;
        values.push(value(kind, &mut body)?);
    }
    Some(values)
}

fn value(kind: i64, body: &mut Cursor<'_>) -> Option<Value> {
    Some(match kind {
        0 => Value::Null,
        1..=4 => Value::Integer(body.integer(kind as usize)?),
        5 => Value::Integer(body.integer(6)?),
        6 => Value::Integer(body.integer(8)?),
        7 => Value::Real(f64::from_bits(body.integer(8)? as u64)),
        8 | 9 => Value::Integer(kind - 8),
        12.. => {
            let bytes = body.take(usize::try_from((kind - 12) / 2).ok()?)?.to_vec();
            if kind % 2 == 0 {
                Value::Blob(bytes)
            } else {
                Value::Text(String::from_utf8(bytes).ok()?)
            }
        }
        _ => return None,
    })
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes
        .get(offset..offset + 2)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u16::from_be_bytes)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Seven bits in each byte, high ones first; a ninth byte has eight.
    fn varint(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for _ in 0..8 {
            let byte = self.take(1)?[0];
            number = number << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(number as i64);
            }
        }
        Some((number << 8 | u64::from(self.take(1)?[0])) as i64)
    }

    /// Big-endian, with its sign.
    fn integer(&mut self, count: usize) -> Option<i64> {
        let bytes = self.take(count)?;
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        Some(
            bytes
                .iter()
                .fold(sign, |number: i64, &byte| number << 8 | i64::from(byte)),
        )
    }
}
