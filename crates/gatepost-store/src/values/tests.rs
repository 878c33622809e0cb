//! Values outlive the process, expire, and are bounded.

use super::*;

const HOUR: Option<Duration> = Some(Duration::from_hours(1));
const PAST: Option<Duration> = Some(Duration::ZERO);

fn limits(count_max: usize) -> ValueLimits {
    ValueLimits {
        count_max,
        bytes_max: ByteSize::mebibytes(1),
    }
}

#[test]
fn values_outlive_the_process_and_expired_ones_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = crate::StoreSettings::default();
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let values = ValueStore::open(&store, limits(10)).expect("values");
    let text = StoredValue::Bytes(Bytes::from("text"));
    values.set("/a", b"k", text.clone(), HOUR).expect("set");
    let flag = StoredValue::Flag(true);
    values.set("/b", b"k", flag.clone(), None).expect("set");
    values.set("/a", b"old", text.clone(), PAST).expect("set");
    values.add("/a", b"n", 2.0, HOUR).expect("a sum");
    values.add("/a", b"n", 0.5, PAST).expect("a sum");
    assert_eq!(values.get("/a", b"old"), None);
    store.close();
    drop((store, values));
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let values = ValueStore::open(&store, limits(10)).expect("values");
    assert_eq!(values.get("/a", b"k").map(|(value, _)| value), Some(text));
    assert_eq!(values.get("/b", b"k"), Some((flag, None)));
    let (number, left) = values.get("/a", b"n").expect("a number");
    assert_eq!(number, StoredValue::Number(2.5));
    assert!(left.is_some_and(|left| left > Duration::from_mins(50)));
    assert_eq!(values.get("/a", b"old"), None);
    assert!(values.remove("/a", b"k").expect("removed"));
    assert_eq!(values.get("/a", b"k"), None);
}

#[test]
fn bounds_hold_and_expired_values_make_room() {
    let values = ValueStore::in_memory(limits(2));
    let set = |key: &[u8], lifetime| values.set("/a", key, StoredValue::Flag(true), lifetime);
    set(b"1", PAST).expect("room");
    set(b"2", HOUR).expect("room");
    set(b"3", HOUR).expect("room, since the first has expired");
    assert!(matches!(set(b"4", HOUR), Err(ValueError::Full(2))));
    set(b"3", HOUR).expect("a value may be set again");
    assert!(matches!(set(&[b'k'; 2000], HOUR), Err(ValueError::TooLong)));
    assert!(matches!(
        values.add("/a", b"3", 1.0, None),
        Err(ValueError::NoNumber)
    ));
    assert_eq!(values.count(), 2);
}

#[test]
fn all_values_together_have_a_bound_in_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = crate::StoreSettings::default();
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let text = |length| StoredValue::Bytes(Bytes::from(vec![b'x'; length]));
    let fill = |values: &ValueStore, lifetime| {
        let mut written = 0;
        while values
            .set(
                "/a",
                format!("{written}").as_bytes(),
                text(60_000),
                lifetime,
            )
            .is_ok()
        {
            written += 1;
        }
        written
    };
    let values = ValueStore::open(&store, limits(1000)).expect("values");
    assert_eq!(fill(&values, HOUR), 17);
    let last = values.set("/b", b"k", text(60_000), HOUR);
    assert!(matches!(last, Err(ValueError::FullBytes(_))), "{last:?}");
    let smaller = values.set("/a", b"0", text(60_000), PAST);
    smaller.expect("no more than before");
    // The expired value frees space.
    values.set("/b", b"k", text(60_000), HOUR).expect("room");
    assert!(values.remove("/b", b"k").expect("removed"));
    values.set("/b", b"l", text(60_000), HOUR).expect("room");
    store.close();
    drop((store, values));
    // The sum is right after a restart.
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let values = ValueStore::open(&store, limits(1000)).expect("values");
    let last = values.set("/c", b"k", text(60_000), HOUR);
    assert!(matches!(last, Err(ValueError::FullBytes(_))), "{last:?}");
    values.remove("/b", b"l").expect("removed");
    values.set("/c", b"k", text(60_000), HOUR).expect("room");
}

