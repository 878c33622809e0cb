//! A disk that reports syncs as done and loses them at a power cut. Acknowledged rows can be lost,
//! but altered rows must be detected: a start finds rows as they were written, or is refused, and a
//! recovery then restores only such rows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use gatepost_faults::{Disk, Fault, FaultEffect, FileOperation};
use gatepost_message::{MessageId, Publication, Topic};
use gatepost_store::{OnDamage, Store, StoreChange, StoreError, StoreSettings};

const SEEDS: u64 = 60;
const MESSAGES: u64 = 40;

/// The sequence of Steele, Lea and Flood (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }
}

fn open(folder: &Path, on_damage: OnDamage) -> Result<Store, StoreError> {
    let settings = StoreSettings {
        reserve: "0B".parse().expect("a size"),
        on_damage,
        ..StoreSettings::default()
    };
    Store::open(folder, &settings).map(|(store, _)| store)
}

fn payload(number: u64) -> Vec<u8> {
    vec![(number % 251) as u8; (number * 677 % 9_000) as usize]
}

/// Commits messages until the power is cut.
async fn commit_all(store: &Store) {
    for number in 1..=MESSAGES {
        let topic = Topic::new("a").expect("a topic");
        let publication = Publication {
            id: MessageId::from_number(number),
            ..Publication::new(topic, payload(number))
        };
        let submitted = store.submit([StoreChange::History(Arc::new(publication))]);
        let Ok(ticket) = submitted else {
            return;
        };
        if ticket.committed().await.is_err() {
            return;
        }
    }
}

/// Every row that the store returns is one that was written.
fn expect_unaltered(store: &Store, seed: u64) {
    // Found by a checksum while reading, a damaged row ends the query: noticed too.
    let Ok(history) = store.history(1_000, 1_000) else {
        return;
    };
    let mut found = BTreeSet::new();
    for publication in history {
        let number = publication.id.number();
        assert!(found.insert(number), "seed {seed}: {number} is there once");
        assert!((1..=MESSAGES).contains(&number), "seed {seed}: {number}");
        assert!(
            publication.payload == payload(number),
            "seed {seed}: {number} was altered"
        );
    }
}

#[tokio::test]
async fn damage_by_a_lying_disk_is_noticed() {
    let (mut served, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::at(folder.path());
        let lie = Fault::new(FileOperation::Sync, FaultEffect::Lie);
        let cut = Fault::new(FileOperation::Write, FaultEffect::PowerCut);
        disk.inject(lie.after(random.below(10)));
        if random.below(2) == 0 {
            disk.inject(cut.after(50 + random.below(100)).times(1));
        }
        // The power cut may happen during a start.
        if let Ok(store) = open(folder.path(), OnDamage::Refuse) {
            commit_all(&store).await;
            if random.below(2) == 0 {
                // A stopped store has moved its log into the database.
                drop(store);
            } else {
                disk.cut_power();
            }
        }
        disk.cut_power();
        let mut arrives = || random.below(2) == 0;
        disk.restore_power(&mut arrives).expect("restored");
        match open(folder.path(), OnDamage::Refuse) {
            Ok(store) => {
                served += 1;
                expect_unaltered(&store, seed);
            }
            Err(StoreError::Damaged { .. }) => {
                refused += 1;
                let store = open(folder.path(), OnDamage::Recover).expect("a recovery");
                expect_unaltered(&store, seed);
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(
        served > 0 && refused > 0,
        "{served} served, {refused} refused"
    );
}
