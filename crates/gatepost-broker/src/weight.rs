//! The memory that a publication uses: everything that its sender chose, not only the payload.
//! Otherwise a message of one byte could carry megabytes of properties uncounted.

use gatepost_message::{Properties, Publication};

/// The bytes of topic, payload and properties.
pub(crate) fn content_bytes(publication: &Publication) -> usize {
    let properties = publication.properties.as_deref();
    publication.topic.as_str().len()
        + publication.payload.len()
        + properties.map_or(0, properties_bytes)
}

/// The bytes of a publication that waits for one session, with the subscription identifiers of the
/// delivery: a session may have very many subscriptions that match one topic.
pub(crate) fn queued_bytes(publication: &Publication, identifiers: &[u32]) -> usize {
    content_bytes(publication) + size_of_val(identifiers)
}

fn properties_bytes(properties: &Properties) -> usize {
    /// The size of two string headers, for each user property.
    const USER_PROPERTY_BYTES: usize = 2 * size_of::<String>();
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let user = properties.user.iter();
    let user: usize = user
        .map(|(name, value)| name.len() + value.len() + USER_PROPERTY_BYTES)
        .sum();
    size_of::<Properties>()
        + text(&properties.content_type)
        + text(&properties.response_topic)
        + properties
            .correlation_data
            .as_ref()
            .map_or(0, bytes::Bytes::len)
        + user
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;

    #[test]
    fn properties_count_as_payload_does() {
        let topic = Topic::new("a/b").expect("a topic");
        let mut publication = Publication::new(topic, "x");
        assert_eq!(content_bytes(&publication), 4);
        let properties = Properties {
            user: vec![("n".repeat(1_000), "v".repeat(2_000))],
            correlation_data: Some(bytes::Bytes::from(vec![0; 500])),
            ..Properties::default()
        };
        publication.properties = Some(Box::new(properties));
        assert!(content_bytes(&publication) > 3_504);
    }
}
