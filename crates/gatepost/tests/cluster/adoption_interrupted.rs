//! A node begins to adopt the publications of a failed one, and does not come to the end.

use super::adoption::await_adopted;
use super::log::{kept_session, messages};
use super::moves::resumed;
use super::nats::{self, Nats};
use super::support::Gateway;
use super::upgrade::{await_unreadable, remove, write_later};
use super::{PLAIN, await_joined, publish};

pub(crate) const PARTITIONS: u16 = 4;

fn settings(nats: &Nats, number: u8, adopt_after: &str) -> String {
    format!(
        "{}backbone.adopt_after = \"{adopt_after}\"\n{PLAIN}",
        nats.settings(number)
    )
}

/// The NATS server forgets message ids soon, so that it stores a second entry with the same one.
pub(crate) fn forget_message_ids(nats: &Nats) {
    for number in 1..=PARTITIONS {
        nats.update(&format!("GP_P{number}"), |config| {
            config["duplicate_window"] = 100_000_000.into();
        });
    }
}

/// Entries of a later version of Gatepost, beyond which no node reads the log.
fn block_all(nats: &Nats) -> Vec<u64> {
    let block = |number| write_later(nats, &format!("gp.p.{number}"));
    (1..=PARTITIONS).map(block).collect()
}

fn unblock_all(nats: &Nats, sequences: Vec<u64>) {
    for (number, sequence) in (1..).zip(sequences) {
        remove(nats, &format!("GP_P{number}"), sequence);
        // Limits never remove the last entry alone, and a node waits for it. All nodes pass over
        // an entry that has only the number of its encoding.
        nats.store(&format!("gp.p.{number}"), &[1]);
    }
}

#[test]
fn a_publication_in_the_log_is_appended_once_although_its_adoption_was_interrupted() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), tempfile::tempdir().expect("a folder"));
    let one = Gateway::start(&settings(&nats, 1, "1h"));
    let two = Gateway::start_in(folder.path(), &settings(&nats, 2, "1h"));
    await_joined(&one, 1);
    await_joined(&two, 1);
    forget_message_ids(&nats);
    let mut kept = kept_session(&two, "kept", "u/#", &[]);
    // The first node keeps the publication, since it does not read it back from the log.
    let blocks = block_all(&nats);
    await_unreadable(&one, u64::from(PARTITIONS));
    publish(&one, "u/x", "once", &["-q", "2", "-c", "-i", "sender"]);
    one.kill();
    unblock_all(&nats, blocks);
    kept.await_line("u/x once 2");
    drop(kept);
    // The second node has read it, and cannot look through the rest of the log.
    let blocks = block_all(&nats);
    await_unreadable(&two, u64::from(PARTITIONS));
    two.kill();
    let two = Gateway::start_in(folder.path(), &settings(&nats, 2, "500ms"));
    await_unreadable(&two, u64::from(PARTITIONS) + 1);
    let log = two.log();
    assert!(log.contains("the log cannot be read further"), "{log}");
    two.kill();
    unblock_all(&nats, blocks);
    let three = Gateway::start(&settings(&nats, 3, "500ms"));
    await_joined(&three, 0);
    await_adopted(&three, 2);
    let mut kept = resumed(&three, "kept");
    publish(&three, "u/x", "last", &["-q", "2"]);
    kept.await_line("u/x last 2");
    assert_eq!(messages(&mut kept, "u/x"), ["u/x last 2"]);
}
