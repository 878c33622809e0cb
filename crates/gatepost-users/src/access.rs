//! The vocabulary of access rules: accesses, effects, decisions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An operation on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Sending to it.
    Publish,
    /// Receiving from it.
    Subscribe,
    /// Setting or removing a retained message; checked in addition to [`Access::Publish`].
    Retain,
}

impl Access {
    /// Every access.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Subscribe, Self::Retain];

    /// The name in commands, tokens and listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Retain => "retain",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Publish => 1,
            Self::Subscribe => 2,
            Self::Retain => 4,
        }
    }
}

/// A set of [`Access`]es.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct AccessSet(u8);

impl AccessSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The set of all accesses.
    pub const ALL: Self = Self(7);

    /// Whether `access` is in the set.
    pub const fn has(self, access: Access) -> bool {
        self.0 & access.bit() != 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the accesses of the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Access> for AccessSet {
    fn from(access: Access) -> Self {
        Self(access.bit())
    }
}

impl fmt::Display for AccessSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (*self).into();
        formatter.write_str(&names.join(","))
    }
}

impl fmt::Debug for AccessSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{{{self}}}")
    }
}

impl From<AccessSet> for Vec<String> {
    fn from(set: AccessSet) -> Self {
        let named = Access::ALL.into_iter().filter(|access| set.has(*access));
        named.map(|access| access.name().to_owned()).collect()
    }
}

/// The text is not the name of an access.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an access; use publish, subscribe, retain or all, separated by commas")]
pub struct UnknownAccess(String);

impl FromStr for AccessSet {
    type Err = UnknownAccess;

    /// Names separated by commas; `all` stands for all of them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').try_fold(Self::NONE, |set, name| {
            if name == "all" {
                return Ok(Self::ALL);
            }
            let found = Access::ALL.into_iter().find(|access| access.name() == name);
            let access = found.ok_or_else(|| UnknownAccess(name.chars().take(40).collect()))?;
            Ok(set.with(access.into()))
        })
    }
}

impl TryFrom<Vec<String>> for AccessSet {
    type Error = UnknownAccess;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        names
            .iter()
            .try_fold(Self::NONE, |set, name| Ok(set.with(name.parse::<Self>()?)))
    }
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The rule permits.
    Allow,
    /// The rule denies.
    Deny,
}

/// The answer to an access request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AccessDecision {
    /// Allowed.
    Allow,
    /// Denied: MQTT 0x87, HTTP 403.
    Deny,
}

impl AccessDecision {
    /// Whether the request is allowed.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allow)
    }
}

impl From<bool> for AccessDecision {
    fn from(allowed: bool) -> Self {
        if allowed { Self::Allow } else { Self::Deny }
    }
}
