//! An entry of shared records: its name in the bucket, its stored form, and changes of it.
//!
//! The stored form is JSON, so that an operator can read it with any tool. Its version rises when
//! an earlier server would lose something by writing it.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use bytes::Bytes;
use gatepost_store::{SharedEntry, SharedSet, StoreChange};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::bucket::ENTRY_BYTES_MAX;

/// The version of the stored form.
const VERSION: u32 = 1;
/// The longest name in the bucket, in bytes; the digest replaces a longer one.
const KEY_BYTES_MAX: usize = 512;
/// The prefix of a digest. No other name has this character before a letter `S`.
const DIGEST: &str = "=SHA256-";

/// The sets of records that a cluster shares.
pub(crate) type SharedSets = &'static [&'static SharedSet];

/// An entry cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    /// It is not in the stored form.
    #[error("an entry of the bucket cannot be read: {0}")]
    Malformed(String),
    /// A later version of Gatepost has written it.
    #[error(
        "an entry of the bucket of users is not in force here: a later version of Gatepost has \
         written it, with encoding {0}, and this server knows {VERSION}; update this server"
    )]
    Later(u32),
    /// It has too many bytes.
    #[error(
        "{0} bytes of one user or group are more than the {ENTRY_BYTES_MAX} that a cluster stores"
    )]
    TooLong(usize),
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    version: u32,
    records: Vec<StoredRecord>,
}

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    space: String,
    key: StoredBytes,
    value: StoredBytes,
}

/// Bytes as text, or, if they are not UTF-8, as hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredBytes {
    Text(String),
    Hex { hex: String },
}

impl StoredBytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex { hex: hex(bytes) },
        }
    }

    fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Hex { hex } => unhex(&hex).map(Bytes::from),
        }
    }
}

/// The name of an entry in the bucket: the set, and the name in which every byte that is no letter,
/// digit, `-` or `_` is written `=xx`.
pub(crate) fn key(entry: SharedEntry<'_>) -> String {
    let mut key = format!("{}.", entry.set.name);
    for byte in entry.name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            key.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(key, "={byte:02x}");
        }
    }
    if key.len() > KEY_BYTES_MAX {
        let digest = hex(&Sha256::digest(entry.name));
        return format!("{}.{DIGEST}{digest}", entry.set.name);
    }
    key
}

