//! Resolves the target of a link: RFC 3986, section 5.2, with the leniency of mail programs.

/// The five parts of a reference, RFC 3986, appendix B.
struct LinkReference<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> LinkReference<'a> {
    fn parse(text: &'a str) -> Self {
        let (rest, fragment) = match text.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment.split('\n').next().unwrap_or_default())),
            None => (text, None),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, after)) if !scheme.is_empty() && !scheme.contains('/') => {
                (Some(scheme), after)
            }
            _ => (None, rest),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let length = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(length);
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Self {
            scheme,
            authority,
            path,
            query,
            fragment,
        }
    }
}

/// Resolves `reference` against `base`, which may be empty.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    let mut target = LinkReference::parse(reference);
    let base = LinkReference::parse(base);
    if target.scheme.is_some() && target.scheme == base.scheme {
        target.scheme = None;
    }
    let (mut authority, mut query) = (target.authority, target.query);
    let path =
        if target.scheme.is_some() || target.authority.is_some() || target.path.starts_with('/') {
            remove_dot_segments(target.path)
        } else if target.path.is_empty() {
            query = target.query.or(base.query);
            base.path.to_owned()
        } else {
            remove_dot_segments(&merge(&base, target.path))
        };
    if target.scheme.is_none() && target.authority.is_none() {
        authority = base.authority;
    }
    let scheme = target.scheme.or(base.scheme);
    let mut out = String::with_capacity(reference.len() + 16);
    match (scheme, authority) {
        (Some(scheme), _) => {
            out.push_str(scheme);
            out.push(':');
        }
        // Mail programs follow a link without a scheme.
        (None, Some(authority)) if is_host_kind(authority, "www") => out.push_str("http:"),
        (None, Some(authority)) if is_host_kind(authority, "ftp") => out.push_str("ftp:"),
        _ => {}
    }
    if let Some(authority) = authority {
        out.push_str("//");
        out.push_str(authority);
    }
    out.push_str(&path);
    for (mark, part) in [('?', query), ('#', target.fragment)] {
        if let Some(part) = part {
            out.push(mark);
            out.push_str(part);
        }
    }
    out
}

/// `www.`, `www2.`, in any case.
fn is_host_kind(authority: &str, kind: &str) -> bool {
    authority
        .get(..kind.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(kind))
        .then(|| authority.get(kind.len()..))
        .flatten()
        .is_some_and(|rest| {
            rest.trim_start_matches(|letter: char| letter.is_ascii_digit())
                .starts_with('.')
        })
}

fn merge(base: &LinkReference<'_>, path: &str) -> String {
    if base.authority.is_some() && (base.path.is_empty() || base.path == "0") {
        return format!("/{path}");
    }
    let directory = base
        .path
        .rfind('/')
        .and_then(|slash| base.path.get(..=slash))
        .unwrap_or_default();
    format!("{directory}{path}")
}

fn remove_dot_segments(path: &str) -> String {
    if !path.contains("/.") && !path.starts_with('.') {
        return path.to_owned();
    }
    let mut rest = path;
    for prefix in ["../", "./"] {
        if let Some(after) = path.strip_prefix(prefix) {
            rest = path.get(path.len() - after.len() - 1..).unwrap_or_default();
            break;
        }
    }
    let mut out = String::with_capacity(path.len());
    while !rest.is_empty() && rest != "0" {
        if let Some(after) = dot_segment(rest, "/.") {
            rest = after;
        } else if let Some(after) = dot_segment(rest, "/..") {
            rest = after;
            out.truncate(out.rfind('/').unwrap_or(0));
        } else {
            let length = rest
                .char_indices()
                .skip(1)
                .find(|(_, letter)| *letter == '/')
                .map_or(rest.len(), |(at, _)| at);
            let (segment, after) = rest.split_at(length);
            out.push_str(segment);
            rest = after;
        }
    }
    out
}

/// The text after a dot segment, which itself becomes a slash.
fn dot_segment<'a>(rest: &'a str, segment: &str) -> Option<&'a str> {
    match rest.strip_prefix(segment)? {
        "" => Some("/"),
        after if after.starts_with('/') => Some(after),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        assert_eq!(resolve("", "http://a.b/c/../d"), "http://a.b/d");
        assert_eq!(
            resolve("http://a.b/c/", "x/./y.html?q#f"),
            "http://a.b/c/x/y.html?q#f"
        );
        assert_eq!(resolve("http://a.b/c/", "/z"), "http://a.b/z");
        assert_eq!(resolve("http://a.b/c/", "?q"), "http://a.b/c/?q");
        assert_eq!(resolve("", "//www.a.b/"), "http://www.a.b/");
        assert_eq!(resolve("", "www.a.b"), "www.a.b");
        assert_eq!(resolve("http://a.b", "c"), "http://a.b/c");
        assert_eq!(resolve("", "/a/.."), "/");
    }
}
