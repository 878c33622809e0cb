//! The source of a pattern, and its tree while something is made of it.
//!
//! Trees are large and are not kept: whatever needs one parses the source again. A message that
//! first needs a pattern needs its prefix filter and its compiled code, so one [`ParsedSource`]
//! serves both.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::error::PatternError;
use crate::engine::{self, CompileMode};
use crate::syntax::{self, Modifiers, Node};

/// The source of a pattern that was parsed before.
#[derive(Debug)]
pub(super) struct Source {
    body: Box<[u8]>,
    modifiers: Modifiers,
}

impl Source {
    /// Parses a pattern. Syntax that the parser does not support is accepted if PCRE2 compiles it.
    /// A pattern that PCRE2 may refuse is compiled once, so that its rule is reported when it is
    /// loaded.
    pub(super) fn parse(body: &[u8], modifiers: Modifiers) -> Result<(Self, Node), PatternError> {
        let source = Self {
            body: body.into(),
            modifiers,
        };
        let tree = match syntax::parse(body, modifiers) {
            Ok(tree) if !tree.may_be_refused() => return Ok((source, tree)),
            Ok(tree) => tree,
            Err(error) => {
                let opaque = syntax::opaque(body, modifiers).ok_or_else(|| error.clone())?;
                let compiled = engine::compile(&opaque, CompileMode::SearchFew);
                return compiled.map(|_| (source, opaque)).map_err(|_| error.into());
            }
        };
        let compiled = engine::compile(&tree, CompileMode::SearchFew);
        compiled
            .map(|_| (source, tree))
            .map_err(PatternError::Engine)
    }

    /// Parses the pattern again, which succeeded before.
    pub(super) fn tree(&self) -> Node {
        syntax::parse(&self.body, self.modifiers)
            .ok()
            .or_else(|| syntax::opaque(&self.body, self.modifiers))
            .unwrap_or(Node::Empty)
    }

    /// The source for one search, which parses it at most once, and not if its tree is known.
    pub(super) fn parsed<'p>(&'p self, tree: Option<&'p Node>) -> ParsedSource<'p> {
        ParsedSource {
            source: self,
            tree: tree
                .map(Cow::Borrowed)
                .map_or_else(OnceCell::new, OnceCell::from),
        }
    }
}

/// The tree of a pattern, parsed when it is first needed.
pub(super) struct ParsedSource<'p> {
    source: &'p Source,
    tree: OnceCell<Cow<'p, Node>>,
}

impl ParsedSource<'_> {
    pub(super) fn tree(&self) -> &Node {
        self.tree.get_or_init(|| Cow::Owned(self.source.tree()))
    }
}
