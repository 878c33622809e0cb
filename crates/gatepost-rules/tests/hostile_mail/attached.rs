//! Archives and office files that make a reader read the same bytes again and again: tens of
//! thousands of entries share them.

const NO_SECTOR: u32 = 0xffff_ffff;
const CHAIN_END: u32 = 0xffff_fffe;
const TABLE_SECTOR: u32 = 0xffff_fffd;
const SECTOR_BYTES: usize = 512;

/// A message with one attached file.
pub(crate) fn message(name: &str, content: &[u8]) -> Vec<u8> {
    // Quoted-printable needs no table of letters: each byte by its number.
    let mut text = format!(
        "Subject: x\nContent-Type: application/octet-stream; name={name}\n\
         Content-Transfer-Encoding: quoted-printable\n\n"
    )
    .into_bytes();
    let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
    for (index, byte) in content.iter().enumerate() {
        text.extend([b'=', digit(byte >> 4), digit(byte & 15)]);
        if index % 24 == 23 {
            text.extend(b"=\n");
        }
    }
    text.push(b'\n');
    text
}

/// An archive whose directory names one stored member `entries` times.
pub(crate) fn archive(entries: u16, content: &[u8]) -> Vec<u8> {
    let name = b"word/vbaProject.bin";
    let length = u32::try_from(content.len()).expect("small").to_le_bytes();
    let name_length = (name.len() as u16).to_le_bytes();
    let mut file = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([&length[..], &length, &name_length, b"\0\0", name, content].concat());
    let directory_at = u32::try_from(file.len()).expect("small");
    let mut entry = b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    entry.extend([&length[..], &length, &name_length].concat());
    entry.extend([0; 16]);
    entry.extend(name);
    file.extend(entry.repeat(usize::from(entries)));
    let directory_bytes = (entry.len() as u32 * u32::from(entries)).to_le_bytes();
    let count = entries.to_le_bytes();
    file.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &directory_bytes].concat());
    file.extend([&directory_at.to_le_bytes()[..], b"\0\0"].concat());
    file
}

/// A compound file with `streams` streams, which all are the same chain of sectors.
pub(crate) fn compound_file(streams: u32, content: &[u8]) -> Vec<u8> {
    let sectors = |bytes: usize| bytes.div_ceil(SECTOR_BYTES);
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(sectors(bytes.len()) * SECTOR_BYTES, 0);
        bytes
    };
    let mut directory = entry("Root Entry", 5, NO_SECTOR, 1, 0);
    for number in 1..=streams {
        let name = if number % 2 == 0 { "dir" } else { "VBA" };
        let next = if number < streams {
            number + 1
        } else {
            NO_SECTOR
        };
        directory.extend(entry(name, 2, next, NO_SECTOR, content.len() as u64));
    }
    let (content, directory) = (padded(content.to_vec()), padded(directory));
    let chain = |first: usize, count: usize| {
        let next = (first + 1..first + count).map(|sector| sector as u32);
        next.chain([CHAIN_END])
    };
    let directory_at = sectors(content.len());
    let table_at = directory_at + sectors(directory.len());
    let mut table: Vec<u32> = chain(0, directory_at).collect();
    table.extend(chain(directory_at, table_at - directory_at));
    let places = SECTOR_BYTES / 4;
    let table_sectors = (table_at + table_at / places + 1).div_ceil(places);
    assert!(
        table_sectors <= 109,
        "the header names all sectors of the table"
    );
    table.resize(table_at + table_sectors, TABLE_SECTOR);
    table.resize(table_sectors * places, NO_SECTOR);

    let mut file = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    file.resize(24, 0);
    file.extend([0x3e, 0, 3, 0, 0xfe, 0xff, 9, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    let header = [
        0,
        table_sectors as u32,
        directory_at as u32,
        0,
        4096,
        CHAIN_END,
        0,
        CHAIN_END,
        0,
    ];
    let named = (table_at..table_at + table_sectors).map(|sector| sector as u32);
    let unused = std::iter::repeat_n(NO_SECTOR, 109 - table_sectors);
    let numbers = header.into_iter().chain(named).chain(unused);
    file.extend(numbers.flat_map(u32::to_le_bytes));
    assert_eq!(file.len(), SECTOR_BYTES);
    file.extend(content);
    file.extend(directory);
    file.extend(table.into_iter().flat_map(u32::to_le_bytes));
    file
}

/// An entry of a compound file's directory: 128 bytes.
fn entry(name: &str, kind: u8, right: u32, child: u32, length: u64) -> Vec<u8> {
    let mut entry: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let name_bytes = entry.len() as u16 + 2;
    entry.resize(64, 0);
    entry.extend(name_bytes.to_le_bytes());
    entry.extend([kind, 1]);
    entry.extend(
        [NO_SECTOR, right, child]
            .into_iter()
            .flat_map(u32::to_le_bytes),
    );
    entry.resize(116, 0);
    let start = if kind == 5 { CHAIN_END } else { 0 };
    entry.extend(start.to_le_bytes());
    entry.extend(length.to_le_bytes());
    entry
}
