//! The directives that define rules: `header`, `body`, `rawbody`, `uri`, `full`, `meta`,
//! `mimeheader`.

use super::definition::{FieldTest, RuleDefinition, RuleTest, View};
use super::line::{LineProblem, LoadedLines, RuleLine};
use crate::network::{LinkFlags, LinkList, LinkQuery, NetworkCall};

/// The longest name of a rule.
const NAME_LENGTH_MAX: usize = 128;

pub(super) type LineOutcome = Result<(), LineProblem>;

fn define(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>, test: RuleTest) -> LineOutcome {
    let definition = rule(loaded, line)?;
    definition.test = Some(test);
    let source = line.source.clone();
    definition.source = source;
    Ok(())
}

/// The rule that a line names first.
pub(super) fn rule<'l>(
    loaded: &'l mut LoadedLines<'_>,
    line: &RuleLine<'_>,
) -> Result<&'l mut RuleDefinition, LineProblem> {
    let name = line.first_word();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    if !starts_well || !name.bytes().all(is_word) || name.len() > NAME_LENGTH_MAX {
        return Err(LineProblem::invalid(
            format!("{name:?} cannot name a rule"),
            "use letters, digits and underscores, beginning with no digit",
        ));
    }
    Ok(loaded.definitions.rule(name))
}

pub(super) fn header(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word()?;
    if let Some(call) = strip_eval(value) {
        return eval(loaded, line, View::Header, call);
    }
    let test = match value.strip_prefix(b"exists:") {
        Some(field) => {
            let field = String::from_utf8_lossy(field);
            let selector = field.trim_end_matches(':');
            check_selector(selector)?;
            RuleTest::Exists {
                selector: selector.to_owned(),
            }
        }
        None => RuleTest::Header(field_test(value)?),
    };
    define(loaded, line, test)
}

pub(super) fn mime_header(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let test = field_test(line.after_first_word()?)?;
    let modifier = test.selector.split_once(':').map(|(_, modifier)| modifier);
    if let Some(modifier) = modifier.filter(|&modifier| modifier != "raw") {
        return Err(LineProblem::invalid(
            format!("a field of a part has no modifier :{modifier}"),
            "there is :raw",
        ));
    }
    define(loaded, line, RuleTest::MimeHeader(test))
}

/// `eval:…` and the older `rbleval:…`.
fn strip_eval(value: &[u8]) -> Option<&[u8]> {
    let value = value.strip_prefix(b"rbl").unwrap_or(value);
    value.strip_prefix(b"eval:")
}

/// `Field:modifier =~ /pattern/ [if-unset: text]`.
fn field_test(value: &[u8]) -> Result<FieldTest, LineProblem> {
    let malformed = || {
        LineProblem::invalid(
            "it is not a comparison of a header field",
            "write: Field =~ /pattern/, Field !~ /pattern/ or exists:Field",
        )
    };
    let name_length = value
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-:".contains(byte))
        .count();
    let (name, rest) = value.split_at(name_length);
    let rest = rest.trim_ascii_start();
    let (negated, rest) = match rest {
        [b'=', b'~', rest @ ..] => (false, rest),
        [b'!', b'~', rest @ ..] => (true, rest),
        _ => return Err(malformed()),
    };
    let selector = String::from_utf8_lossy(name);
    let selector = selector.trim_end_matches(':');
    check_selector(selector)?;
    let mut pattern = rest.trim_ascii();
    let mut if_unset = None;
    if let Some(start) = memchr::memmem::rfind(pattern, b"[if-unset:") {
        let (before, clause) = pattern.split_at(start);
        let text = clause
            .strip_prefix(b"[if-unset:")
            .and_then(|clause| clause.strip_suffix(b"]"));
        if let (Some(text), true) = (text, before.ends_with(b" ") || before.ends_with(b"\t")) {
            if_unset = Some(text.trim_ascii_start().to_vec());
            pattern = before.trim_ascii_end();
        }
    }
    if pattern.is_empty() {
        return Err(malformed());
    }
    Ok(FieldTest {
        selector: selector.to_owned(),
        pattern: pattern.to_vec(),
        negated,
        if_unset,
    })
}

fn check_selector(selector: &str) -> LineOutcome {
    let mut pieces = selector.split(':');
    if pieces.next().is_none_or(str::is_empty) {
        return Err(LineProblem::invalid("the field's name is missing", ""));
    }
    const MODIFIERS: [&str; 9] = [
        "raw", "addr", "name", "host", "domain", "ip", "revip", "first", "last",
    ];
    match pieces.find(|piece| !MODIFIERS.contains(piece)) {
        None => Ok(()),
        Some(unknown) => Err(LineProblem::invalid(
            format!("a field has no modifier :{unknown}"),
            format!("there are :{}", MODIFIERS.join(", :")),
        )),
    }
}

fn pattern_or_eval(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>, view: View) -> LineOutcome {
    let value = line.after_first_word()?;
    if let Some(call) = value.strip_prefix(b"eval:") {
        return eval(loaded, line, view, call);
    }
    let pattern = value.to_vec();
    define(loaded, line, RuleTest::Pattern { view, pattern })
}

pub(super) fn body(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    pattern_or_eval(loaded, line, View::Body)
}

