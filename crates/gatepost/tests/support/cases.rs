//! Data files of cases: blocks with an empty line between them. The first line of a block is its
//! name, after `#`; the others are `field: value`. The values of a repeated field are joined. Bytes
//! have escapes as in Rust strings, and `\{3:abc}` is three times `abc`.

use std::path::Path;

/// One case.
pub(crate) struct Block {
    pub name: String,
    lines: Vec<String>,
}

/// The cases of a file.
pub(crate) fn blocks(path: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    blocks
        .map(|block| {
            let mut lines = block.lines().map(str::to_owned);
            let name = lines.next().unwrap_or_default();
            Block {
                name: name.trim_start_matches("# ").to_owned(),
                lines: lines.collect(),
            }
        })
        .collect()
}

impl Block {
    /// The text of a field; empty where the case has none.
    pub(crate) fn field(&self, name: &str) -> String {
        let start = format!("{name}: ");
        let values = self
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix(&start));
        values.collect()
    }

    /// The bytes that a field describes.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        unescape(&self.field(name))
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&kind, tail) = rest.split_first().expect("an escape is complete");
        rest = tail;
        match kind {
            b'r' => bytes.push(b'\r'),
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'0' => bytes.push(0),
            b'\\' => bytes.push(b'\\'),
            b'{' => {
                let end = rest
                    .iter()
                    .position(|&byte| byte == b'}')
                    .expect("a closing brace");
                let repeated = String::from_utf8_lossy(&rest[..end]);
                let (count, piece) = repeated.split_once(':').expect("a count");
                bytes.extend(unescape(piece).repeat(count.parse().expect("a count")));
                rest = &rest[end + 1..];
            }
            b'x' => {
                let digits = std::str::from_utf8(&rest[..2]).expect("two digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("a hexadecimal number"));
                rest = &rest[2..];
            }
            other => panic!("unknown escape \\{}", other as char),
        }
    }
    bytes
}
