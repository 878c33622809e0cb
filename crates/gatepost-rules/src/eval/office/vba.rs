//! The source text of VBA projects (MS-OVBA).
//!
//! A project's compressed `dir` stream contains the streams of its modules and the offset of the
//! source in each, compressed too. A project with a broken `dir`, as attackers write it, still
//! runs: then the attribute at the beginning of each module identifies it.

use super::compound::{CompoundFile, wide_text};

/// The first byte of compressed data (MS-OVBA section 2.4.1.1.1).
const SIGNATURE: u8 = 1;
/// The bytes of a decompressed chunk (section 2.4.1.1.4).
const CHUNK_BYTES: usize = 4096;
/// Records of the `dir` stream (section 2.3.4.2).
const PROJECT_VERSION: u16 = 0x0009;
const MODULE_STREAM_NAME: u16 = 0x001a;
const MODULE_STREAM_NAME_WIDE: u16 = 0x0032;
const MODULE_OFFSET: u16 = 0x0031;
/// The most modules of a project.
const MODULES_MAX: usize = 1_000;
/// `Attribut` after a byte that marks eight literal bytes: the beginning of every source.
const BEGINNING: &[u8] = b"\0Attribut";

/// The sources of all modules of a compound file; at most `budget` bytes are decompressed and
/// subtracted from it.
pub(super) fn sources(data: &[u8], budget: &mut usize) -> Vec<Vec<u8>> {
    let Some(file) = CompoundFile::read(data) else {
        return Vec::new();
    };
    let mut sources = Vec::new();
    // A `dir` is read twice, everything else once.
    let mut left = data.len().saturating_mul(2);
    for streams in file.storages() {
        let directory = streams
            .iter()
            .find(|stream| stream.name.eq_ignore_ascii_case("dir"));
        let directory = directory.and_then(|directory| file.content(directory, &mut left));
        let modules =
            directory.map_or_else(Vec::new, |directory| modules(&unpack(&directory, budget)));
        for stream in streams {
            let module = modules
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(&stream.name));
            if *budget == 0 {
                break;
            }
            let Some(content) = file.content(stream, &mut left) else {
                break;
            };
            let named = module.and_then(|&(_, at)| content.get(at..));
            let named = named.filter(|packed| packed.first() == Some(&SIGNATURE));
            let packed = named.or_else(|| {
                let at = memchr::memmem::find(&content, BEGINNING)?.checked_sub(3)?;
                content.get(at..)
            });
            let source = packed.map(|packed| unpack(packed, budget));
            sources.extend(source.filter(|source| !source.is_empty()));
        }
    }
    sources
}

/// The streams of modules, with the offsets of their sources.
fn modules(directory: &[u8]) -> Vec<(String, usize)> {
    let mut modules = Vec::new();
    let mut name = None;
    let mut rest = directory;
    while let Some((&[kind_low, kind_high, a, b, c, d], after)) = rest.split_first_chunk::<6>() {
        let kind = u16::from_le_bytes([kind_low, kind_high]);
        let length = match kind {
            // Its length field says 4, but the length is 6 (section 2.3.4.2.1.11).
            PROJECT_VERSION => 6,
            _ => u32::from_le_bytes([a, b, c, d]) as usize,
        };
        let Some((content, next)) = after.split_at_checked(length) else {
            break;
        };
        rest = next;
        match kind {
            MODULE_STREAM_NAME => name = Some(String::from_utf8_lossy(content).into_owned()),
            MODULE_STREAM_NAME_WIDE => name = Some(wide_text(content)),
            MODULE_OFFSET if modules.len() < MODULES_MAX => {
                let offset = content
                    .first_chunk()
                    .map(|offset| u32::from_le_bytes(*offset));
                modules.extend(name.take().zip(offset.map(|offset| offset as usize)));
            }
            _ => {}
        }
    }
    modules
}

/// Section 2.4.1.3: decompresses chunk by chunk, up to the first invalid one.
fn unpack(packed: &[u8], budget: &mut usize) -> Vec<u8> {
    let mut out = Vec::new();
    let Some((&SIGNATURE, mut rest)) = packed.split_first() else {
        return out;
    };
    while let Some((&head, after)) = rest.split_first_chunk::<2>() {
        let head = u16::from_le_bytes(head);
        // Section 2.4.1.1.5: twelve bits of length, three bits 0b011, one bit for compressed.
        if head >> 12 & 0b111 != 0b011 {
            break;
        }
        let length = usize::from(head & 0x0fff) + 1;
        let chunk = after.get(..length).unwrap_or(after);
        let start = out.len();
        if head & 0x8000 == 0 {
            out.extend_from_slice(chunk);
        } else {
            unpack_chunk(chunk, start, &mut out);
        }
        let added = out.len() - start;
        if added > *budget {
            out.truncate(start);
            *budget = 0;
            break;
        }
        *budget -= added;
        rest = after.get(length..).unwrap_or_default();
    }
    out
}

/// Section 2.4.1.3.2 to 2.4.1.3.5: groups of eight tokens, each a byte or a copy of earlier bytes.
fn unpack_chunk(chunk: &[u8], start: usize, out: &mut Vec<u8>) {
    let mut rest = chunk;
    while let Some((&flags, after)) = rest.split_first() {
        rest = after;
        for bit in 0..8 {
            if out.len() - start >= CHUNK_BYTES {
                return;
            }
            if flags & 1 << bit == 0 {
                let Some((&byte, after)) = rest.split_first() else {
                    return;
                };
                out.push(byte);
                rest = after;
                continue;
            }
            let Some((&token, after)) = rest.split_first_chunk::<2>() else {
                return;
            };
            rest = after;
            let token = u16::from_le_bytes(token);
            let done = out.len() - start;
            // Section 2.4.1.3.19.1: the distance has more bits at higher offsets.
            let distance_bits = done.next_power_of_two().trailing_zeros().clamp(4, 12);
            let length = usize::from(token & 0xffff >> distance_bits) + 3;
            let distance = usize::from(token >> (16 - distance_bits)) + 1;
            if distance > done {
                return;
            }
            for _ in 0..length.min(CHUNK_BYTES - done) {
                let byte = out.get(out.len() - distance).copied();
                out.extend(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        // MS-OVBA sections 3.2.1 to 3.2.3: no, some, and only repetitions.
        let plain = b"\x01\x19\xb0\x00abcdefgh\x00ijklmnop\x00qrstuv.";
        assert_eq!(unpack(plain, &mut 100), b"abcdefghijklmnopqrstuv.");
        let some = b"\x01\x2f\xb0\x00#aaabcde\x82f\x00paghij\x018\x08akl\x000mnop\
            \x06q\x02p\x04\x10rstuv\x10wxyz\x00<";
        let expected = b"#aaabcdefaaaaghijaaaaaklaaamnopqaaaaaaaaaaaarstuvwxyzaaa";
        assert_eq!(unpack(some, &mut 100), expected);
        let all = b"\x01\x03\xb0\x02a\x45\x00";
        assert_eq!(unpack(all, &mut 100), [b'a'; 73]);
        assert_eq!(unpack(all, &mut 72), b"", "beyond the budget");
    }

    #[test]
    fn any_bytes_are_unpacked_or_not() {
        use proptest::prelude::*;
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..200))| {
            let mut budget = 10_000;
            let packed = [&[SIGNATURE][..], &bytes].concat();
            prop_assert!(unpack(&packed, &mut budget).len() <= 10_000);
            modules(&bytes);
        });
    }
}
