//! Topic filters of rules: with placeholders for names, and compared with other filters.

pub(crate) use gatepost_message::filter_covers as covers;
use gatepost_message::{TopicError, TopicFilter};

/// The placeholder for the user's name.
const USER_PLACE: &str = "%u";
/// The placeholder for the client id.
const CLIENT_PLACE: &str = "%c";

/// Checks a rule's filter as it was written.
pub(crate) fn check(text: &str) -> Result<(), TopicError> {
    let filled = text.replace(USER_PLACE, "u").replace(CLIENT_PLACE, "c");
    TopicFilter::new(&filled).map(|_| ())
}

/// Whether the filter depends on the client id.
pub(crate) fn names_client(text: &str) -> bool {
    text.contains(CLIENT_PLACE)
}

/// The filter for this user and this client. `None` if a name is missing, could extend beyond its
/// level, because it contains a separator or a wildcard, or would make the filter one of topics
/// that begin with `$`, which only a rule itself can name: the rule gives such a peer nothing.
pub(crate) fn fill(text: &str, user: Option<&str>, client: Option<&str>) -> Option<TopicFilter> {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut rest = text;
    // One pass: an inserted name is not searched for placeholders.
    while let Some(at) = rest.find('%') {
        let (before, place) = rest.split_at(at);
        filled.push_str(before);
        let name = if place.starts_with(USER_PLACE) {
            user
        } else if place.starts_with(CLIENT_PLACE) {
            client
        } else {
            filled.push('%');
            rest = &place[1..];
            continue;
        };
        let name = name.filter(|name| is_one_level(name))?;
        if filled.is_empty() && name.starts_with('$') {
            return None;
        }
        filled.push_str(name);
        rest = &place[USER_PLACE.len()..];
    }
    filled.push_str(rest);
    TopicFilter::new(&filled).ok()
}

/// The filter of a deny rule. If a name cannot be inserted, the rule denies the whole level.
pub(crate) fn fill_widely(
    text: &str,
    user: Option<&str>,
    client: Option<&str>,
) -> Option<TopicFilter> {
    fill(text, user, client).or_else(|| {
        let widen = |level: &str| fill(level, user, client).is_none();
        let levels: Vec<&str> = text
            .split('/')
            .map(|level| {
                if level.contains('%') && widen(level) {
                    "+"
                } else {
                    level
                }
            })
            .collect();
        fill(&levels.join("/"), user, client)
    })
}

fn is_one_level(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '+', '#', '\0'])
}

/// Whether some topic matches both filters.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    let is_wild = |filter: &str| filter.starts_with(['+', '#']);
    if (is_wild(one) && other.starts_with('$')) || (is_wild(other) && one.starts_with('$')) {
        return false; // [MQTT-4.7.2-1]
    }
    let (mut ones, mut others) = (one.split('/'), other.split('/'));
    loop {
        match (ones.next(), others.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == "+" || b == "+" || a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_fill_their_place_and_no_more() {
        let filled =
            |text, user, client| fill(text, user, client).map(|filter| filter.as_str().to_owned());
        let anna = Some("anna");
        assert_eq!(
            filled("home/%u/#", anna, None).as_deref(),
            Some("home/anna/#")
        );
        assert_eq!(
            filled("x-%c/%u", anna, Some("c1")).as_deref(),
            Some("x-c1/anna")
        );
        assert_eq!(filled("100%/a", anna, None).as_deref(), Some("100%/a"));
        assert_eq!(filled("a/%c", anna, Some("%u")).as_deref(), Some("a/%u"));
        for client in [
            None,
            Some(""),
            Some("#"),
            Some("+"),
            Some("a/b"),
            Some("a\0"),
        ] {
            assert_eq!(filled("a/%c", anna, client), None, "{client:?}");
        }
        assert_eq!(filled("a/%u", None, Some("c")), None);
    }

    #[test]
    fn no_name_leads_to_the_topics_of_the_server() {
        let filled = |text| fill(text, Some("$SYS"), Some("$call"));
        assert!(filled("%c/#").is_none() && filled("%u/#").is_none() && filled("%c").is_none());
        for (text, expected) in [
            ("a/%u", "a/$SYS"),
            ("x%c/#", "x$call/#"),
            ("$SYS/%c", "$SYS/$call"),
        ] {
            let filter = filled(text).map(|filter| filter.as_str().to_owned());
            assert_eq!(filter.as_deref(), Some(expected));
        }
        let denied =
            fill_widely("%c/a", None, Some("$call")).map(|filter| filter.as_str().to_owned());
        assert_eq!(denied.as_deref(), Some("+/a"));
    }

    #[test]
    fn a_rule_that_forbids_is_rather_too_wide() {
        let fill = |text, client| {
            fill_widely(text, Some("anna"), client).map(|filter| filter.as_str().to_owned())
        };
        assert_eq!(fill("a/x-%c/b", Some("#")).as_deref(), Some("a/+/b"));
        assert_eq!(fill("%u/%c", Some("a/b")).as_deref(), Some("anna/+"));
        assert_eq!(fill("a/%c", Some("c")).as_deref(), Some("a/c"));
    }

    #[test]
    fn filters_are_compared() {
        for (outer, inner, covered, overlapping) in [
            ("a/#", "a", true, true),
            ("a/#", "a/+/c", true, true),
            ("a/+", "a/b", true, true),
            ("a/+", "a/#", false, true),
            ("a/b", "a/+", false, true),
            ("a/b", "a/c", false, false),
            ("#", "$SYS/#", false, false),
            ("+/x", "$SYS/x", false, false),
            ("$SYS/#", "$SYS/a", true, true),
            ("a/b/#", "a/#", false, true),
            ("a/+/c", "a/b/+", false, true),
            ("a/+", "a", false, false),
        ] {
            assert_eq!(covers(outer, inner), covered, "{outer} covers {inner}");
            assert_eq!(overlap(outer, inner), overlapping, "{outer} meets {inner}");
            assert_eq!(overlap(inner, outer), overlapping, "{inner} meets {outer}");
        }
    }

    fn filter() -> impl Strategy<Value = String> {
        "(\\$s/|)(a|b|\\+)(/(a|b|\\+)){0,2}(/#)?".prop_filter("valid", |text| check(text).is_ok())
    }

    fn topic() -> impl Strategy<Value = String> {
        "(\\$s/|)(a|b)(/(a|b)){0,3}"
    }

    proptest! {
        #[test]
        fn comparisons_agree_with_matching(one in filter(), other in filter(), topic in topic()) {
            let matches = |filter: &str| {
                TopicFilter::new(filter).is_ok_and(|filter| filter.matches(&topic))
            };
            if covers(&one, &other) && matches(&other) {
                prop_assert!(matches(&one), "{} covers {} but not {}", one, other, topic);
            }
            if matches(&one) && matches(&other) {
                prop_assert!(overlap(&one, &other), "{} and {} meet in {}", one, other, topic);
            }
        }

        #[test]
        fn a_name_never_widens_a_rule(client in "(a|b|.{0,8})", topic in "own/(a|b|c/a)/x") {
            // For any client id that the client chooses, it reaches only topics with that id.
            let reached = fill("own/%c/x", None, Some(&client))
                .is_some_and(|filled| filled.matches(&topic));
            prop_assert_eq!(reached, topic == format!("own/{client}/x") && !client.contains('/'));
        }
    }
}
