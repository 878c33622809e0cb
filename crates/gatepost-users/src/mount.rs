//! `access.mount`: a prefix for the topics of each user, so that users can use the same topics
//! independently of each other.
//!
//! Clients do not see the prefix: a listener adds it to what they name, and removes it from what
//! they receive. This module is a second check: whatever topic a listener passes, a user with a
//! prefix has no access outside of it, and the access rules apply to whole topics.

use std::sync::Arc;

use crate::names::fold;
use crate::settings::AccessSettings;
use crate::{Access, pattern};

/// The topics whose right to publish is the right to call a procedure; they carry no messages.
const CALL_TOPICS: &str = "$call/";
/// The topics whose right to subscribe is the right to read a page; they carry no messages.
const PAGE_TOPICS: &str = "$pages";

/// The prefixes of all users.
#[derive(Debug, Clone, Default)]
pub(crate) struct MountSettings {
    prefix: String,
    /// Folded names.
    except: Vec<String>,
}

impl MountSettings {
    pub(crate) fn new(settings: &AccessSettings) -> Self {
        Self {
            prefix: settings.mount.clone(),
            except: settings
                .mount_except
                .iter()
                .map(|name| fold(name))
                .collect(),
        }
    }

    /// The place of a user who is no administrator.
    pub(crate) fn of_user(&self, user: &str) -> Mount {
        if self.prefix.is_empty() || self.except.contains(&fold(user)) {
            return Mount::Everywhere;
        }
        // A name that could reach beyond its level has no topics.
        pattern::fill(&self.prefix, Some(user), None)
            .map_or(Mount::Nowhere, |prefix| Mount::At(prefix.as_str().into()))
    }
}

/// The topics that a peer can reach at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    Everywhere,
    /// The topics that begin with this prefix, whose last character is `/`.
    At(Arc<str>),
    Nowhere,
}

impl Mount {
    /// Whether a topic or filter is within it.
    pub(crate) fn contains(&self, access: Access, name: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::At(prefix) if name.starts_with(&**prefix) => name.len() > prefix.len(),
            Self::At(_) => match access {
                Access::Publish => name.starts_with(CALL_TOPICS),
                Access::Subscribe => is_page(name),
                Access::Retain => false,
            },
            Self::Nowhere => false,
        }
    }
}

fn is_page(topic: &str) -> bool {
    let below = topic.strip_prefix(PAGE_TOPICS);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The reason why a prefix cannot be used as `access.mount`.
pub fn mount_mistake(prefix: &str) -> Option<&'static str> {
    let filled = pattern::fill(prefix, Some("u"), None);
    let is_whole = prefix.ends_with('/') && prefix.contains("%u");
    let is_plain = filled.is_some_and(|filled| !filled.has_wildcard());
    if prefix.is_empty() || (is_whole && is_plain && !prefix.starts_with('$')) {
        return None;
    }
    Some("write levels that contain %u, the user's name, and end with '/', as in \"%u/\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(prefix: &str) -> MountSettings {
        MountSettings {
            prefix: prefix.to_owned(),
            except: vec!["robot".to_owned()],
        }
    }

    #[test]
    fn a_name_stays_within_its_level() {
        let mounts = mounts("tenants/%u/");
        assert_eq!(mounts.of_user("anna"), Mount::At("tenants/anna/".into()));
        assert_eq!(mounts.of_user("Robot"), Mount::Everywhere);
        for name in ["", "a/b", "+", "#", "a\0"] {
            assert_eq!(mounts.of_user(name), Mount::Nowhere, "{name}");
        }
        assert_eq!(self::mounts("%u/").of_user("$SYS"), Mount::Nowhere);
        assert_eq!(MountSettings::default().of_user("anna"), Mount::Everywhere);
    }

    #[test]
    fn nothing_beyond_the_prefix_is_within_it() {
        let mount = mounts("%u/").of_user("anna");
        for (name, is_within) in [
            ("anna/a", true),
            ("anna/#", true),
            ("anna/$x", true),
            ("anna", false),
            ("anna/", false),
            ("anna2/a", false),
            ("otto/a", false),
            ("#", false),
            ("+/a", false),
            ("$SYS/a", false),
            ("$share/g/anna/a", false),
        ] {
            assert_eq!(mount.contains(Access::Subscribe, name), is_within, "{name}");
        }
        assert!(mount.contains(Access::Publish, "$call//greet"));
        assert!(!mount.contains(Access::Subscribe, "$call//greet"));
        assert!(!Mount::Nowhere.contains(Access::Publish, "$call//greet"));
        assert!(mount.contains(Access::Subscribe, "$pages/office/a"));
        assert!(!mount.contains(Access::Subscribe, "$pagesx"));
        assert!(!mount.contains(Access::Publish, "$pages/office/a"));
    }

    #[test]
    fn prefixes_are_checked() {
        for good in ["", "%u/", "tenants/%u/", "x-%u/", "%u/home/"] {
            assert_eq!(mount_mistake(good), None, "{good}");
        }
        for bad in ["%u", "all/", "+/%u/", "%u/#/", "$SYS/%u/", "%u/%c/", "/"] {
            assert!(mount_mistake(bad).is_some(), "{bad}");
        }
    }
}
