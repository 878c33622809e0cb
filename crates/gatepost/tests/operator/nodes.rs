//! The number of a server in its message ids.

use gatepost_message::MessageId;

use super::json;
use super::support::Gateway;

fn publish(gateway: &Gateway) -> MessageId {
    let answer = json(gateway, "/topics/hall/door", &["-d", "open"]);
    let id = answer["id"].as_str().expect("an id");
    id.parse().expect("an id")
}

/// The node's bits of an id, as the documentation places them.
fn node_of(id: MessageId) -> u64 {
    id.number() >> 1 & 0xff
}

#[test]
fn the_number_is_in_each_id_and_ids_rise_when_it_is_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ids = Vec::new();
    for (settings, node) in [("", 1), ("node = 254\n", 254), ("node = 3\n", 3)] {
        let gateway = Gateway::start_in(folder.path(), settings);
        for _ in 0..3 {
            let id = publish(&gateway);
            assert_eq!(node_of(id), node, "{settings}");
            ids.push(id);
        }
        // The messages after the first are found by its id, whichever number gave it.
        let first = ids.first().expect("one");
        let path = format!("/topics/hall/door?poll=1&since={first}");
        let later = super::curl(&gateway, &path, &["-H", "Accept: application/x-ndjson"]);
        for id in ids.iter().skip(1) {
            assert!(later.contains(&id.to_string()), "{id} in {later}");
        }
        assert_eq!(gateway.terminate(), Some(0));
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}