pub(super) fn raw_body(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    pattern_or_eval(loaded, line, View::RawBody)
}

pub(super) fn full(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    pattern_or_eval(loaded, line, View::Full)
}

pub(super) fn uri(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let pattern = line.after_first_word()?.to_vec();
    let view = View::Uri;
    define(loaded, line, RuleTest::Pattern { view, pattern })
}

pub(super) fn uri_detail(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let conditions = String::from_utf8_lossy(line.after_first_word()?).into_owned();
    define(loaded, line, RuleTest::UriDetail { conditions })
}

pub(super) fn meta(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let expression = String::from_utf8_lossy(line.after_first_word()?).into_owned();
    define(loaded, line, RuleTest::Meta { expression })
}

pub(super) fn network(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word_text()?;
    // The third argument, a filter, may contain blanks.
    let mut arguments = Vec::new();
    let mut rest = value.trim();
    while !rest.is_empty() && arguments.len() < 2 {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        arguments.push(word.to_owned());
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        arguments.push(rest.to_owned());
    }
    let function = line.directive.to_owned();
    define(
        loaded,
        line,
        RuleTest::Network(NetworkCall {
            function,
            arguments,
        }),
    )
}

/// `uridnsbl NAME zone TYPE [subtest]` and similar directives.
pub(super) fn link_list(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>) -> LineOutcome {
    let value = line.after_first_word_text()?;
    let words: Vec<&str> = value.split_whitespace().collect();
    let [zone, kind, ref subtest @ ..] = words[..] else {
        return Err(LineProblem::invalid(
            "the list or the type of its records is missing",
            "write: urirhssub NAME list.example. A 2",
        ));
    };
    let list = LinkList {
        zone: zone.to_owned(),
        kind: kind.to_ascii_uppercase(),
        subtest: subtest.first().map(|&subtest| subtest.to_owned()),
        query: LinkQuery::of_directive(line.directive),
        flags: LinkFlags::default(),
    };
    let name = rule(loaded, line)?.name.clone();
    loaded.definitions.link_lists.insert(name, list);
    Ok(())
}

fn eval(loaded: &mut LoadedLines<'_>, line: &RuleLine<'_>, view: View, call: &[u8]) -> LineOutcome {
    let call = String::from_utf8_lossy(call);
    let malformed = || {
        LineProblem::invalid(
            format!("{call:?} is not a call of a function"),
            "write: eval:function('text', 1)",
        )
    };
    let (function, arguments) = call
        .trim()
        .strip_suffix(')')
        .and_then(|call| call.split_once('('))
        .ok_or_else(malformed)?;
    let arguments = eval_arguments(arguments).ok_or_else(malformed)?;
    let function = function.trim().to_owned();
    if NETWORK_FUNCTIONS
        .iter()
        .any(|start| function.starts_with(start))
    {
        return define(
            loaded,
            line,
            RuleTest::Network(NetworkCall {
                function,
                arguments,
            }),
        );
    }
    define(
        loaded,
        line,
        RuleTest::Eval {
            view,
            function,
            arguments,
        },
    )
}

/// The prefixes of functions that need DNS.
const NETWORK_FUNCTIONS: [&str; 13] = [
    "check_rbl",
    "check_dns",
    "check_uridnsbl",
    "check_for_spf_",
    "check_for_def_spf_",
    "check_spf_",
    "check_dkim_",
    "check_for_dkim_",
    "check_for_def_dkim_",
    "check_arc_",
    "check_dmarc_",
    "check_hashbl_",
    "check_asn",
];

/// Quoted texts and bare words, separated by commas.
fn eval_arguments(text: &str) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let after = if matches!(first, '\'' | '"') {
            let (argument, after) = rest.get(1..)?.split_once(first)?;
            arguments.push(argument.to_owned());
            after.trim_start()
        } else {
            let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
            let (argument, after) = rest.split_at(end);
            let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b".:-".contains(&byte);
            if argument.is_empty() || !argument.bytes().all(is_bare) {
                return None;
            }
            arguments.push(argument.to_owned());
            after.trim_start()
        };
        rest = match after.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if after.is_empty() => "",
            None => return None,
        };
    }
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_calls() {
        let arguments = |text| eval_arguments(text);
        assert_eq!(arguments(""), Some(vec![]));
        assert_eq!(
            arguments("'a, b', \"it's\" , 1.5,-3"),
            Some(["a, b", "it's", "1.5", "-3"].map(str::to_owned).to_vec())
        );
        assert_eq!(arguments("'a' 'b'"), None);
        assert_eq!(arguments("'a"), None);
    }

    #[test]
    fn comparisons_of_fields() {
        let test = field_test(b"From:addr =~ /x [if-unset: y] z/i\t[if-unset: no one]").unwrap();
        assert_eq!(test.selector, "From:addr");
        assert_eq!(test.pattern, b"/x [if-unset: y] z/i");
        assert_eq!(test.if_unset.as_deref(), Some(&b"no one"[..]));
        assert!(field_test(b"Subject!~/x/").unwrap().negated);
        for broken in ["Subject = /x/", "From:some =~ /x/", "=~ /x/", "Subject =~"] {
            assert!(field_test(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