/// Whether a key of the bucket is that of an entry of the set.
pub(crate) fn is_in(set: &SharedSet, key: &str) -> bool {
    let rest = key.strip_prefix(set.name);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// The records of one entry, by space and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryRecords(BTreeMap<(&'static str, Bytes), Bytes>);

impl EntryRecords {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn put(&mut self, space: &'static str, key: Bytes, value: Bytes) {
        self.0.insert((space, key), value);
    }

    /// Applies a change of the database.
    pub(crate) fn apply(&mut self, change: StoreChange) {
        match change {
            StoreChange::PutRecord { space, key, value } => self.put(space, key, value),
            StoreChange::DeleteRecord { space, key } => {
                self.0.remove(&(space, key));
            }
            StoreChange::DeleteRecords { space, prefix } => {
                let is_kept = |at: &(&str, Bytes)| at.0 != space || !at.1.starts_with(&prefix);
                self.0.retain(|at, _| is_kept(at));
            }
            // The owners of shared records make no other changes of them.
            other => tracing::error!(target: "backbone", ?other, "a change is not shared"),
        }
    }

    /// The facts that are remembered of these records.
    pub(crate) fn shape(&self) -> EntryShape {
        let records = self.0.iter();
        let shapes = records.map(|((space, key), value)| ((*space, key.clone()), digest(value)));
        EntryShape(shapes.collect())
    }

    /// The changes that make these records of earlier ones, and what is remembered then.
    pub(crate) fn changes_from(&self, earlier: &EntryShape) -> (Vec<StoreChange>, EntryShape) {
        let shape = self.shape();
        let gone = earlier.0.iter().filter(|(at, _)| !self.0.contains_key(at));
        let removals = gone.map(|((space, key), _)| StoreChange::DeleteRecord {
            space,
            key: key.clone(),
        });
        // The shape has the order of the records.
        let records = self.0.iter().zip(&shape.0);
        let differing =
            records.filter(|((at, _), (_, digest))| earlier.digest_of(at) != Some(*digest));
        let puts = differing.map(|(((space, key), value), _)| StoreChange::PutRecord {
            space,
            key: key.clone(),
            value: value.clone(),
        });
        let changes = removals.chain(puts).collect();
        (changes, shape)
    }

    /// The stored form.
    pub(crate) fn encode(&self) -> Result<Bytes, EntryError> {
        let records = self.0.iter().map(|((space, key), value)| StoredRecord {
            space: (*space).to_owned(),
            key: StoredBytes::of(key),
            value: StoredBytes::of(value),
        });
        let stored = StoredEntry {
            version: VERSION,
            records: records.collect(),
        };
        // Strings and numbers can always be serialised.
        let stored = serde_json::to_vec(&stored).unwrap_or_default();
        if stored.len() > ENTRY_BYTES_MAX {
            return Err(EntryError::TooLong(stored.len()));
        }
        Ok(stored.into())
    }

    /// The records in the stored form of the entry with this name in the bucket.
    pub(crate) fn decode(name: &str, stored: &[u8], sets: SharedSets) -> Result<Self, EntryError> {
        let malformed = |cause: &dyn Display| EntryError::Malformed(cause.to_string());
        /// The part that every version has.
        #[derive(Deserialize)]
        struct EntryVersion {
            version: u32,
        }
        let version: EntryVersion =
            serde_json::from_slice(stored).map_err(|error| malformed(&error))?;
        if version.version > VERSION {
            return Err(EntryError::Later(version.version));
        }
        let stored: StoredEntry =
            serde_json::from_slice(stored).map_err(|error| malformed(&error))?;
        let mut records = Self::default();
        for record in stored.records {
            let mut spaces = sets
                .iter()
                .flat_map(|set| set.spaces.iter().map(move |space| (set, space)));
            let found = spaces.find(|(_, space)| **space == record.space);
            let (set, space) = found.ok_or_else(|| malformed(&"an unknown space"))?;
            let (key, value) = (record.key.bytes(), record.value.bytes());
            let both = key.zip(value);
            let (key, value) = both.ok_or_else(|| malformed(&"wrong hexadecimal digits"))?;
            // A record of another user would otherwise be in force until that user's entry changes.
            let owner = (set.entry_of)(space, &key, &value);
            let owner = owner.map(|name| self::key(SharedEntry { set, name: &name }));
            if owner.is_none_or(|owner| owner != name) {
                return Err(malformed(&"a record of another entry"));
            }
            records.put(space, key, value);
        }
        Ok(records)
    }
}

/// The facts that are remembered of the records of an entry: their spaces and keys, in order, and
/// a digest of each value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryShape(Vec<((&'static str, Bytes), ValueDigest)>);

/// Half of a SHA-256.
type ValueDigest = [u8; 16];

impl EntryShape {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn digest_of(&self, at: &(&'static str, Bytes)) -> Option<ValueDigest> {
        let found = self.0.binary_search_by(|(other, _)| other.cmp(at)).ok()?;
        Some(self.0[found].1)
    }
}

fn digest(value: &[u8]) -> ValueDigest {
    let whole: [u8; 32] = Sha256::digest(value).into();
    let mut half = ValueDigest::default();
    half.copy_from_slice(&whole[..size_of::<ValueDigest>()]);
    half
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static SET: SharedSet = SharedSet {
        name: "access",
        is_generated: false,
        spaces: &["user", "token"],
        entry_of: |_, key, _| Some(if key == b"zoe" { "zoe" } else { "anna" }.to_owned()),
    };
    const SETS: SharedSets = &[&SET];

    fn records(records: &[(&'static str, &'static [u8], &'static str)]) -> EntryRecords {
        let mut entry = EntryRecords::default();
        for (space, key, value) in records {
            entry.put(
                space,
                Bytes::from_static(key),
                Bytes::from_static(value.as_bytes()),
            );
        }
        entry
    }

    #[test]
    fn an_entry_is_read_as_it_was_stored() {
        let mut entry = records(&[
            ("user", b"j\xc3\xbcrgen", "{}"),
            ("token", b"\xff\x00", "x"),
        ]);
        entry.put(
            "user",
            Bytes::from_static(b"b"),
            Bytes::from_static(b"\xff"),
        );
        let stored = entry.encode().expect("short enough");
        let decode = |stored: &[u8]| EntryRecords::decode("access.anna", stored, SETS);
        assert_eq!(decode(&stored), Ok(entry));
        assert_eq!(
            decode(b"{\"version\":2,\"what\":1}"),
            Err(EntryError::Later(2))
        );
        let with = |record: &str| format!("{{\"version\":1,\"records\":[{record}]}}");
        for stored in [
            String::new(),
            "{}".to_owned(),
            "{\"version\":1}".to_owned(),
            with("{\"space\":\"mail\",\"key\":\"a\",\"value\":\"\"}"),
            with("{\"space\":\"user\",\"value\":\"\"}"),
            with("{\"space\":\"user\",\"key\":{\"hex\":\"f\"},\"value\":\"\"}"),
            with("{\"space\":\"user\",\"key\":{\"hex\":\"+1\"},\"value\":\"\"}"),
            with("{\"space\":\"user\",\"key\":\"zoe\",\"value\":\"\"}"),
        ] {
            let read = decode(stored.as_bytes());
            assert!(matches!(read, Err(EntryError::Malformed(_))), "{stored}");
        }
    }

    #[test]
    fn an_entry_that_is_too_long_is_refused() {
        let mut entry = EntryRecords::default();
        entry.put(
            "user",
            Bytes::from_static(b"anna"),
            vec![b'x'; 1_000].into(),
        );
        assert!(entry.encode().is_ok());
        let long = vec![b'x'; ENTRY_BYTES_MAX];
        entry.put("user", Bytes::from_static(b"anna"), long.into());
        assert!(matches!(entry.encode(), Err(EntryError::TooLong(_))));
    }

    #[test]
    fn the_changes_between_two_states_lead_from_one_to_the_other() {
        let before = records(&[
            ("user", b"a", "1"),
            ("token", b"t", "2"),
            ("token", b"u", "3"),
        ]);
        let after = records(&[
            ("user", b"a", "9"),
            ("token", b"u", "3"),
            ("token", b"v", "4"),
        ]);
        let (changes, shape) = after.changes_from(&before.shape());
        assert_eq!(shape, after.shape());
        assert_eq!(changes.len(), 3, "{changes:?}");
        let mut changed = before.clone();
        for change in changes {
            changed.apply(change);
        }
        assert_eq!(changed, after);
        changed.apply(StoreChange::DeleteRecords {
            space: "token",
            prefix: Bytes::new(),
        });
        assert_eq!(changed, records(&[("user", b"a", "9")]));
        assert!(after.changes_from(&after.shape()).0.is_empty());
    }

    #[test]
    fn each_name_has_a_key_of_its_own_that_the_engine_accepts() {
        let long = "x".repeat(600);
        let longer = "x".repeat(601);
        let names = [
            "a", "A", "a.b", "a=2eb", "a b", "\u{fc}", "*", ">", &long, &longer,
        ];
        let mut keys: Vec<String> = Vec::new();
        for name in names {
            let key = key(SharedEntry { set: &SET, name });
            let is_plain =
                |character: char| character.is_ascii_alphanumeric() || "-_=.".contains(character);
            assert!(
                key.chars().all(is_plain) && key.len() <= KEY_BYTES_MAX,
                "{key}"
            );
            assert!(!keys.contains(&key), "{key}");
            keys.push(key);
        }
        assert_eq!(keys[2], "access.a=2eb");
    }
}
