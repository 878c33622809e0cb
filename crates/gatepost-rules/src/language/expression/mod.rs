//! The arithmetic of `meta` rules and `if` lines, compiled to postfix.
//!
//! Operators and their precedence are Perl's: `!`, `* /`, `+ -`, comparison, equality, `^`, `&&`,
//! `||`, `?:`. Everything is a number; true is not zero. `&&` and `||` yield the operand that
//! decided, as in Perl, so that `A || B` can be more than 1.

mod parser;

use smallvec::SmallVec;

pub(crate) use parser::Term;

/// The number of values on the stack that need no allocation.
const STACK_USUAL: usize = 16;

/// An expression in postfix form over names of type `N`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression<N> {
    pub(crate) operations: Vec<Operation<N>>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operation<N> {
    /// Pushes a number.
    Number(f64),
    /// Pushes the value of a name.
    Name(N),
    /// Replaces the top by its negation: 1 or 0.
    Not,
    /// Changes the sign of the top.
    Negate,
    /// Replaces the top two values by one.
    Binary(BinaryOperator),
    /// Replaces a condition and two values by one of the values.
    Choose,
    /// Skips operations if the top value decides the result of `&&` (false) or `
    /// ` (true); see [`Expression::with_shortcuts`].
    Skip { on: bool, operations: usize },
}

/// An operator of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Or,
    And,
    ExclusiveOr,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl BinaryOperator {
    fn apply(self, left: f64, right: f64) -> f64 {
        let truth = |value: bool| f64::from(u8::from(value));
        match self {
            Self::Or if left != 0.0 => left,
            Self::And if left == 0.0 => left,
            Self::Or | Self::And => right,
            Self::ExclusiveOr => ((left as u64) ^ (right as u64)) as f64,
            // Perl compares numbers exactly, so metas that count see exact counts.
            #[allow(clippy::float_cmp)]
            Self::Equal => truth(left == right),
            #[allow(clippy::float_cmp)]
            Self::Unequal => truth(left != right),
            Self::Less => truth(left < right),
            Self::LessOrEqual => truth(left <= right),
            Self::Greater => truth(left > right),
            Self::GreaterOrEqual => truth(left >= right),
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            // Perl fails on a division by zero; a rule that does so does not hit.
            Self::Divide if right == 0.0 => 0.0,
            Self::Divide => left / right,
        }
    }
}

impl<N> Expression<N> {
    /// No operation: 0.
    pub(crate) const EMPTY: Self = Self {
        operations: Vec::new(),
    };

