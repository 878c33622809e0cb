//! The functions of a file of Luau code, by its tokens: which of them is the procedure, and which
//! code belongs to which function.

use super::tokens::LuauToken;

/// The functions of a file.
pub(super) struct Functions {
    /// The place of the word `function` of the procedure: the function that the file itself
    /// returns. `None` if the file returns a name, or the code is not understood.
    pub(super) procedure: Option<usize>,
    /// The place of the word `function` of the innermost function around each token.
    around: Vec<Option<usize>>,
}

impl Functions {
    /// The functions of these tokens.
    ///
    /// Each block begins with one word and ends with one. An expression `if … then … else …` has no
    /// end; one that is not recognised as an expression makes later code seem to be deeper in
    /// blocks than it is, so less is found.
    pub(super) fn of(tokens: &[(usize, LuauToken<'_>)]) -> Self {
        let mut procedure = None;
        let mut around = Vec::with_capacity(tokens.len());
        // The functions around the present token, `None` for a block of another kind.
        let mut blocks: Vec<Option<usize>> = Vec::new();
        let mut previous = None;
        for (at, &(_, token)) in tokens.iter().enumerate() {
            match token {
                LuauToken::Name("function") => {
                    if blocks.is_empty() && previous == Some(LuauToken::Name("return")) {
                        procedure = Some(at);
                    }
                    blocks.push(Some(at));
                }
                LuauToken::Name("if") if !begins_expression(previous) => blocks.push(None),
                LuauToken::Name("do" | "repeat") => blocks.push(None),
                LuauToken::Name("end" | "until") => {
                    blocks.pop();
                }
                _ => {}
            }
            around.push(blocks.iter().rev().find_map(|block| *block));
            previous = Some(token);
        }
        Self { procedure, around }
    }

    /// Whether a token belongs to the procedure itself, and not to a function within it or beside
    /// it.
    pub(super) fn is_in_procedure(&self, token: usize) -> bool {
        let around = self.around.get(token).copied().flatten();
        around.is_some() && around == self.procedure
    }
}

/// Whether what follows this token is an expression.
fn begins_expression(previous: Option<LuauToken<'_>>) -> bool {
    match previous {
        Some(LuauToken::Sign(sign)) => !matches!(sign, ')' | '}' | ']' | ';'),
        Some(LuauToken::Name(name)) => matches!(
            name,
            "return" | "and" | "or" | "not" | "in" | "if" | "elseif" | "while" | "until"
        ),
        Some(LuauToken::Text(_)) | None => false,
    }
}
