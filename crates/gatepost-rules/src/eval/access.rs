//! AccessDB: the access map of a mail server, which lists permitted and rejected senders.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::ScannedMail;
use super::{Entry, berkeley_hash, bound};

pub(super) const FUNCTIONS: &[Entry] = &[("check_access_database", |arguments| {
    let map = AccessMap::new(arguments.text(0)?.into());
    map.check()?;
    bound(move |mail| map.refuses(mail))
})];

/// The largest map that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

type AccessTable = HashMap<Vec<u8>, Vec<u8>>;

/// A map in a file, read again when the file changes.
struct AccessMap {
    path: PathBuf,
    read: Mutex<(Option<SystemTime>, Arc<AccessTable>)>,
}

impl AccessMap {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::default(),
        }
    }

    /// A file of another kind is reported when rules are loaded. A missing file is not a problem:
    /// stock rules name the usual path of Sendmail's map.
    fn check(&self) -> Result<(), String> {
        match fs::read(&self.path) {
            Ok(data) if berkeley_hash::read(&data).is_none() => Err(format!(
                "{} is not a Berkeley DB hash file, as makemap hash makes them",
                self.path.display()
            )),
            _ => Ok(()),
        }
    }

    /// The current map; empty if there is none, as in SpamAssassin.
    fn table(&self) -> Arc<AccessTable> {
        let found = fs::metadata(&self.path)
            .ok()
            .filter(|found| found.len() <= FILE_BYTES_MAX);
        let changed = found.and_then(|found| found.modified().ok());
        let mut read = self.read.lock();
        if read.0 != changed {
            let table = match changed.map(|_| fs::read(&self.path)) {
                Some(Ok(data)) => berkeley_hash::read(&data).unwrap_or_default(),
                _ => AccessTable::new(),
            };
            *read = (changed, Arc::new(table));
        }
        read.1.clone()
    }

    fn refuses(&self, mail: &ScannedMail<'_>) -> bool {
        let table = self.table();
        if table.is_empty() {
            return false;
        }
        let mut is_refused = false;
        for key in keys(mail) {
            let with_tag = [b"From:", &key[..]].concat();
            for key in [with_tag, key] {
                match table.get(&key).map(|action| AccessAction::of(action)) {
                    Some(AccessAction::Accept) => return false,
                    Some(AccessAction::Refuse) => is_refused = true,
                    Some(AccessAction::Other) | None => {}
                }
            }
        }
        is_refused
    }
}

/// The action on the right side of an entry.
enum AccessAction {
    Accept,
    Refuse,
    Other,
}

impl AccessAction {
    fn of(text: &[u8]) -> Self {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = text
            .iter()
            .position(|byte| !is_word(byte))
            .unwrap_or(text.len());
        let word = text.get(..end).unwrap_or_default().to_ascii_uppercase();
        match &word[..] {
            b"OK" | b"SKIP" => Self::Accept,
            b"REJECT" | b"ERROR" | b"DISCARD" => Self::Refuse,
            code if !code.is_empty() && code.iter().all(u8::is_ascii_digit) => Self::Refuse,
            _ => Self::Other,
        }
    }
}

/// The keys under which the origin of a message is looked up, most specific first: addresses,
/// users, domains with their parents, and the relay's name and address.
fn keys(mail: &ScannedMail<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for address in mail.sender_addresses() {
        let (user, domain) = match memchr::memchr(b'@', address) {
            Some(at) => (address.get(..at), address.get(at + 1..)),
            None => (Some(&address[..]), None),
        };
        keys.push(address.clone());
        if let Some(user) = user.filter(|user| !user.is_empty()) {
            keys.push([user, b"@"].concat());
        }
        if let Some(domain) = domain.filter(|domain| !domain.is_empty()) {
            keys.extend(parents(domain));
        }
    }
    if let Some(relay) = mail.relays().untrusted.first() {
        if !relay.no_reverse_dns {
            keys.extend(parents(relay.rdns.to_ascii_lowercase().as_bytes()));
        }
        let mut address: Vec<u8> = relay
            .ip
            .bytes()
            .filter(|byte| byte.is_ascii_digit() || *byte == b'.')
            .collect();
        while let Some(dot) = memchr::memrchr(b'.', &address) {
            keys.push(address.clone());
            address.truncate(dot);
        }
        keys.push(address);
    }
    keys
}

/// A domain and those above it.
fn parents(domain: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let dots = memchr::memchr_iter(b'.', domain).map(|dot| dot + 1);
    std::iter::once(0)
        .chain(dots)
        .filter_map(|start| domain.get(start..).map(<[u8]>::to_vec))
}
