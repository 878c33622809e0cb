//! Mistakes of the users' code that compile: misspelt verdicts, and fields that no message has.
//!
//! Luau's own analysis is a library in C++ that `mlua` does not build (ARCHITECTURE.md, "No type
//! analysis of Luau"), so the code is only analysed token by token. The text in
//! `return "rejct", …` is certainly not a verdict, and `message.subjct` is always nil;
//! `return "rejct"` may be a text for a page, and is a warning. The fields are those of
//! `docs/gatepost.d.luau`.

use std::sync::LazyLock;

use gatepost_message::Action;

use super::functions::Functions;
use super::tokens::{LuauToken, tokens};

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
    let functions = Functions::of(&tokens);
    let mut found = verdicts(&tokens, &functions);
    found.extend(fields(&tokens, &functions));
    found.sort_by_key(|mistake| mistake.line);
    found
}

/// `return "rejct", reason` and `return {action = "rejct"}` of the procedure, and elsewhere a text
/// that is nearly a verdict: other functions return other texts, and other tables have an `action`.
fn verdicts(tokens: &[(usize, LuauToken<'_>)], functions: &Functions) -> Vec<LintFinding> {
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
        let is_answer = (is_returned && has_reason) || (is_member && is_in_returned(tokens, at));
        let is_meant = is_answer && functions.is_in_procedure(at);
        let is_alone = is_returned && ends_statement(tokens.get(at + 1));
        let nearest = nearest(text, Action::ALL.iter().map(|action| action.name()));
        let may_be_meant = is_answer || is_member || is_alone;
        if !(is_meant || (may_be_meant && nearest.is_some())) {
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

/// Whether the innermost table around this token is returned.
fn is_in_returned(tokens: &[(usize, LuauToken<'_>)], at: usize) -> bool {
    let mut depth = 0_usize;
    for (start, &(_, token)) in tokens.iter().enumerate().take(at).rev() {
        match token {
            LuauToken::Sign('}') => depth += 1,
            LuauToken::Sign('{') if depth > 0 => depth -= 1,
            LuauToken::Sign('{') => {
                let before = start.checked_sub(1).and_then(|before| tokens.get(before));
                return before.is_some_and(|&(_, token)| token == LuauToken::Name("return"));
            }
            _ => {}
        }
    }
    false
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
fn fields(tokens: &[(usize, LuauToken<'_>)], functions: &Functions) -> Vec<LintFinding> {
    let words: Vec<LuauToken<'_>> = tokens.iter().map(|&(_, token)| token).collect();
    let head = functions.procedure.and_then(|at| words.get(at..at + 3));
    let Some([_, LuauToken::Sign('('), LuauToken::Name(parameter)]) = head else {
        return Vec::new();
    };
    let parameter = *parameter;
    let is_declared_again = words.windows(2).any(|pair| {
        let is_it = pair.get(1) == Some(&LuauToken::Name(parameter));
        is_it && matches!(pair.first(), Some(LuauToken::Name("local" | "for")))
    });
    if is_declared_again || functions_with(parameter, &words) > 1 {
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

/// The number of functions that have a parameter of this name.
fn functions_with(parameter: &str, words: &[LuauToken<'_>]) -> usize {
    let starts = words.iter().enumerate();
    let starts = starts.filter(|(_, word)| **word == LuauToken::Name("function"));
    let has_it = |(start, _): &(usize, &LuauToken<'_>)| {
        let rest = words.get(*start..).unwrap_or_default();
        let list = rest
            .iter()
            .skip_while(|word| **word != LuauToken::Sign('('));
        let mut list = list.take_while(|word| **word != LuauToken::Sign(')'));
        list.any(|word| *word == LuauToken::Name(parameter))
    };
    starts.filter(has_it).count()
}

/// The known word that is nearly this one.
fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|name| (strsim::damerau_levenshtein(text, name), name));
    distances
        .filter(|&(distance, name)| distance <= name.len().max(3) / 3)
        .min()
        .map(|(_, name)| name)
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
    fn only_the_answer_of_the_procedure_is_certainly_a_verdict() {
        let certain = |source: &str| -> Vec<bool> {
            let found = mistakes(source).into_iter();
            found.map(|one| one.is_certain).collect()
        };
        let none: [bool; 0] = [];
        for source in [
            "return function(m) publish('a', json.encode({action = 'on'})) end",
            "return function(m) return {action = 'tag', tags = {action = 'on'}} end",
            "local function state() return 'on', 1 end return function(m) return state() end",
            "return function(m) local f = function() return 'on', 1 end return f() end",
            "local function of(x) return function(state) return state.count end end\n\
             return function(m) return of(m) end",
            "return function(m) local f = function(a, m) return m.other end return f(1, {}) end",
        ] {
            assert_eq!(certain(source), none, "{source}");
        }
        for (source, expected) in [
            (
                "return function(m) local a = {} a.action = 'rejct' return a end",
                false,
            ),
            (
                "local function f() return 'rejct', 1 end return function(m) return f() end",
                false,
            ),
            (
                "return function(m) return {tags = {a = 'b'}, action = 'on'} end",
                true,
            ),
            (
                "local a = if b then 1 else 2\nlocal function f() return 1 end\n\
                 return function(m) while true do if m.id then return 'on', 'why' end end end",
                true,
            ),
            (
                "local function f(x) return function(y) return y end end\n\
                 return function(m) return m.subjct end",
                true,
            ),
        ] {
            assert_eq!(certain(source), [expected], "{source}");
        }
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
