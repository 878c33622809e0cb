//! Serde for types of `gatepost-message` that a config writes as their name.

use std::fmt::Display;
use std::str::FromStr;

use gatepost_message::TopicFilter;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Lists of such names.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let names = Vec::<String>::deserialize(from)?;
        let values = names.iter().map(|name| name.parse());
        values.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

/// Lists of topic filters.
pub(crate) mod filters {
    use super::*;

    pub(crate) use super::list::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<TopicFilter>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let checked = texts.iter().map(|text| {
            TopicFilter::new(text).map_err(|error| {
                D::Error::custom(format!("'{text}' is not a topic filter: {error}"))
            })
        });
        checked.collect()
    }
}
