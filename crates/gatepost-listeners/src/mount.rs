//! The prefix of a user's topics (`access.mount`), which its clients do not see.
//!
//! The prefix is added to every topic that a client names before the topic is used, so checks,
//! routes and stored subscriptions contain whole topics. It is removed from every topic that a
//! client receives.

use std::borrow::Cow;
use std::sync::Arc;

use gatepost_message::{Properties, Publication, Topic, TopicError};
use gatepost_users::Identity;

/// The beginning of a shared subscription \[MQTT-4.8.2-1\].
const SHARE: &str = "$share/";

/// A user's prefix, which ends with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MountPrefix(Arc<str>);

impl MountPrefix {
    /// The prefix of this login, if it has one.
    pub(crate) fn of(identity: Option<&Identity>) -> Option<Self> {
        identity?.mount().map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole topic of a client's. A malformed one stays malformed.
    pub(crate) fn topic<'n>(mount: Option<&Self>, name: &'n str) -> Cow<'n, str> {
        match mount {
            // `$` begins topics of the server only where it is the first character.
            Some(Self(prefix)) if !name.is_empty() && !name.starts_with('$') => {
                Cow::Owned([prefix, name].concat())
            }
            _ => Cow::Borrowed(name),
        }
    }

    /// The whole filter of a client's, which may be a shared one. A malformed one stays malformed.
    pub(crate) fn filter<'n>(mount: Option<&Self>, text: &'n str) -> Cow<'n, str> {
        let Some(Self(prefix)) = mount.filter(|_| !text.is_empty()) else {
            return Cow::Borrowed(text);
        };
        let shared = text.strip_prefix(SHARE);
        Cow::Owned(match shared.and_then(|shared| shared.split_once('/')) {
            Some((_, "")) => return Cow::Borrowed(text),
            Some((group, filter)) => [SHARE, group, "/", prefix, filter].concat(),
            None if shared.is_some() => return Cow::Borrowed(text),
            None => [prefix, text].concat(),
        })
    }

    /// The topic as the client names it; `None` for one that it cannot name. `anna/#` matches
    /// `anna` too, and `#` of a client matches no topic that begins with `$` \[MQTT-4.7.2-1\].
    pub(crate) fn own<'t>(&self, topic: &'t str) -> Option<&'t str> {
        let own = topic.strip_prefix(&*self.0)?;
        (!own.is_empty() && !own.starts_with('$')).then_some(own)
    }

    /// Completes the topic of a response.
    pub(crate) fn complete(mount: Option<&Self>, properties: &mut Properties) {
        if let (Some(_), Some(topic)) = (mount, &mut properties.response_topic) {
            *topic = Self::topic(mount, topic).into_owned();
        }
    }

    /// The properties as the client receives them: a response topic that it cannot name is
    /// omitted.
    pub(crate) fn own_properties(&self, properties: &Properties) -> Properties {
        let response = properties.response_topic.as_deref();
        Properties {
            response_topic: response
                .and_then(|topic| self.own(topic))
                .map(str::to_owned),
            ..properties.clone()
        }
    }

    /// The publication as the client receives it.
    pub(crate) fn own_publication(
        &self,
        publication: &Publication,
    ) -> Result<Publication, TopicError> {
        let own = self.own(publication.topic.as_str());
        Ok(Publication {
            topic: Topic::new(own.unwrap_or_default())?,
            ..publication.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_shortened() {
        let mount = MountPrefix("anna/".into());
        let some = Some(&mount);
        for (name, whole) in [
            ("a", "anna/a"),
            ("/a", "anna//a"),
            ("../otto/a", "anna/../otto/a"),
            ("", ""),
            ("$SYS/a", "$SYS/a"),
        ] {
            assert_eq!(MountPrefix::topic(some, name), whole);
        }
        for (text, whole) in [
            ("#", "anna/#"),
            ("+/a", "anna/+/a"),
            ("$SYS/#", "anna/$SYS/#"),
            ("$share/g/#", "$share/g/anna/#"),
            ("$share/g/$SYS/#", "$share/g/anna/$SYS/#"),
            ("$share/g/$share/h/#", "$share/g/anna/$share/h/#"),
            ("$share/g", "$share/g"),
            ("$share/g/", "$share/g/"),
            ("$shared/g/#", "anna/$shared/g/#"),
            ("", ""),
        ] {
            assert_eq!(MountPrefix::filter(some, text), whole);
        }
        for (topic, own) in [
            ("anna/a", Some("a")),
            ("anna//", Some("/")),
            ("anna", None),
            ("anna/", None),
            ("anna/$SYS/a", None),
            ("anna2/a", None),
            ("otto/a", None),
        ] {
            assert_eq!(mount.own(topic), own);
        }
    }
}
