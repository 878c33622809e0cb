//! Arguments of a procedure besides the message: `-user anna` on the command line of
//! the thin client, `arg-user: anna` in the call protocol, `?user=anna` over HTTP,
//! `call("/greeting", user="anna")` in a page.

/// A member of a scope: the path of a procedure, and arguments for it.
///
/// `/mail/large -max 1MB -note "two words"`: a value with spaces is in double quotes, in which
/// `\"` and `\\` are the characters themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeMember {
    /// The path.
    pub path: String,
    /// The text that follows it.
    pub arguments: ProcedureArguments,
}

/// The reason why a text is not a member of a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedMember {
    /// The text is empty.
    #[error("it is empty; name a procedure, as in \"/sizecheck -max 1MB\"")]
    Empty,
    /// A value in place of an argument's name.
    #[error("'{0}' is not an argument; write -name value")]
    NoArgument(String),
    /// The last argument has no value.
    #[error("-{0} has no value")]
    NoValue(String),
    /// A quote is not closed.
    #[error("a double quote is not closed")]
    OpenQuote,
}

impl std::str::FromStr for ScopeMember {
    type Err = MalformedMember;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = words(text)?.into_iter();
        let path = words.next().ok_or(MalformedMember::Empty)?;
        let mut arguments = ProcedureArguments::none();
        while let Some(word) = words.next() {
            let name = word.strip_prefix('-').filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| MalformedMember::NoArgument(word.clone()))?;
            let value = words.next();
            let value = value.ok_or_else(|| MalformedMember::NoValue(name.to_owned()))?;
            arguments.push(name, value);
        }
        Ok(Self { path, arguments })
    }
}

fn words(text: &str) -> Result<Vec<String>, MalformedMember> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => {
                let escaped = characters.next().ok_or(MalformedMember::OpenQuote)?;
                word.get_or_insert_default().push(escaped);
            }
            space if space.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted {
        return Err(MalformedMember::OpenQuote);
    }
    words.extend(word);
    Ok(words)
}

/// Names and values, in the order given. Where a name repeats, the last value holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcedureArguments(Vec<(String, String)>);

impl ProcedureArguments {
    /// No arguments.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds one.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut latest_first = self.0.iter().rev();
        latest_first
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }

    /// All of them, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These arguments, overridden by `others`.
    pub(crate) fn overridden_by(&self, others: &Self) -> Self {
        Self([self.0.as_slice(), others.0.as_slice()].concat())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for ProcedureArguments {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let owned = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(owned.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(text: &str) -> Result<(String, Vec<(String, String)>), MalformedMember> {
        let member: ScopeMember = text.parse()?;
        let pairs = member.arguments.iter();
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok((member.path.clone(), pairs.collect()))
    }

    #[test]
    fn members_have_a_path_and_arguments() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(member("/a"), Ok(("/a".to_owned(), vec![])));
        assert_eq!(
            member(r#" /a  -max 1MB -note "two \"words\"" -empty "" -n -1 "#),
            Ok((
                "/a".to_owned(),
                vec![
                    pair("max", "1MB"),
                    pair("note", "two \"words\""),
                    pair("empty", ""),
                    pair("n", "-1")
                ]
            ))
        );
        for (text, error) in [
            (" ", MalformedMember::Empty),
            ("/a max 1", MalformedMember::NoArgument("max".to_owned())),
            ("/a -max", MalformedMember::NoValue("max".to_owned())),
            ("/a -max \"1", MalformedMember::OpenQuote),
        ] {
            assert_eq!(member(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_value_in_quotes_comes_back(value in any::<String>()) {
            let quoted = value.replace('\\', r"\\").replace('"', r#"\""#);
            let text = format!("/a -key \"{quoted}\"");
            let member: ScopeMember = text.parse().expect("a member");
            prop_assert_eq!(member.arguments.get("key"), Some(value.as_str()));
        }
    }

    #[test]
    fn the_last_value_of_a_name_holds() {
        let arguments =
            ProcedureArguments::from_iter([("user", "anna"), ("list", "a"), ("user", "bert")]);
        assert_eq!(arguments.get("user"), Some("bert"));
        assert_eq!(arguments.get("other"), None);
    }
}
