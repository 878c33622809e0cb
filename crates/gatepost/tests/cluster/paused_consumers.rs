//! Consumers that deliver nothing, although their stream has more, and that the engine does not
//! report as lost.

use super::log::kept_session;
use super::nats::{self, Nats};
use super::senders::{await_entries, block};
use super::{mailboxes, publish, two_nodes};

#[test]
fn a_node_reads_the_log_on_after_its_consumers_were_paused() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut reader = kept_session(&two, "reader", "p/#", &[]);
    publish(&one, "p/1", "before", &["-q", "1"]);
    reader.await_line("p/1 before 1");
    for stream in ["GP_P1", "GP_P2", "GP_P3", "GP_P4"] {
        assert_eq!(nats.pause_consumers(stream), 2, "{stream}");
    }
    publish(&one, "p/1", "paused", &["-q", "1"]);
    reader.await_line("p/1 paused 1");
    let log = two.log();
    assert!(log.contains("deliver nothing of the stream GP_P"), "{log}");
}

#[test]
fn a_node_reads_shared_records_on_after_its_consumer_was_paused() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (_folders, one, two) = mailboxes::two_nodes(&nats);
    assert_eq!(block(&one, "anna", "before@example.org"), 200);
    await_entries(&two, "anna", &["before@example.org"]);
    assert_eq!(nats.pause_consumers("KV_GP_USERS"), 2);
    // The node that writes it waits until it has read it, or for as long as a writer waits.
    block(&one, "anna", "paused@example.org");
    await_entries(&two, "anna", &["before@example.org", "paused@example.org"]);
}