#[test]
fn a_space_has_a_bound_of_its_own() {
    let values = ValueStore::in_memory(limits(10));
    let flag = StoredValue::Flag(true);
    let set = |key: &[u8], lifetime| values.set_within("/a", key, flag.clone(), lifetime, 2);
    set(b"1", PAST).expect("set");
    set(b"2", HOUR).expect("set");
    set(b"3", HOUR).expect("the first has expired");
    set(b"3", HOUR).expect("it has its place");
    assert!(matches!(set(b"4", HOUR), Err(ValueError::FullSpace(2))));
    values.set("/b", b"4", flag.clone(), HOUR).expect("another");
    assert!(values.remove("/a", b"2").expect("removed"));
    set(b"4", HOUR).expect("there is a place again");
}

/// A full store reads all values only if one of them has expired.
#[test]
fn a_value_beyond_the_limit_costs_no_search_while_none_has_expired() {
    let values = ValueStore::in_memory(limits(2));
    let set = |key: &[u8], lifetime| values.set("/a", key, StoredValue::Flag(true), lifetime);
    set(b"1", HOUR).expect("room");
    set(b"2", HOUR).expect("room");
    let earliest = values.0.kept.lock().next_expiry_ms;
    // A value that a search would find, expired without the store's knowledge.
    let key = row_key("/a", b"1");
    if let Some(entry) = values.0.kept.lock().by_key.get_mut(&key) {
        entry.expires_ms = 0;
    }
    assert!(matches!(set(b"3", HOUR), Err(ValueError::Full(2))));
    let within = values.set_within("/a", b"3", StoredValue::Flag(true), HOUR, 2);
    assert!(
        matches!(within, Err(ValueError::FullSpace(2))),
        "{within:?}"
    );
    assert_eq!(values.0.kept.lock().next_expiry_ms, earliest);

    // One that expires sooner than all others makes room once it has expired.
    set(b"2", PAST).expect("a value may be set again");
    set(b"3", HOUR).expect("room, since two have expired");
    assert_eq!(values.count(), 1);
    let mut kept = values.0.kept.lock();
    let left = kept.by_key.values().map(|entry| entry.expires_ms);
    assert_eq!(left.min(), Some(kept.next_expiry_ms));
    // Without an expiry, it is never too late.
    *kept = KeptValues::default();
    kept.insert(
        key,
        ValueEntry {
            value: StoredValue::Flag(true),
            expires_ms: u64::MAX,
        },
    );
    assert_eq!(kept.next_expiry_ms, u64::MAX);
}

#[test]
fn values_that_expire_one_by_one_cost_one_search_in_a_second() {
    let values = ValueStore::in_memory(limits(2));
    let set = |key: &[u8], lifetime| values.set("/a", key, StoredValue::Flag(true), lifetime);
    set(b"1", PAST).expect("room");
    set(b"2", HOUR).expect("room");
    set(b"3", PAST).expect("room, since the first has expired");
    assert!(matches!(set(b"4", HOUR), Err(ValueError::Full(2))));
    let long_ago = Instant::now().checked_sub(SEARCH_INTERVAL);
    values.0.kept.lock().searched = long_ago;
    set(b"4", HOUR).expect("room, since the third has expired");
}

#[test]
fn a_clock_that_is_behind_makes_no_value_older() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = crate::StoreSettings::default();
    let now = SystemTime::now();
    let clock = crate::ManualClock::at(now);
    let opened = Store::open_with_clock(folder.path(), &settings, clock.clone());
    let (store, _) = opened.expect("a store");
    let values = ValueStore::open(&store, limits(10)).expect("values");
    clock.jump(UNIX_EPOCH);
    let flag = StoredValue::Flag(true);
    values.set("/a", b"k", flag, HOUR).expect("set");
    values.add("/a", b"n", 1.0, HOUR).expect("a sum");
    clock.jump(now + Duration::from_secs(1));
    for key in [b"k", b"n"] {
        assert!(values.get("/a", key).is_some());
    }
}

#[tokio::test]
async fn a_start_removes_the_rows_of_expired_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = crate::StoreSettings::default();
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let rows = || store.records(SPACE, b"").expect("read").len();
    let values = ValueStore::open(&store, limits(10)).expect("values");
    let set = |key: &[u8], lifetime| values.set("/a", key, StoredValue::Flag(true), lifetime);
    set(b"old", PAST).expect("set");
    set(b"new", HOUR).expect("set");
    store.flush().await;
    assert_eq!(rows(), 2);
    let copied = ValueStore::copy_of(&store, limits(10)).expect("values");
    store.flush().await;
    assert_eq!((rows(), copied.count()), (2, 1));
    let again = ValueStore::open(&store, limits(10)).expect("values");
    store.flush().await;
    assert_eq!((rows(), again.count()), (1, 1));
}
