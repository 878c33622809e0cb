use bytes::Bytes;
use gatepost_store::SharedRecords as _;

use super::*;
use crate::records::view::SharedView;

static SET: SharedSet = SharedSet {
    name: "access",
    is_generated: false,
    spaces: &["user", "token"],
    entry_of: |space, key, value| {
        let name = if space == "user" { key } else { value };
        std::str::from_utf8(name).map(str::to_owned).ok()
    },
};
static LISTS: SharedSet = SharedSet {
    name: "lists",
    is_generated: false,
    spaces: &["list"],
    entry_of: |_, key, _| std::str::from_utf8(key).map(str::to_owned).ok(),
};
const SETS: SharedSets = &[&SET, &LISTS];

struct FollowedStore {
    store: Store,
    view: Arc<RecordsView>,
    stored: StoredEntries,
}

impl FollowedStore {
    fn new() -> Self {
        Self {
            store: Store::in_memory().expect("a store"),
            view: Arc::new(RecordsView::new(SETS, true)),
            stored: StoredEntries::default(),
        }
    }

    /// Follows writes of the bucket; returns the number of changes in each commit.
    async fn follow(&mut self, writes: Vec<(String, KeyState)>) -> Vec<usize> {
        let states = writes.into_iter().collect();
        let mut updates = self.stored.differences(&states, &self.view).into_iter();
        let mut counts = Vec::new();
        while let Some(some) = next_commit(&mut updates) {
            counts.push(some.iter().map(|update| update.changes.len()).sum());
            let committed = self.stored.commit(&self.store, some).await;
            self.view.advance(committed.expect("stored"));
        }
        let read = read_entries(&self.store, SETS).expect("read");
        assert_eq!(self.stored.0, StoredEntries::of(&read).0);
        counts
    }

    fn records(&self) -> usize {
        let read = read_entries(&self.store, SETS).expect("read");
        let spaces = read.values().map(|records| {
            let (changes, _) = records.changes_from(&EntryShape::default());
            changes.len()
        });
        spaces.sum()
    }
}

/// A user with tokens, as the bucket has it.
fn user(name: &str, revision: u64, value: &'static str, tokens: usize) -> (String, KeyState) {
    let mut records = EntryRecords::default();
    records.put("user", Bytes::from(name.to_owned()), value.into());
    for token in 0..tokens {
        let key = Bytes::from(format!("{name}-{token}"));
        records.put("token", key, Bytes::from(name.to_owned()));
    }
    let value = Some(records.encode().expect("short enough"));
    (key_of(name), KeyState { revision, value })
}

fn removed(name: &str, revision: u64) -> (String, KeyState) {
    let value = None;
    (key_of(name), KeyState { revision, value })
}

fn key_of(name: &str) -> String {
    entry::key(SharedEntry { set: &SET, name })
}

#[tokio::test]
async fn only_the_records_that_differ_are_written() {
    let mut followed = FollowedStore::new();
    let first = vec![user("anna", 1, "{}", 2), user("zoe", 2, "{}", 0)];
    assert_eq!(followed.follow(first).await, [4]);
    assert_eq!(followed.follow(vec![user("anna", 3, "{}", 3)]).await, [1]);
    assert_eq!(
        followed.follow(vec![user("anna", 4, "changed", 1)]).await,
        [3]
    );
    assert_eq!(
        followed.follow(vec![user("anna", 5, "changed", 1)]).await,
        [0]
    );
    assert_eq!(followed.view.revision_of(&key_of("anna")), 5);
    let both = vec![removed("anna", 6), user("zoe", 7, "{}", 1)];
    assert_eq!(followed.follow(both).await, [3]);
    assert_eq!(followed.view.revision_of(&key_of("anna")), 0);
    assert_eq!(followed.records(), 2);
    assert_eq!(followed.follow(vec![user("anna", 8, "{}", 2)]).await, [3]);
}

#[tokio::test]
async fn the_changes_of_an_entry_are_in_one_commit() {
    let mut followed = FollowedStore::new();
    let names = ["a", "b", "c"];
    let users = (1..)
        .zip(names)
        .map(|(revision, name)| user(name, revision, "{}", 200));
    assert_eq!(followed.follow(users.collect()).await, [402, 201]);
    let removals = (4..)
        .zip(names)
        .map(|(revision, name)| removed(name, revision));
    assert_eq!(followed.follow(removals.collect()).await, [402, 201]);
    assert_eq!(followed.records(), 0);
    assert!(followed.stored.0.is_empty());
}

#[tokio::test]
async fn an_entry_of_a_later_version_stays_until_it_is_readable_or_removed() {
    let mut followed = FollowedStore::new();
    followed.follow(vec![user("anna", 1, "{}", 2)]).await;
    let value = Some(Bytes::from_static(b"{\"version\":2}"));
    let revision = 2;
    let later = (key_of("anna"), KeyState { revision, value });
    assert_eq!(followed.follow(vec![later]).await, [0]);
    assert_eq!(followed.view.revision_of(&key_of("anna")), 2);
    assert_eq!(
        (followed.records(), followed.view.unreadable.count()),
        (3, 1)
    );
    assert_eq!(followed.follow(vec![removed("anna", 3)]).await, [3]);
    assert_eq!(
        (followed.records(), followed.view.unreadable.count()),
        (0, 0)
    );
}

#[tokio::test]
async fn a_change_of_one_set_is_none_of_another() {
    let mut followed = FollowedStore::new();
    let view = SharedView(followed.view.clone());
    let (access, lists) = (view.changes(&SET), view.changes(&LISTS));
    let changed = || [&access, &lists].map(|one| one.has_changed().expect("the view is there"));
    assert_eq!(changed(), [false, false]);
    followed.follow(vec![user("anna", 1, "{}", 0)]).await;
    assert_eq!(changed(), [true, false]);
}
