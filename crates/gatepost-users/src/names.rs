//! The rules for user names.

/// The maximum length of a user name.
pub const USER_NAME_BYTES_MAX: usize = 128;
/// The subject of rules for peers that did not log in. No user may have this name.
pub const ANONYMOUS: &str = "anonymous";
/// The subject of rules for every peer, whether logged in or not. No user may have this name.
pub const EVERYONE: &str = "everyone";

/// The text is not a valid user name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedName {
    /// Empty, or longer than [`USER_NAME_BYTES_MAX`].
    #[error("a user's name has 1 to {USER_NAME_BYTES_MAX} bytes")]
    Length,
    /// A character that would be a wildcard or a separator in a topic filter (`/ + # %`), in HTTP
    /// Basic authentication (`:`), or in a log line (controls, white space at an end).
    #[error(
        "a user's name holds no '{}'; fix: use letters, digits, '.', '-', '_' and '@'",
        .0.escape_default(),
    )]
    Character(char),
    /// `anonymous` and `everyone` name groups.
    #[error("'{0}' stands for a group of peers; choose another name")]
    Reserved(&'static str),
}

/// Whether a user may have this name. Such a name is safe wherever `%u` inserts it: it is one topic
/// level, without wildcards.
pub fn check_user_name(name: &str) -> Result<(), MalformedName> {
    if name.is_empty() || name.len() > USER_NAME_BYTES_MAX {
        return Err(MalformedName::Length);
    }
    if let Some(character) = name.chars().find(|&character| {
        character.is_control() || matches!(character, '/' | '+' | '#' | '%' | ':' | ',' | '=')
    }) {
        return Err(MalformedName::Character(character));
    }
    if name.trim() != name {
        return Err(MalformedName::Character(' '));
    }
    match fold(name).as_str() {
        ANONYMOUS => Err(MalformedName::Reserved(ANONYMOUS)),
        EVERYONE => Err(MalformedName::Reserved(EVERYONE)),
        _ => Ok(()),
    }
}

/// The form in which names are compared. Letter case does not distinguish users: the local part of
/// a mail address identifies a mailbox regardless of its case, so `Anna` must not be another user
/// than `anna`.
pub(crate) fn fold(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_reach_further_are_refused() {
        for name in ["anna", "a.b-c_d@example.org", "Zoë"] {
            assert_eq!(check_user_name(name), Ok(()), "{name}");
        }
        for name in ["a/b", "+", "#", "a:b", "a\nb", "100%", "a,b", "a=b"] {
            assert!(
                matches!(check_user_name(name), Err(MalformedName::Character(_))),
                "{name:?}"
            );
        }
        assert_eq!(check_user_name(""), Err(MalformedName::Length));
        assert_eq!(
            check_user_name(&"a".repeat(129)),
            Err(MalformedName::Length)
        );
        assert_eq!(check_user_name(" a"), Err(MalformedName::Character(' ')));
        assert_eq!(
            check_user_name(ANONYMOUS),
            Err(MalformedName::Reserved(ANONYMOUS))
        );
        assert_eq!(
            check_user_name(EVERYONE),
            Err(MalformedName::Reserved(EVERYONE))
        );
        assert_eq!(
            check_user_name("Anonymous"),
            Err(MalformedName::Reserved(ANONYMOUS))
        );
    }
}
