//! Mistakes of the users' code that compile: misspelt verdicts, and fields that no message has.
//!
//! Luau's own analysis is a library in C++ that `mlua` does not build (ARCHITECTURE.md, "No type
//! analysis of Luau"), so the code is only analysed token by token. The text in
//! `return "rejct", …` is certainly not a verdict, and `message.subjct` is always nil;
//! `return "rejct"` may be a text for a page, and is a warning. The fields are those of
//! `docs/gatepost.d.luau`.

use std::sync::LazyLock;

use gatepost_message::Action;

/// The definitions for editors.
const TYPES: &str = include_str!("../../../../docs/gatepost.d.luau");

/// The members of the class `Message`.
static MESSAGE_MEMBERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let lines = TYPES.lines().map(str::trim);
    let members = lines
        .skip_while(|line| *line != "declare class Message")
        .skip(1)
        .take_while(|line| *line != "end");
    let name = |line: &'static str| {
        let line = line.strip_prefix("function ").unwrap_or(line);
        line.split([':', '(']).next()
    };
    members.filter_map(name).collect()
});

/// One word of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LuauToken<'a> {
    Name(&'a str),
    Text(&'a str),
    /// Any other character that is not white space.
    Sign(char),
}

/// A mistake, with its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LintFinding {
    pub(super) line: usize,
    pub(super) text: String,
    /// Whether it is certainly a mistake.
    pub(super) is_certain: bool,
}

/// The mistakes of a file.
pub(super) fn mistakes(source: &str) -> Vec<LintFinding> {
    let tokens = tokens(source);
    let mut found = verdicts(&tokens);
    found.extend(fields(&tokens));
    found.sort_by_key(|mistake| mistake.line);
    found
}

