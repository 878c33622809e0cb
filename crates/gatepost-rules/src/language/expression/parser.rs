//! Parses an expression: recursive descent over Perl's operators, directly to postfix.

use smallvec::SmallVec;

use super::{BinaryOperator, Operation};

/// The deepest nesting of parentheses; the parser is recursive.
const NESTING_MAX: u32 = 100;
/// The binary operators with their precedence; longer ones before their prefixes.
const OPERATORS: &[(&str, BinaryOperator, u8)] = &[
    ("||", BinaryOperator::Or, 1),
    ("&&", BinaryOperator::And, 2),
    ("^", BinaryOperator::ExclusiveOr, 3),
    ("==", BinaryOperator::Equal, 4),
    ("!=", BinaryOperator::Unequal, 4),
    ("<=", BinaryOperator::LessOrEqual, 5),
    (">=", BinaryOperator::GreaterOrEqual, 5),
    ("<", BinaryOperator::Less, 5),
    (">", BinaryOperator::Greater, 5),
    ("+", BinaryOperator::Add, 6),
    ("-", BinaryOperator::Subtract, 6),
    ("*", BinaryOperator::Multiply, 7),
    ("/", BinaryOperator::Divide, 7),
];

/// A term in an expression: a name, perhaps with an argument in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term<'t> {
    pub(crate) name: &'t str,
    pub(crate) argument: Option<&'t str>,
}

/// Parses an expression to postfix; `name` returns the meaning of a term.
pub(super) fn parse<N>(
    text: &str,
    name: impl FnMut(Term<'_>) -> Result<Vec<Operation<N>>, String>,
) -> Result<Vec<Operation<N>>, String> {
    let mut parser = ExpressionParser {
        text,
        position: 0,
        depth: 0,
        operations: Vec::new(),
        name,
    };
    parser.choice()?;
    parser.skip_blanks();
    let rest = parser.rest();
    if rest.is_empty() {
        Ok(parser.operations)
    } else {
        Err(format!("cannot read {rest:?}"))
    }
}

struct ExpressionParser<'t, N, F> {
    text: &'t str,
    position: usize,
    depth: u32,
    operations: Vec<Operation<N>>,
    name: F,
}

impl<'t, N, F> ExpressionParser<'t, N, F>
where
    F: FnMut(Term<'_>) -> Result<Vec<Operation<N>>, String>,
{
    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    /// Consumes the longest run of bytes that satisfy `member`.
    fn take_while(&mut self, member: impl Fn(u8) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|&byte| member(byte)).count();
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    fn choice(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err("parentheses are nested too deeply".to_owned());
        }
        self.binary(1)?;
        if self.take("?") {
            self.choice()?;
            if !self.take(":") {
                return Err("? without :".to_owned());
            }
            self.choice()?;
            self.operations.push(Operation::Choose);
        }
        self.depth -= 1;
        Ok(())
    }

    fn binary(&mut self, least_strength: u8) -> Result<(), String> {
        self.unary()?;
        'operators: loop {
            self.skip_blanks();
            for &(sign, operator, strength) in OPERATORS {
                if strength >= least_strength && self.take(sign) {
                    self.binary(strength + 1)?;
                    self.operations.push(Operation::Binary(operator));
                    continue 'operators;
                }
            }
            return Ok(());
        }
    }

    fn unary(&mut self) -> Result<(), String> {
        let mut signs: SmallVec<[Operation<N>; 4]> = SmallVec::new();
        loop {
            if self.take("!") {
                signs.push(Operation::Not);
            } else if self.take("-") {
                signs.push(Operation::Negate);
            } else if !self.take("+") {
                break;
            }
        }
        self.primary()?;
        self.operations.extend(signs.into_iter().rev());
        Ok(())
    }

    fn primary(&mut self) -> Result<(), String> {
        if self.take("(") {
            if self.take(")") {
                self.operations.push(Operation::Number(0.0));
                return Ok(());
            }
            self.choice()?;
            return if self.take(")") {
                Ok(())
            } else {
                Err("a closing parenthesis is missing".to_owned())
            };
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        if self.rest().bytes().next().is_some_and(is_digit) {
            let number = self.take_while(is_digit);
            let number = number.parse().map_err(|_| format!("bad number {number}"))?;
            self.operations.push(Operation::Number(number));
            return Ok(());
        }
        let bare = self.path();
        if bare.is_empty() {
            let rest = self.rest();
            return Err(if rest.is_empty() {
                "an operand is missing at the end".to_owned()
            } else {
                format!("an operand is missing before {rest:?}")
            });
        }
        let argument = self.argument()?;
        let operations = (self.name)(Term {
            name: bare,
            argument,
        })?;
        self.operations.extend(operations);
        Ok(())
    }

    /// A name, or names joined by `::`.
    fn path(&mut self) -> &'t str {
        let start = self.position;
        loop {
            self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !self.rest().starts_with("::") {
                return self.text.get(start..self.position).unwrap_or_default();
            }
            self.position += 2;
        }
    }

    /// `(…)` directly after a name.
    fn argument(&mut self) -> Result<Option<&'t str>, String> {
        let before = self.position;
        if !self.take("(") {
            self.position = before;
            return Ok(None);
        }
        let rest = self.rest();
        let end = rest.find(')').ok_or("a closing parenthesis is missing")?;
        self.position += end + 1;
        Ok(Some(rest.get(..end).unwrap_or_default().trim()))
    }
}
