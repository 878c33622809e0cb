//! A quarantined message leaves the quarantine only if its release was stored.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_broker::{Broker, BrokerSettings};
use gatepost_gateway::{Gateway, MailPayload, ReleaseTargets};
use gatepost_message::{Action, Envelope, Listener, MessageId, Peer, Topic};
use gatepost_procedures::{DeferredRules, Procedures, ProceduresConfiguration};
use gatepost_store::{JournalEntry, QuarantineEntry, Store, StoreSettings};

const TOPIC: &str = "mail/anna";

fn settings(reserve: &str) -> StoreSettings {
    StoreSettings {
        reserve: reserve.parse().expect("a size"),
        ..StoreSettings::default()
    }
}

fn entry() -> QuarantineEntry {
    let envelope = Envelope::new(Listener::Http, Peer::Local);
    let topic = Topic::new(TOPIC).expect("a topic");
    QuarantineEntry {
        journal: JournalEntry {
            id: MessageId::next(),
            envelope,
            topic: Some(topic),
            topics: Vec::new(),
            subject: None,
            size: 4,
            action: Action::Quarantine,
            score: None,
            hits: Vec::new(),
            reason: "suspicious".to_owned(),
            procedure: String::new(),
            duration: Duration::ZERO,
            deliveries: 0,
        },
        body: Bytes::from_static(b"text"),
        properties: None,
        retain: false,
    }
}

/// A gateway whose procedures judge nothing.
fn gateway(store: &Store) -> Gateway {
    let broker = Broker::open(BrokerSettings::default(), store.clone()).expect("a broker");
    let rules = DeferredRules::new(|| None, |_| ());
    let started = Procedures::start(ProceduresConfiguration::default(), rules);
    let (procedures, _) = started.expect("no mistakes");
    Gateway::new(procedures, Arc::new(broker), store.clone())
}

async fn release(store: &Store, id: MessageId, mailboxes: &[&str]) -> Action {
    let quarantined = store.quarantined(id).expect("read").expect("in quarantine");
    let targets = ReleaseTargets {
        topics: vec![Topic::new(TOPIC).expect("a topic")],
        mailboxes: mailboxes.iter().map(|&user| user.to_owned()).collect(),
        ..ReleaseTargets::default()
    };
    let gateway = gateway(store);
    let released = gateway.release(quarantined, MailPayload::Text, targets);
    released.await.verdict.action
}

#[tokio::test]
async fn a_full_disk_keeps_a_message_in_quarantine_and_releases_it_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = entry();
    let id = kept.journal.id;
    let (store, _) = Store::open(folder.path(), &settings("0B")).expect("a store");
    let ticket = store.quarantine_message(kept).expect("taken");
    ticket.committed().await.expect("stored");
    store.close();
    drop(store);

    let (full, _) = Store::open(folder.path(), &settings("9000000GB")).expect("a store");
    for mailboxes in [&[][..], &["anna"]] {
        assert_eq!(release(&full, id, mailboxes).await, Action::Defer);
        full.flush().await;
        assert_eq!(full.quarantine_count().expect("read"), 1);
        let journal = full.journal_entry(id).expect("read").expect("an entry");
        assert_eq!(journal.action, Action::Quarantine);
    }
    full.close();
    drop(full);

    let (store, _) = Store::open(folder.path(), &settings("0B")).expect("a store");
    assert_eq!(release(&store, id, &["anna"]).await, Action::Accept);
    assert_eq!(store.quarantine_count().expect("read"), 0);
    let journal = store.journal_entry(id).expect("read").expect("an entry");
    assert_eq!(journal.action, Action::Accept);
    assert_eq!(store.mailbox("anna").expect("read").len(), 1);
}
