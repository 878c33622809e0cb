//! The rule file of the data folder with the scores that administrators set.
//!
//! It has one `score` line for each rule, and is read after all other rule files. The file before
//! the last change is kept beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

/// The name of the file in the data folder.
pub const SCORES_FILE: &str = "scores.cf";
/// Scores are between this and its negative.
pub const SCORE_MAX: f64 = 1_000.0;

const HEAD: &str =
    "# Scores that administrators have set (dashboard, /admin/scores). Written by the server.\n";

/// The file with the scores. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RuleScores {
    pub(crate) file: PathBuf,
    /// Held during a change.
    pub(crate) changing: Arc<Mutex<()>>,
}

impl RuleScores {
    /// The file of this data folder.
    pub fn of(data: &Path) -> Self {
        Self {
            file: data.join(SCORES_FILE),
            changing: Arc::default(),
        }
    }

    pub(crate) fn previous(&self) -> PathBuf {
        self.file.with_extension("cf.previous")
    }

    /// The content; empty if there is no file.
    pub(crate) fn text(file: &Path) -> io::Result<String> {
        match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read,
        }
    }

    /// Replaces a file in one step, so that a crash leaves the old or the new one.
    pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
        let new = file.with_extension("cf.new");
        let mut opened = fs::File::create(&new)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(new, file)?;
        // The new name is on disk only with its folder.
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// The rules of a `score` file with their scores.
pub(crate) fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let ("score", name, score) = (words.next()?, words.next()?, words.next()?) else {
            return None;
        };
        Some((name.to_owned(), score.parse().ok()?))
    });
    lines.collect()
}

pub(crate) fn print(scores: &BTreeMap<String, f64>) -> String {
    let mut text = HEAD.to_owned();
    for (name, score) in scores {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "score {name} {score}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_they_were_written() {
        let scores = BTreeMap::from([("A".to_owned(), 1.5), ("B".to_owned(), -0.001)]);
        assert_eq!(parse(&print(&scores)), scores);
        assert_eq!(parse("score A\nbody A /x/\nscore B x\n"), BTreeMap::new());
    }
}
