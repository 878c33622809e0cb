//! Rust source as text: without comments, contents of strings and items for tests.

/// The code alone: comments and all items that `#[cfg(test)]` marks are removed, literals are
/// emptied.
pub(crate) fn code(text: &str) -> String {
    without_test_items(&without_comments_and_literals(text))
}

fn without_test_items(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        kept.push_str(&rest[..at]);
        rest = after_item(&rest[at + MARK.len()..]);
    }
    kept + rest
}

/// The code after the item that begins here, with its attributes: after its semicolon or the brace
/// that closes its body.
fn after_item(code: &str) -> &str {
    let mut depth = 0;
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return &code[at..];
        }
        if depth == 0 && matches!(character, ';' | '}') {
            return &code[at + 1..];
        }
    }
    ""
}

fn without_comments_and_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            at += length_to(rest, b"\n");
        } else if rest.starts_with(b"/*") {
            at += length_to(&rest[2..], b"*/") + 4;
        } else if let Some(length) = raw_string(rest).filter(|_| !ends_with_word(&code)) {
            code.extend_from_slice(b"\"\"");
            at += length;
        } else if rest[0] == b'"' {
            code.extend_from_slice(b"\"\"");
            at += string(rest);
        } else if let Some(length) = character(rest) {
            code.extend_from_slice(b"' '");
            at += length;
        } else {
            code.push(rest[0]);
            at += 1;
        }
    }
    String::from_utf8(code).expect("only whole characters were removed")
}

fn length_to(bytes: &[u8], end: &[u8]) -> usize {
    let mut windows = bytes.windows(end.len());
    windows
        .position(|window| window == end)
        .unwrap_or(bytes.len())
}

fn ends_with_word(code: &[u8]) -> bool {
    code.last()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The length of a raw string literal that begins here.
fn raw_string(bytes: &[u8]) -> Option<usize> {
    let prefix = if bytes.starts_with(b"br") {
        2
    } else if bytes.starts_with(b"r") {
        1
    } else {
        return None;
    };
    let hashes = bytes[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let body = prefix + hashes + 1;
    if bytes.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    Some(body + length_to(&bytes[body..], &end) + end.len())
}

/// The length of a string literal that begins here.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a character literal that begins here; `None` for a lifetime.
fn character(bytes: &[u8]) -> Option<usize> {
    if bytes[0] != b'\'' {
        return None;
    }
    if bytes.get(1) == Some(&b'\\') {
        return Some(3 + length_to(&bytes[3..], b"'") + 1);
    }
    let text = std::str::from_utf8(&bytes[1..bytes.len().min(5)]);
    let valid = match &text {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[1..=error.valid_up_to()]).unwrap_or_default(),
    };
    let length = valid.chars().next()?.len_utf8();
    (bytes.get(1 + length) == Some(&b'\'')).then_some(length + 2)
}

/// All paths in the code that begin with `crate`, `super` or `self`, and all paths in `use`
/// declarations, with groups expanded. A path is a list of names; a glob ends it early.
pub(crate) fn paths(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at] == "use";
        let is_rooted =
            matches!(tokens[at], "crate" | "super" | "self") && tokens.get(at + 1) == Some(&"::");
        if is_use {
            at = tree(&tokens, at + 1, &[], &mut paths);
        } else if is_rooted {
            let mut path = vec![tokens[at].to_owned()];
            at += 1;
            while tokens.get(at) == Some(&"::") && tokens.get(at + 1).is_some_and(is_name) {
                path.push(tokens[at + 1].to_owned());
                at += 2;
            }
            paths.push(path);
        } else {
            at += 1;
        }
    }
    paths
}

/// Reads one tree of a `use` declaration and returns the position behind it.
fn tree(tokens: &[&str], mut at: usize, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(&token) = tokens.get(at) {
        match token {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    let end = tree(tokens, at, &path, paths);
                    // A token that is not part of a tree is passed over, or the loop would not end.
                    at = end + usize::from(end == at || tokens.get(end) == Some(&","));
                }
                return at + 1;
            }
            "::" | "*" => at += 1,
            "as" => at += 2,
            name if is_name(&name) => {
                path.push(name.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    paths.push(path);
    at
}

fn is_name(token: &&str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "use a::b; // crate::x\nlet s = \"crate::y\"; let c = '\"'; fn f<'a>() {}\n\
                let r = r#\"crate::z \"\"#;\n";
    let code = code(text);
    assert!(!code.contains("crate"), "{code}");
    assert!(code.contains("fn f<'a>() {}"));
}

#[test]
fn items_for_tests_are_not_code_wherever_they_stand() {
    let text = "#[cfg(test)]\nuse a::{b, c};\nfn one() {}\n\
                #[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n use super::*;\n fn no() {}\n}\n\
                fn two() {}\n\
                impl A {\n  #[cfg(test)]\n  fn no(x: [u8; 3]) -> u8 { 1 }\n  fn three() {}\n}\n\
                #[cfg(test)]\nmod no;\nmod four;\n#[cfg(not(test))]\nfn five() {}\n";
    let code = code(text);
    for kept in ["fn one", "fn two", "fn three", "mod four", "fn five"] {
        assert!(code.contains(kept), "{kept} is missing: {code}");
    }
    for removed in ["use a", "mod tests", "super", "no", "u8"] {
        let code = code.replace("not(test)", "");
        assert!(!code.contains(removed), "{removed} is left: {code}");
    }
}

#[test]
fn a_group_that_is_no_tree_ends() {
    assert_eq!(paths("use {; 1, a}").last(), Some(&vec!["a".to_owned()]));
}

#[test]
fn groups_are_expanded() {
    let found = paths("use crate::{a::{B, c::D as E}, f::*}; fn g() { super::h::i() }");
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    let expected = ["crate::a::B", "crate::a::c::D", "crate::f", "super::h::i"];
    assert_eq!(found, expected);
}
