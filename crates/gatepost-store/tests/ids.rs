//! The highest message id over failed commits. Ids belong to the process, so this test has its own.

use std::sync::Arc;
use std::time::Duration;

use gatepost_faults::{Disk, Fault, FaultEffect, FileOperation};
use gatepost_message::{MessageId, Publication, Topic};
use gatepost_store::{Store, StoreChange, StoreError, StoreSettings};

async fn commit(store: &Store) -> Result<(), StoreError> {
    let topic = Topic::new("a").expect("a topic");
    let change = StoreChange::History(Arc::new(Publication::new(topic, "x")));
    store.submit([change]).expect("taken").committed().await
}

/// The row of a commit that failed is not in the database: the next commit must write it.
#[tokio::test]
async fn the_highest_id_is_kept_though_a_commit_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::at(folder.path());
    let settings = StoreSettings {
        reserve: "0B".parse().expect("a size"),
        ..StoreSettings::default()
    };
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    commit(&store).await.expect("a commit");
    // As after a quick restart: ids that the row does not cover.
    let ahead = MessageId::highest().time() + Duration::from_hours(1);
    assert!(MessageId::continue_after(MessageId::floor_at(ahead)));
    disk.inject(Fault::new(FileOperation::Write, FaultEffect::Error).times(1));
    assert!(commit(&store).await.is_err());
    disk.remove_faults();
    commit(&store).await.expect("a commit");
    let database = rusqlite::Connection::open(folder.path().join("gatepost.db")).expect("open");
    let kept: i64 = database
        .query_row("SELECT highest_id FROM clock", [], |row| row.get(0))
        .expect("the row");
    let highest = MessageId::highest().number();
    assert!(kept as u64 >= highest, "{kept} is below {highest}");
}
