//! The visitors who may read a path of a site (`pages.access`).
//!
//! The rule is chosen by the file that a request's path leads to, never by the text of the request:
//! `/office`, `/office.html` and the precompressed `/office.html.gz` have one rule, and so has each
//! spelling of a path.
//!
//! Invariant: several rules may apply to one file, as of a link into another folder, or where only
//! the letter case distinguishes two paths, which some file systems do not do. The visitor then
//! needs the permission of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;

/// The first level of the topics whose right to subscribe is the right to read a page.
const TOPICS: &str = "$pages";

/// The readers of a path, in the settings.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "ReadersValue", into = "ReadersValue")]
pub enum Readers {
    /// Every visitor.
    Everyone,
    /// Every user who is logged in.
    Login,
    /// Users and others that an access rule permits to subscribe to `$pages/PATH`.
    Rules,
    /// These users.
    Users(Vec<String>),
}

/// A malformed value of `pages.access`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write \"login\", \"rules\", \"everyone\", or a list of users")]
pub struct MalformedReaders;

#[derive(Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "write \"login\", \"rules\", \"everyone\", or a list of users"
)]
enum ReadersValue {
    Word(String),
    Users(Vec<String>),
}

impl TryFrom<ReadersValue> for Readers {
    type Error = MalformedReaders;

    fn try_from(value: ReadersValue) -> Result<Self, Self::Error> {
        match value {
            ReadersValue::Word(word) => match word.as_str() {
                "everyone" => Ok(Self::Everyone),
                "login" => Ok(Self::Login),
                "rules" => Ok(Self::Rules),
                _ => Err(MalformedReaders),
            },
            ReadersValue::Users(users) => Ok(Self::Users(users)),
        }
    }
}

impl From<Readers> for ReadersValue {
    fn from(readers: Readers) -> Self {
        match readers {
            Readers::Everyone => Self::Word("everyone".to_owned()),
            Readers::Login => Self::Word("login".to_owned()),
            Readers::Rules => Self::Word("rules".to_owned()),
            Readers::Users(users) => Self::Users(users),
        }
    }
}

/// A path of the site in the settings, for itself and for everything below it.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String", into = "String")]
pub struct SitePath(String);

/// A malformed path in `pages.access`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path of a site; write one such as \"/office\", without escapes such as %20")]
pub struct MalformedSitePath(String);

impl TryFrom<String> for SitePath {
    type Error = MalformedSitePath;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let names = text
            .strip_prefix('/')
            .map(|names| names.trim_end_matches('/'));
        let is_name = |name: &str| {
            !matches!(name, "" | "." | "..") && !name.contains(['%', '?', '#', '\\', '\0'])
        };
        match names {
            Some(names) if names.is_empty() || names.split('/').all(is_name) => Ok(Self(text)),
            _ => Err(MalformedSitePath(text)),
        }
    }
}

impl SitePath {
    /// The path as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SitePath> for String {
    fn from(path: SitePath) -> Self {
        path.0
    }
}

/// One rule that applies to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderRule {
    /// The permitted readers.
    pub readers: Readers,
    /// The topic that stands for the path in access rules and in the restrictions of tokens.
    pub topic: String,
}

/// The rules that apply to a path; a visitor needs the permission of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathAccess(Option<Arc<[ReaderRule]>>);

