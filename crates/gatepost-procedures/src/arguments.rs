//! What a caller hands to a procedure beside the message: `-user anna` on the command line of
//! the thin client, `arg-user: anna` in the call protocol, `?user=anna` over HTTP,
//! `call("/greeting", user="anna")` in a page.

/// Names and values, in the order given. Where a name repeats, the last value holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments(Vec<(String, String)>);

impl Arguments {
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Arguments {
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

    #[test]
    fn the_last_value_of_a_name_holds() {
        let arguments = Arguments::from_iter([("user", "anna"), ("list", "a"), ("user", "bert")]);
        assert_eq!(arguments.get("user"), Some("bert"));
        assert_eq!(arguments.get("other"), None);
    }
}