    /// Parses an expression; `name` returns the meaning of a term.
    pub(crate) fn parse(
        text: &str,
        name: impl FnMut(Term<'_>) -> Result<Vec<Operation<N>>, String>,
    ) -> Result<Self, String> {
        let operations = parser::parse(text, name)?;
        Ok(Self { operations })
    }

    /// Evaluates the expression; `value` returns the value of a name.
    pub(crate) fn evaluate(&self, mut value: impl FnMut(&N) -> f64) -> f64 {
        let mut stack: SmallVec<[f64; STACK_USUAL]> = SmallVec::new();
        let mut operations = self.operations.as_slice();
        while let Some((operation, rest)) = operations.split_first() {
            operations = rest;
            // The parser only builds expressions whose operands exist.
            let mut pop = || stack.pop().unwrap_or(0.0);
            let result = match operation {
                Operation::Skip {
                    on,
                    operations: passed,
                } => {
                    if stack.last().is_some_and(|&top| (top != 0.0) == *on) {
                        operations = rest.get(*passed..).unwrap_or_default();
                    }
                    continue;
                }
                Operation::Number(number) => *number,
                Operation::Name(name) => value(name),
                Operation::Not => f64::from(u8::from(pop() == 0.0)),
                Operation::Negate => -pop(),
                Operation::Binary(operator) => {
                    let right = pop();
                    operator.apply(pop(), right)
                }
                Operation::Choose => {
                    let (no, yes) = (pop(), pop());
                    if pop() == 0.0 { no } else { yes }
                }
            };
            stack.push(result);
        }
        stack.pop().unwrap_or(0.0)
    }

    /// The expression with other names.
    pub(crate) fn map<M>(&self, other: impl Fn(&N) -> M) -> Expression<M> {
        let operations = self.operations.iter().map(|operation| match operation {
            Operation::Number(number) => Operation::Number(*number),
            Operation::Name(name) => Operation::Name(other(name)),
            Operation::Not => Operation::Not,
            Operation::Negate => Operation::Negate,
            Operation::Binary(operator) => Operation::Binary(*operator),
            Operation::Choose => Operation::Choose,
            Operation::Skip { on, operations } => Operation::Skip {
                on: *on,
                operations: *operations,
            },
        });
        Expression {
            operations: operations.collect(),
        }
    }

    /// The same expression, in which the right side of `&&` and `
    /// ` is skipped where the left side decides: the values of its names are not computed.
    pub(crate) fn with_shortcuts(self) -> Self {
        let mut operations: Vec<Operation<N>> = Vec::with_capacity(self.operations.len());
        // The first operation of each value on the stack.
        let mut values: Vec<usize> = Vec::new();
        for operation in self.operations {
            let operands = match &operation {
                Operation::Number(_) | Operation::Name(_) => 0,
                Operation::Not | Operation::Negate => 1,
                Operation::Binary(_) => 2,
                Operation::Choose => 3,
                // Already skipped.
                Operation::Skip { .. } => {
                    operations.push(operation);
                    continue;
                }
            };
            let on = match &operation {
                Operation::Binary(BinaryOperator::And) => Some(false),
                Operation::Binary(BinaryOperator::Or) => Some(true),
                _ => None,
            };
            if let (Some(on), Some(&right)) = (on, values.last()) {
                let passed = operations.len() - right + 1;
                operations.insert(
                    right,
                    Operation::Skip {
                        on,
                        operations: passed,
                    },
                );
            }
            operations.push(operation);
            let begins = match values.len().checked_sub(operands) {
                Some(first) if operands > 0 => values.drain(first..).next(),
                _ => None,
            };
            values.push(begins.unwrap_or(operations.len() - 1));
        }
        Self { operations }
    }

    /// The names in the expression.
    pub(crate) fn names(&self) -> impl Iterator<Item = &N> {
        self.operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Name(name) => Some(name),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(text: &str) -> Result<f64, String> {
        let expression = Expression::parse(text, |term| match term.name {
            "YES" => Ok(vec![Operation::Name(1.0)]),
            "NO" => Ok(vec![Operation::Name(0.0)]),
            "FIVE" => Ok(vec![Operation::Name(5.0)]),
            other => Err(format!("no {other}")),
        })?;
        let value = expression.evaluate(|value: &f64| *value);
        let short = expression.with_shortcuts();
        let by_shortcuts = short.evaluate(|value: &f64| *value);
        assert_eq!(by_shortcuts.to_bits(), value.to_bits(), "{text}");
        Ok(value)
    }

    #[test]
    fn decided_operands_evaluate_no_more_names() {
        for (text, expected) in [
            ("A && B", "A"),
            ("!A && B", "AB"),
            ("A && (B || C) && D", "A"),
            ("A || !B || C", "AB"),
            ("(A && B || C) + D > 0 && E", "ACD"),
            ("A && B ? C : D", "ACD"),
            ("!A && (B && C || !D) && E", "ABDE"),
        ] {
            let parsed =
                Expression::parse(text, |term| Ok(vec![Operation::Name(term.name.to_owned())]));
            let mut names = String::new();
            parsed.unwrap().with_shortcuts().evaluate(|name| {
                names.push_str(name);
                0.0
            });
            assert_eq!(names, expected, "{text}");
        }
    }

    #[test]
    fn values_are_perls() {
        for (text, value) in [
            ("YES + FIVE * 2 > 10", 1.0),
            ("(YES + YES + NO) >= 2", 1.0),
            ("NO || FIVE", 5.0),
            ("FIVE && YES", 1.0),
            ("!YES && FIVE", 0.0),
            ("!(NO||NO)", 1.0),
            ("!!FIVE", 1.0),
            ("FIVE -1", 4.0),
            ("FIVE-1-1", 3.0),
            ("YES?FIVE:NO", 5.0),
            ("NO ? FIVE : 2", 2.0),
            ("FIVE / NO", 0.0),
            ("FIVE == 5", 1.0),
            ("FIVE != 5 || 0.5", 0.5),
            ("YES ^ YES", 0.0),
            ("()", 0.0),
            ("-FIVE + 6", 1.0),
            ("12 / FIVE", 2.4),
            ("NO && FIVE || YES && FIVE", 5.0),
            ("(YES || NO) && (NO || FIVE) && !NO", 1.0),
            ("NO && YES ? 1 : FIVE || YES", 5.0),
            ("(NO && YES) + (YES || NO) + FIVE", 6.0),
        ] {
            assert_eq!(compute(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn broken_expressions_are_reported() {
        for text in [
            "", "YES &&", "(YES", "YES)", "YES YES", "&& YES", "1.2.3", "A", "YES ? 1",
        ] {
            assert!(compute(text).is_err(), "{text}");
        }
        assert!(compute(&"(".repeat(100_000)).is_err());
        assert!(compute(&"!".repeat(100_000)).is_err());
    }
}