impl PathAccess {
    /// Whether every visitor may read the path.
    pub const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// The rules.
    pub fn rules(&self) -> &[ReaderRule] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// All rules of the settings.
#[derive(Debug)]
pub(crate) struct ReaderTable(Vec<TableRow>);

#[derive(Debug)]
struct TableRow {
    /// Without the final slash, so empty for the whole site.
    path: String,
    readers: Readers,
}

impl ReaderTable {
    pub(crate) fn new(settings: &BTreeMap<SitePath, Readers>) -> Self {
        let rows = settings.iter().map(|(path, readers)| TableRow {
            path: path.0.trim_end_matches('/').to_owned(),
            readers: readers.clone(),
        });
        Self(rows.collect())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules for a file or folder that is reached by these paths, which begin with a slash.
    pub(crate) fn of(&self, paths: &[String]) -> PathAccess {
        let mut rules: Vec<ReaderRule> = Vec::new();
        for path in paths {
            let path = path.trim_end_matches('/');
            for folds in [false, true] {
                for readers in self.closest(path, folds) {
                    let topic = format!("{TOPICS}{}", page_name(path));
                    let readers = readers.clone();
                    let rule = ReaderRule { readers, topic };
                    if rule.readers != Readers::Everyone && !rules.contains(&rule) {
                        rules.push(rule);
                    }
                }
            }
        }
        PathAccess((!rules.is_empty()).then(|| rules.into()))
    }

    /// The readers of the longest path in the table that covers `path`; with `folds`, letter case
    /// is ignored, so that there may be several of one length.
    fn closest(&self, path: &str, folds: bool) -> impl Iterator<Item = &Readers> {
        let folded = |text: &str| {
            if folds {
                text.to_lowercase()
            } else {
                text.to_owned()
            }
        };
        let path = folded(path);
        let names = names_of(&path);
        let mut covering: Vec<(usize, &Readers)> = Vec::new();
        for row in &self.0 {
            let own = folded(&row.path);
            let is_above = path
                .strip_prefix(own.as_str())
                .is_some_and(|below| below.is_empty() || below.starts_with('/'));
            if is_above || names.contains(&own.as_str()) {
                covering.push((own.len(), &row.readers));
            }
        }
        let longest = covering.iter().map(|(length, _)| *length).max();
        covering
            .into_iter()
            .filter(move |(length, _)| Some(*length) == longest)
            .map(|(_, readers)| readers)
    }
}

/// A file's path, and the shorter ones that it stands for: a precompressed file for its original,
/// and a page for the path without `.html`.
fn names_of(path: &str) -> [&str; 3] {
    let mut suffixes = Encoding::ALL.iter().map(|coding| coding.suffix());
    let original = suffixes.find_map(|suffix| path.strip_suffix(suffix));
    let original = original.unwrap_or(path);
    [
        path,
        original,
        original.strip_suffix(".html").unwrap_or(original),
    ]
}

/// The path by which pages are known: without `.html`, and a folder instead of its index.
fn page_name(path: &str) -> &str {
    let [.., name] = names_of(path);
    name.strip_suffix("/index").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, Readers)]) -> ReaderTable {
        let rows = rows.iter().map(|(path, readers)| {
            let path = SitePath::try_from((*path).to_owned()).expect("a path");
            (path, readers.clone())
        });
        ReaderTable::new(&rows.collect())
    }

    fn readers(table: &ReaderTable, path: &str) -> Vec<Readers> {
        let access = table.of(&[path.to_owned()]);
        access
            .rules()
            .iter()
            .map(|rule| rule.readers.clone())
            .collect()
    }

    fn anna() -> Readers {
        Readers::Users(vec!["anna".to_owned()])
    }

    #[test]
    fn the_longest_path_decides() {
        let table = table(&[
            ("/office/", Readers::Login),
            ("/office/pay", anna()),
            ("/office/menu.html", Readers::Everyone),
        ]);
        for (path, expected) in [
            ("/", vec![]),
            ("/index.html", vec![]),
            ("/officer.html", vec![]),
            ("/office.txt", vec![]),
            ("/office", vec![Readers::Login]),
            ("/office/", vec![Readers::Login]),
            ("/office.html", vec![Readers::Login]),
            ("/office.html.gz", vec![Readers::Login]),
            ("/office/a/b.css", vec![Readers::Login]),
            ("/office/menu.html", vec![]),
            ("/office/pay.html", vec![anna()]),
            ("/office/pay/may.pdf", vec![anna()]),
            ("/office/pay.br", vec![anna()]),
            ("/office/payment.html", vec![Readers::Login]),
        ] {
            assert_eq!(readers(&table, path), expected, "{path}");
        }
        let all = self::table(&[("/", Readers::Login)]);
        for path in ["/", "/index.html", "/a/b"] {
            assert_eq!(readers(&all, path), [Readers::Login], "{path}");
        }
    }

    #[test]
    fn another_letter_case_opens_nothing() {
        let table = table(&[("/office", anna()), ("/office/menu", Readers::Everyone)]);
        assert_eq!(readers(&table, "/OFFICE/a.html"), [anna()]);
        assert_eq!(readers(&table, "/Office.HTML"), [anna()]);
        // Another file than the menu, where letter case distinguishes files.
        assert_eq!(readers(&table, "/office/MENU"), [anna()]);
        assert_eq!(readers(&table, "/office/menu"), []);
    }

    #[test]
    fn a_topic_stands_for_the_page_and_not_for_its_file() {
        let table = table(&[("/", Readers::Rules)]);
        for (path, topic) in [
            ("/index.html", "$pages"),
            ("/", "$pages"),
            ("/a/index.html", "$pages/a"),
            ("/a/b.html", "$pages/a/b"),
            ("/a/b.css", "$pages/a/b.css"),
            ("/a/b.css.gz", "$pages/a/b.css"),
        ] {
            let access = table.of(&[path.to_owned()]);
            let topics: Vec<_> = access.rules().iter().map(|rule| &rule.topic).collect();
            assert_eq!(topics, [topic], "{path}");
        }
    }

    #[test]
    fn each_way_to_a_file_needs_the_permission() {
        let table = table(&[("/office", anna()), ("/staff", Readers::Login)]);
        let paths = ["/staff/link.html".to_owned(), "/office/pay.html".to_owned()];
        let access = table.of(&paths);
        assert_eq!(access.rules().len(), 2);
    }

    #[test]
    fn settings_are_checked() {
        for path in [
            "", "office", "//office", "/a//b", "/a/../b", "/a%20b", "/a?b",
        ] {
            assert!(SitePath::try_from(path.to_owned()).is_err(), "{path}");
        }
        for (text, expected) in [
            ("\"login\"", Some(Readers::Login)),
            ("\"rules\"", Some(Readers::Rules)),
            ("\"everyone\"", Some(Readers::Everyone)),
            ("[\"anna\"]", Some(anna())),
            ("\"anna\"", None),
            ("1", None),
        ] {
            let read: Result<Readers, _> = serde_json::from_str(text);
            match (read, expected) {
                (Ok(read), expected) => assert_eq!(Some(read), expected, "{text}"),
                (Err(error), None) => assert!(error.to_string().contains("a list of users")),
                (Err(error), Some(_)) => panic!("{text}: {error}"),
            }
        }
    }
}
