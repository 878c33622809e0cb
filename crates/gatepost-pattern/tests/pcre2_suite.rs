//! PCRE2's own list of patterns that have the same meaning in Perl (`testinput1`), with the
//! expected matches.
//!
//! `tests/fetch-patterns` fetches the list into `.corpora/pcre2/testdata`. `GATEPOST_TEST_PCRE2`
//! may name another folder, such as `testdata` of another version of PCRE2's source.

use std::path::{Path, PathBuf};

use gatepost_pattern::Pattern;

/// Patterns that are refused: two with `\Q` or `\E`, which Perl resolves before it reads a regular
/// expression.
const REFUSED_MAX: usize = 2;

fn testdata() -> PathBuf {
    let named = std::env::var_os("GATEPOST_TEST_PCRE2").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    named.unwrap_or_else(|| root.join(".corpora/pcre2/testdata"))
}

/// A pattern with its subjects and the expected match in each.
struct Case {
    pattern: Vec<u8>,
    subjects: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Perl's modifiers; the others are for the test program.
const MODIFIERS: &[u8] = b"imsxn";

/// Reads the output of the test program, in which each subject is followed by its result.
fn cases(text: &[u8]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = text.split(|&byte| byte == b'\n');
    let mut subject: Option<Vec<u8>> = None;
    let mut in_case = false;
    while let Some(line) = lines.next() {
        if !in_case {
            if line.first() != Some(&b'/') {
                continue;
            }
            let mut pattern = line.to_vec();
            while !is_closed(&pattern) {
                pattern.push(b'\n');
                pattern.extend_from_slice(lines.next().expect("the pattern ends"));
            }
            in_case = true;
            subject = None;
            cases.push(Case {
                pattern,
                subjects: Vec::new(),
            });
        } else if line.trim_ascii().is_empty() {
            in_case = false;
        } else if let Some(text) = line.strip_prefix(b"    ") {
            // The program ignores blanks at the end of a line.
            subject = Some(unescape(text.trim_ascii_end()));
        } else if let (Some(text), Some(case)) = (subject.take(), cases.last_mut()) {
            let found = line.strip_prefix(b" 0: ").map(unescape_found);
            if found.is_some() || line == b" 0: " || line == b"No match" {
                case.subjects.push((text, found));
            }
        }
    }
    cases
}

/// Whether the last line of a pattern contains its closing delimiter.
fn is_closed(pattern: &[u8]) -> bool {
    let mut at = 1;
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b'\\' => at += 2,
            b'/' => return true,
            _ => at += 1,
        }
    }
    false
}

/// The pattern with Perl's modifiers only; `None` if the test program's own change its meaning.
fn as_perl(pattern: &[u8]) -> Option<Vec<u8>> {
    let end = pattern.iter().rposition(|&byte| byte == b'/')?;
    let (body, modifiers) = pattern.split_at(end + 1);
    let mut kept = body.to_vec();
    for word in modifiers.split(|&byte| byte == b',') {
        match word {
            b"" | b"aftertext" | b"mark" | b"no_auto_possess" | b"jitstack" => {}
            word if word.iter().all(|byte| MODIFIERS.contains(byte)) => {
                kept.extend_from_slice(word);
            }
            _ => return None,
        }
    }
    Some(kept)
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'f') => out.push(0x0c),
            Some(b'a') => out.push(0x07),
            Some(b'e') => out.push(0x1b),
            Some(b'b') => out.push(0x08),
            Some(b'v') => out.push(0x0b),
            Some(b'=') | None => break,
            Some(b'x') => {
                let braced = bytes.next_if_eq(&b'{').is_some();
                let mut value = 0;
                let mut digits = 0;
                while digits < if braced { 8 } else { 2 } {
                    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
                    let Some(digit) = bytes.next_if(is_digit) else {
                        break;
                    };
                    value = value * 16 + char::from(digit).to_digit(16).unwrap_or(0);
                    digits += 1;
                }
                if braced {
                    bytes.next_if_eq(&b'}');
                }
                out.push(value as u8);
            }
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| matches!(byte, b'0'..=b'7')) else {
                        break;
                    };
                    value = value * 8 + u32::from(digit - b'0');
                }
                out.push(value as u8);
            }
            Some(other) => out.push(other),
        }
    }
    out
}

/// A match as the program prints it: only bytes that are not printable are escaped.
fn unescape_found(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = rest.strip_prefix(b"\\x").and_then(|digits| {
            let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        // A printable byte is never escaped, so the text contains this backslash.
        let code = code.filter(|code| !(b' '..=b'~').contains(code));
        if let Some(code) = code {
            out.push(code);
            rest = rest.get(4..).unwrap_or_default();
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    out
}

#[test]
fn patterns_of_perl_match_what_pcre2_expects() {
    let output = std::fs::read(testdata().join("testoutput1"))
        .expect("PCRE2's list is there; tests/fetch-patterns fetches it");
    let (mut patterns, mut searches) = (0, 0);
    let (mut refused, mut differing, mut limited) = (Vec::new(), Vec::new(), Vec::new());
    for case in cases(&output) {
        let Some(pattern) = as_perl(&case.pattern) else {
            continue;
        };
        patterns += 1;
        let shown = pattern.escape_ascii().to_string();
        let compiled = match Pattern::parse(&pattern) {
            Ok(compiled) => compiled,
            Err(error) => {
                refused.push(format!("{shown}: {error}"));
                continue;
            }
        };
        for (subject, expected) in &case.subjects {
            searches += 1;
            match compiled.find(subject, 0, |_| true) {
                Ok(found) => {
                    let found = found.map(|(from, to)| subject[from..to].to_vec());
                    if found != *expected {
                        differing.push(format!(
                            "{shown} in \"{}\": {:?} and not {:?}",
                            subject.escape_ascii(),
                            found.map(|text| text.escape_ascii().to_string()),
                            expected
                                .as_ref()
                                .map(|text| text.escape_ascii().to_string()),
                        ));
                    }
                }
                Err(limit) => limited.push(format!("{shown}: {limit:?}")),
            }
        }
    }
    println!(
        "{patterns} patterns, {} refused; {searches} searches, {} differ, {} limited",
        refused.len(),
        differing.len(),
        limited.len()
    );
    for list in [&refused, &differing, &limited] {
        println!("{}", list.join("\n"));
    }
    assert!(patterns > 1000, "the list is whole");
    assert!(refused.len() <= REFUSED_MAX, "{} refused", refused.len());
    assert!(differing.is_empty(), "{} differ", differing.len());
    assert!(limited.is_empty(), "{} at their limits", limited.len());
}
