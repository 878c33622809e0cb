//! Publications of all kinds, and tests of their bytes.

use proptest::prelude::*;

use super::*;

pub(crate) fn publications() -> impl Strategy<Value = Publication> {
    let text = || proptest::option::of("[a-z/ü]{0,9}");
    let user = proptest::collection::vec(("[a-z]{0,4}", "[a-zß]{0,9}"), 0..3);
    let properties = (
        proptest::option::of(any::<bool>()),
        text(),
        proptest::option::of(any::<u32>()),
        text(),
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        user,
    );
    let properties = properties.prop_map(
        |(payload_is_text, content_type, expiry_seconds, response_topic, data, user)| Properties {
            payload_is_text,
            content_type,
            expiry_seconds,
            response_topic,
            correlation_data: data.map(Bytes::from),
            user,
        },
    );
    (
        any::<u64>(),
        "[a-z/ü]{1,20}",
        proptest::collection::vec(any::<u8>(), 0..99),
        0_u8..3,
        any::<bool>(),
        proptest::option::of(properties),
    )
        .prop_map(
            |(id, topic, payload, qos, retain, properties)| Publication {
                id: MessageId::from_number(id),
                topic: Topic::new(&topic).expect("a topic"),
                payload: payload.into(),
                qos: Qos::from_level(qos).expect("a level"),
                retain,
                properties: properties.map(Box::new),
            },
        )
}

const ORIGIN: BundleOrigin = BundleOrigin {
    node: 3,
    run: 1 << 40,
    number: 17,
};

fn bundle(publications: &[Publication]) -> Bytes {
    let mut buffer = begin(ORIGIN);
    for publication in publications {
        push(&mut buffer, publication);
    }
    buffer.freeze()
}

proptest! {
    #[test]
    fn a_written_bundle_reads_back(all in proptest::collection::vec(publications(), 0..4)) {
        let bytes = bundle(&all);
        let least: usize = all.iter().map(bundle_bytes_min).max().unwrap_or(HEAD_BYTES);
        prop_assert!(bytes.len() >= least);
        prop_assert_eq!(read(bytes), Ok((ORIGIN, all)));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut with_version = vec![VERSION];
        with_version.extend(&bytes);
        let _ = (read(bytes.into()), read(with_version.into()));
    }

    #[test]
    fn damage_causes_no_panic_and_no_more_than_was_sent(
        one in publications(), at in any::<usize>(), to in any::<u8>(), cut in any::<usize>(),
    ) {
        let mut bytes = bundle(&[one]).to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        bytes.truncate(cut % bytes.len() + 1);
        let length = bytes.len();
        if let Ok((_, read)) = read(bytes.into()) {
            let payloads: usize = read.iter().map(|one| one.payload.len()).sum();
            prop_assert!(payloads <= length);
        }
    }
}

#[test]
fn a_publication_that_is_kept_keeps_nothing_else() {
    let mut short = Publication::new(Topic::new("a").expect("a topic"), "short");
    short.properties = Some(Box::new(Properties {
        correlation_data: Some(Bytes::from_static(b"data")),
        ..Properties::default()
    }));
    let long = Publication::new(Topic::new("b").expect("a topic"), vec![b'x'; 100_000]);
    let bytes = bundle(&[short, long]);
    let (_, mut read) = read(bytes.clone()).expect("it reads back");
    drop(read.pop());
    let kept = read.pop().expect("two publications");
    let data = kept.properties.and_then(|all| all.correlation_data);
    assert!(kept.payload.is_unique() && data.is_some_and(|data| data.is_unique()));
    assert!(bytes.is_unique());
}

#[test]
fn an_incomplete_or_newer_bundle_is_refused() {
    let whole = bundle(&[Publication::new(Topic::new("a").expect("a topic"), "x")]);
    for length in (1..HEAD_BYTES).chain(HEAD_BYTES + 1..whole.len()) {
        assert_eq!(read(whole.slice(..length)), Err(EncodingError::Truncated));
    }
    let mut newer = whole.to_vec();
    newer[0] = VERSION + 1;
    assert_eq!(
        read(newer.into()),
        Err(EncodingError::Version(u32::from(VERSION) + 1))
    );
}