/// `return "rejct", reason` and `{action = "rejct"}`, and a text alone that is nearly a verdict.
fn verdicts(tokens: &[(usize, LuauToken<'_>)]) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (at, &(line, token)) in tokens.iter().enumerate() {
        let LuauToken::Text(text) = token else {
            continue;
        };
        if text.parse::<Action>().is_ok() {
            continue;
        }
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        let is = |token: Option<&(usize, LuauToken<'_>)>, wanted| {
            token.is_some_and(|&(_, token)| token == wanted)
        };
        let is_returned = is(before(1), LuauToken::Name("return"));
        let has_reason = is(tokens.get(at + 1), LuauToken::Sign(','));
        let is_action =
            is(before(1), LuauToken::Sign('=')) && is(before(2), LuauToken::Name("action"));
        // The name of a local variable is not that of a table's member.
        let is_member = is_action && !is(before(3), LuauToken::Name("local"));
        let nearest = nearest(text, Action::ALL.iter().map(|action| action.name()));
        let is_meant = (is_returned && has_reason) || is_member;
        let is_alone = is_returned && ends_statement(tokens.get(at + 1));
        if !(is_meant || (is_alone && nearest.is_some())) {
            continue;
        }
        let fix = nearest.map_or_else(
            || "the verdicts are accept, tag, quarantine, drop, reject and defer".to_owned(),
            |name| format!("did you mean '{name}'?"),
        );
        let text = format!("'{text}' is not a verdict; {fix}");
        found.push(LintFinding {
            line,
            text,
            is_certain: is_meant,
        });
    }
    found
}

/// Whether nothing of the statement follows.
fn ends_statement(next: Option<&(usize, LuauToken<'_>)>) -> bool {
    match next {
        None | Some((_, LuauToken::Sign(';'))) => true,
        Some((_, LuauToken::Name(name))) => matches!(*name, "end" | "else" | "elseif" | "until"),
        Some(_) => false,
    }
}

/// `message.subjct`, where `message` is the first parameter of the function that the file returns
/// and no other variable has its name.
fn fields(tokens: &[(usize, LuauToken<'_>)]) -> Vec<LintFinding> {
    let words: Vec<LuauToken<'_>> = tokens.iter().map(|&(_, token)| token).collect();
    let head = words.windows(4).find_map(|words| match *words {
        [
            LuauToken::Name("return"),
            LuauToken::Name("function"),
            LuauToken::Sign('('),
            LuauToken::Name(parameter),
        ] => Some(parameter),
        _ => None,
    });
    let Some(parameter) = head else {
        return Vec::new();
    };
    let is_declared_again = words.windows(2).any(|pair| {
        let is_it = pair.get(1) == Some(&LuauToken::Name(parameter));
        is_it && matches!(pair.first(), Some(LuauToken::Name("local" | "for")))
    });
    let functions = words.windows(3).filter(|words| {
        let is_list = words.get(1) == Some(&LuauToken::Sign('('));
        let takes_it = words.get(2) == Some(&LuauToken::Name(parameter));
        words.first() == Some(&LuauToken::Name("function")) && is_list && takes_it
    });
    if is_declared_again || functions.count() > 1 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, &(line, token)) in tokens.iter().enumerate() {
        let LuauToken::Name(member) = token else {
            continue;
        };
        let is_accessed = at.checked_sub(2).is_some_and(|start| {
            let is_dot = matches!(words.get(start + 1), Some(LuauToken::Sign('.' | ':')));
            let is_of_another = start.checked_sub(1).is_some_and(|before| {
                matches!(words.get(before), Some(LuauToken::Sign('.' | ':')))
            });
            // `function(message: Message)` declares its type.
            let is_declaration = start
                .checked_sub(2)
                .is_some_and(|before| words.get(before) == Some(&LuauToken::Name("function")));
            words.get(start) == Some(&LuauToken::Name(parameter))
                && is_dot
                && !is_of_another
                && !is_declaration
        });
        if !is_accessed || MESSAGE_MEMBERS.contains(&member) {
            continue;
        }
        let fix = nearest(member, MESSAGE_MEMBERS.iter().copied())
            .map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
        let text = format!("a message has no '{member}'{fix}");
        found.push(LintFinding {
            line,
            text,
            is_certain: true,
        });
    }
    found
}

/// The known word that is nearly this one.
fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|name| (strsim::damerau_levenshtein(text, name), name));
    distances
        .filter(|&(distance, name)| distance <= name.len().max(3) / 3)
        .min()
        .map(|(_, name)| name)
}

/// The words with their lines, without comments. A text with escapes or parts to be filled in is
/// kept as it is written.
fn tokens(source: &str) -> Vec<(usize, LuauToken<'_>)> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(rest, first);
        let (taken, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if let Some(token) = token {
            tokens.push((line, token));
        }
        line += taken.matches('\n').count();
        rest = left;
    }
    tokens
}

/// The token that `rest` begins with, if it is one, and how many bytes it or the gap has.
fn next(rest: &str, first: char) -> (Option<LuauToken<'_>>, usize) {
    if let Some(comment) = rest.strip_prefix("--") {
        let long = long_bracket(comment).map(|(_, length)| length + 2);
        return (None, long.unwrap_or_else(|| line_length(rest)));
    }
    if let Some((text, length)) = long_bracket(rest) {
        return (Some(LuauToken::Text(text)), length);
    }
    if matches!(first, '"' | '\'' | '`') {
        let (text, length) = quoted(rest, first);
        return (Some(LuauToken::Text(text)), length);
    }
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    if is_word(first) {
        let length = rest.find(|character| !is_word(character));
        let length = length.unwrap_or(rest.len());
        return (
            Some(LuauToken::Name(rest.get(..length).unwrap_or_default())),
            length,
        );
    }
    let sign = (!first.is_whitespace()).then_some(LuauToken::Sign(first));
    (sign, first.len_utf8())
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// `[[…]]`, `[=[…]=]`: the text and the length of all.
fn long_bracket(rest: &str) -> Option<(&str, usize)> {
    let inner = rest.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    let text = inner.get(level..)?.strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let end = text.find(&close).unwrap_or(text.len());
    let length = level + 2 + end + close.len();
    Some((text.get(..end)?, length.min(rest.len())))
}

fn quoted(rest: &str, quote: char) -> (&str, usize) {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == quote {
            return (rest.get(1..at).unwrap_or_default(), at + 1);
        }
    }
    (rest.get(1..).unwrap_or_default(), rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let found = mistakes(source).into_iter();
        found
            .map(|one| format!("{}: {}", one.line, one.text))
            .collect()
    }

    #[test]
    fn misspelt_verdicts_and_fields_are_found() {
        let source = "-- return \"rejct\", 'x'\nreturn function(message, arguments)\n\
             \x20   if message.subjct == nil then return \"rejct\", \"spam\" end\n\
             \x20   if message:heder(\"X\") then return \"acept\" end\n\
             \x20   return {action = 'quarantin', reason = message.subject}\nend\n";
        assert_eq!(
            found(source),
            [
                "3: 'rejct' is not a verdict; did you mean 'reject'?",
                "3: a message has no 'subjct'; did you mean 'subject'?",
                "4: 'acept' is not a verdict; did you mean 'accept'?",
                "4: a message has no 'heder'; did you mean 'header'?",
                "5: 'quarantin' is not a verdict; did you mean 'quarantine'?",
            ]
        );
        let unknown = "return function(m) return \"banana\", \"why\" end";
        let list = "the verdicts are accept, tag, quarantine, drop, reject and defer";
        assert_eq!(
            found(unknown),
            [format!("1: 'banana' is not a verdict; {list}")]
        );
    }

    #[test]
    fn code_that_may_be_right_is_left_alone() {
        for source in [
            "return function(m) return \"Hello\" end",
            "return function(m) return [[rejct]] .. m.id end",
            "return function(m) local m = {} return m.other end",
            "return function(m) return function(m) return m.other end end",
            "return function(m) local x = {m = {}} return x.m.other end",
            "local function f(message) return message.other end return f",
            "return function(m) if m.hits.SOME then return \"drop\", `{m.size}` end end",
            "return function(m, a) return \"accept\", \"--[[\" end",
            "return function(m) for m in x do print(m.other) end end",
            "return function(m: Message, arguments: {[string]: string}) return \"accept\" end",
        ] {
            assert_eq!(found(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn the_members_are_those_of_the_definitions() {
        for name in ["id", "subject", "headers", "header", "set_payload"] {
            assert!(MESSAGE_MEMBERS.contains(&name), "{name}");
        }
        assert!(!MESSAGE_MEMBERS.contains(&"disposition"), "a part's");
    }
}
