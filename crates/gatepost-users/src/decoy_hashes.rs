//! The hashes that the passwords of unknown users are compared with.
//!
//! A check takes the time of its hash, which differs between ours and those of other servers. So
//! an unknown name gets the kind of hash that a user of this name might have: always the same, and
//! each kind for the share of names that it has among the users.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::foreign_hash::{self, PasswordHashKind};
use crate::scram::hmac_sha256;

/// The kinds of hashes that the users have.
#[derive(Default)]
pub(crate) struct DecoyHashes {
    /// One hash of each kind that another server made, and the number of its users. Ours are last,
    /// by omission: as logins replace the others, most names that change their kind get ours, as
    /// those of users do.
    foreign: Vec<(Arc<str>, u64)>,
    users: u64,
}

impl DecoyHashes {
    pub(crate) fn of<'a>(hashes: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let mut by_kind: BTreeMap<PasswordHashKind, (Arc<str>, u64)> = BTreeMap::new();
        let mut users = 0;
        for hash in hashes {
            users += 1;
            if let Some(kind) = foreign_hash::kind(hash) {
                let (_, count) = by_kind.entry(kind).or_insert_with(|| (hash.clone(), 0));
                *count += 1;
            }
        }
        Self {
            foreign: by_kind.into_values().collect(),
            users,
        }
    }

    /// The hash for an unknown user of this folded name; `None` for one of our kind. The key keeps
    /// strangers from computing which names have which kind.
    pub(crate) fn choose(&self, key: &[u8], folded_name: &str) -> Option<&Arc<str>> {
        let digest = hmac_sha256(key, &[b"kind of hash\0", folded_name.as_bytes()]);
        let first = digest
            .first_chunk()
            .map_or(0, |bytes| u64::from_be_bytes(*bytes));
        // The place of this name among as many places as there are users.
        let mut place = (u128::from(first) * u128::from(self.users)) >> u64::BITS;
        for (hash, count) in &self.foreign {
            let count = u128::from(*count);
            if place < count {
                return Some(hash);
            }
            place -= count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"pepper";

    fn own() -> Arc<str> {
        crate::password::decoy_hash().into()
    }

    /// A hash of bcrypt with this cost, of no password.
    fn bcrypt(cost: u32, salt: char) -> Arc<str> {
        let rest = String::from(salt).repeat(53);
        format!("$2b${cost:02}${rest}").into()
    }

    fn pbkdf2(iterations: u32) -> Arc<str> {
        let hash = "A".repeat(86);
        format!("$7${iterations}$c2FsdHNhbHQ=${hash}==").into()
    }

    /// The number of names, of a thousand, that get each kind; ours is `None`.
    fn counts(hashes: &[Arc<str>]) -> BTreeMap<Option<PasswordHashKind>, usize> {
        let decoys = DecoyHashes::of(hashes.iter());
        let mut counts = BTreeMap::new();
        for number in 0..1_000 {
            let chosen = decoys.choose(KEY, &format!("user {number}"));
            let kind = chosen.map(|hash| foreign_hash::kind(hash).expect("a foreign hash"));
            *counts.entry(kind).or_default() += 1;
        }
        counts
    }

    #[test]
    fn unknown_names_have_the_kinds_of_the_users_in_their_proportion() {
        let (few, many) = (
            PasswordHashKind::Bcrypt { cost: 4 },
            PasswordHashKind::Bcrypt { cost: 10 },
        );
        let slow = PasswordHashKind::Pbkdf2 { iterations: 101 };
        let hashes = [
            own(),
            bcrypt(4, 'a'),
            bcrypt(10, 'a'),
            bcrypt(10, 'b'),
            pbkdf2(101),
        ];
        let counts = counts(&hashes);
        assert_eq!(counts.len(), 4, "{counts:?}");
        for (kind, share) in [(Some(few), 1), (Some(many), 2), (Some(slow), 1), (None, 1)] {
            let expected = share * 1_000 / hashes.len();
            let found = counts.get(&kind).copied().unwrap_or_default();
            // The names are fixed, so is the outcome: within a few standard deviations.
            assert!(found.abs_diff(expected) < 50, "{kind:?}: {counts:?}");
        }
    }

    #[test]
    fn without_imported_users_the_kind_is_ours_and_without_others_it_is_theirs() {
        assert_eq!(counts(&[]), BTreeMap::from([(None, 1_000)]));
        assert_eq!(counts(&[own(), own()]), BTreeMap::from([(None, 1_000)]));
        let kind = PasswordHashKind::Bcrypt { cost: 10 };
        let all = BTreeMap::from([(Some(kind), 1_000)]);
        assert_eq!(counts(&[bcrypt(10, 'a'), bcrypt(10, 'b')]), all);
    }

    #[test]
    fn a_name_keeps_its_kind_and_strangers_cannot_compute_it() {
        let hashes = [own(), bcrypt(10, 'a')];
        let decoys = DecoyHashes::of(hashes.iter());
        let kinds = |key: &[u8]| -> Vec<bool> {
            let names = (0..64).map(|number| format!("user {number}"));
            names
                .map(|name| decoys.choose(key, &name).is_some())
                .collect()
        };
        assert_eq!(kinds(KEY), kinds(KEY));
        assert_ne!(kinds(KEY), kinds(b"another"));
        // Another user of our kind changes few names, and gives none the other kind.
        let more = [own(), own(), bcrypt(10, 'a')];
        let more = DecoyHashes::of(more.iter());
        for number in 0..64 {
            let name = format!("user {number}");
            let (before, after) = (decoys.choose(KEY, &name), more.choose(KEY, &name));
            assert!(before.is_some() || after.is_none(), "{name}");
        }
    }
}
