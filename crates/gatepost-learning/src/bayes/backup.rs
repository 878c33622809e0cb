//! The text format of `sa-learn --backup` and `--restore`.
//!
//! Lines of words: `v 3 db_version` first, the totals as `v N num_spam` and `v N num_nonspam`,
//! then a line per token (`t SPAM HAM TIME HEX`) and per learned message (`s CLASS ID`).

use std::io::{BufRead, Write};

use super::classifier::{Bayes, now_seconds};
use super::combine::{TokenCounts, Totals};
use super::message_key::MessageKey;
use super::record::{Class, ExpiryRecord, LearnedRecord, LessonPosition};
use super::store::TokenStoreError;
use super::table::{TokenEntry, TokenTable};
use super::token::Token;

/// The longest line; no message id is that long.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The reason why a backup could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BayesBackupError {
    /// Reading or writing the file failed.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The learned data cannot be read or stored.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    /// The file is not a backup of a supported version.
    #[error("the first line must be `v 3 db_version` (or version 2)")]
    Version,
    /// A line is malformed.
    #[error("line {line}: {reason}")]
    Line {
        /// The line number, from 1.
        line: u64,
        /// A description of the error.
        reason: &'static str,
    },
    /// The number of learned messages is missing.
    #[error("the lines `v N num_spam` and `v N num_nonspam` are missing")]
    Totals,
}

/// Counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Messages learned.
    pub totals: Totals,
    /// Tokens.
    pub tokens: u64,
    /// Message ids, by which learned messages are recognised.
    pub messages: u64,
    /// Lines that were skipped because they carry no information (tokens without counts).
    pub passed_over: u64,
}

/// One line of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BackupLine {
    Spam(u32),
    Ham(u32),
    Token(TokenEntry),
    Learned(Class, Vec<u8>),
    Nothing,
}

impl Bayes {
    /// Writes everything that was learned; returns the position in the lessons of a cluster that
    /// it has.
    pub fn export(&self, out: &mut impl Write) -> Result<Option<LessonPosition>, BayesBackupError> {
        let mut learner = self.learner();
        self.keep_locked(&mut learner)?;
        self.settle()?;
        let totals = self.totals();
        writeln!(out, "v\t3\tdb_version # this must be the first line!!!")?;
        writeln!(out, "v\t{}\tnum_spam", totals.spam)?;
        writeln!(out, "v\t{}\tnum_nonspam", totals.ham)?;
        for entry in self.table().entries() {
            let TokenCounts { spam, ham } = entry.counts;
            writeln!(out, "t\t{spam}\t{ham}\t{}\t{}", entry.time, entry.token)?;
        }
        let mut written = Ok(());
        self.store.load(&mut |record| {
            if let LearnedRecord::Learned { class, id, .. } = record
                && written.is_ok()
            {
                written = write_learned(out, class, &id);
            }
        })?;
        written?;
        Ok(learner.position)
    }

    /// Replaces all learned data by a backup. If the backup contains an error, nothing changes.
    pub fn import(&self, backup: impl BufRead) -> Result<ImportSummary, BayesBackupError> {
        self.import_at(backup, None)
    }

    /// Replaces all learned data by a backup that has the lessons of a cluster up to a position.
    pub fn import_at(
        &self,
        backup: impl BufRead,
        position: Option<LessonPosition>,
    ) -> Result<ImportSummary, BayesBackupError> {
        let now = now_seconds();
        let content = BackupContent::read(backup, now)?;
        let mut learner = self.learner();
        let mut table = TokenTable::with_room_for(content.tokens.len());
        for entry in &content.tokens {
            if table.is_full() {
                table = table.rebuilt(table.len() * 2);
            }
            table.set(*entry, true);
        }
        learner.seen.clear();
        learner.waiting = vec![LearnedRecord::Cleared];
        learner.expiry = ExpiryRecord::default();
        learner.position = None;
        if let Some(position) = position {
            learner.pass_to(position);
        }
        for (class, id) in &content.learned {
            let key = MessageKey::of(id);
            let dropped = learner.seen.insert(key, *class, now);
            learner.waiting.push(LearnedRecord::Learned {
                key,
                class: *class,
                time: now,
                id: id.clone(),
            });
            let dropped = dropped.into_iter().map(LearnedRecord::Unlearned);
            learner.waiting.extend(dropped);
        }
        let summary = ImportSummary {
            totals: content.totals,
            tokens: table.len() as u64,
            messages: learner.seen.len() as u64,
            passed_over: content.passed_over,
        };
        self.set_totals(content.totals);
        self.replace_table(table);
        self.keep_locked(&mut learner)?;
        self.settle()?;
        Ok(summary)
    }
}

fn write_learned(out: &mut impl Write, class: Class, id: &[u8]) -> std::io::Result<()> {
    let flag = match class {
        Class::Spam => b"s\ts\t",
        Class::Ham => b"s\th\t",
    };
    out.write_all(flag)?;
    out.write_all(id)?;
    out.write_all(b"\n")
}

/// A backup in memory.
#[derive(Debug, Default)]
struct BackupContent {
    totals: Totals,
    tokens: Vec<TokenEntry>,
    learned: Vec<(Class, Vec<u8>)>,
    passed_over: u64,
}

impl BackupContent {
    fn read(mut backup: impl BufRead, now: u32) -> Result<Self, BayesBackupError> {
        let mut text = Vec::new();
        read_line(&mut backup, &mut text, 1)?;
        let is_encoded = match version(&text) {
            Some(2) => false,
            Some(3) => true,
            _ => return Err(BayesBackupError::Version),
        };
        let mut content = Self::default();
        let (mut spam, mut ham) = (None, None);
        let mut number = 1;
        loop {
            number += 1;
            if !read_line(&mut backup, &mut text, number)? {
                break;
            }
            let line =
                parse_line(&text, is_encoded, now).map_err(|reason| BayesBackupError::Line {
                    line: number,
                    reason,
                })?;
            match line {
                BackupLine::Spam(count) => spam = Some(count),
                BackupLine::Ham(count) => ham = Some(count),
                BackupLine::Token(entry) => content.tokens.push(entry),
                BackupLine::Learned(class, id) => content.learned.push((class, id)),
                BackupLine::Nothing => content.passed_over += 1,
            }
        }
        content.totals = match (spam, ham) {
            (Some(spam), Some(ham)) => Totals { spam, ham },
            _ => return Err(BayesBackupError::Totals),
        };
        Ok(content)
    }
}

/// Reads a line without its line end; false at the end of the input.
fn read_line(
    backup: &mut impl BufRead,
    text: &mut Vec<u8>,
    line: u64,
) -> Result<bool, BayesBackupError> {
    use std::io::Read;
    text.clear();
    let read = backup
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', text)?;
    if read as u64 == LINE_BYTES_MAX && text.last() != Some(&b'\n') {
        let reason = "the line is too long";
        return Err(BayesBackupError::Line { line, reason });
    }
    while matches!(text.last(), Some(b'\n' | b'\r')) {
        text.pop();
    }
    Ok(read > 0)
}

fn version(line: &[u8]) -> Option<u32> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (kind, number, name) = (words.next()?, words.next()?, words.next()?);
    (kind == "v" && name.starts_with("db_version"))
        .then(|| number.parse().ok())
        .flatten()
}

fn parse_line(line: &[u8], is_encoded: bool, now: u32) -> Result<BackupLine, &'static str> {
    let mut words = Words(line);
    match words.next_word() {
        b"v" => {
            let count = words.number()?;
            Ok(match words.rest() {
                b"num_spam" => BackupLine::Spam(clamp(count)),
                b"num_nonspam" => BackupLine::Ham(clamp(count)),
                _ => BackupLine::Nothing,
            })
        }
        b"t" => {
            let counts = TokenCounts {
                spam: clamp(words.number()?),
                ham: clamp(words.number()?),
            };
            let time = clamp(words.number()?).min(now);
            let token = if is_encoded {
                hexadecimal_token(words.rest()).ok_or("a token must be ten hexadecimal digits")?
            } else {
                Token::of(&[words.rest()])
            };
            Ok(if counts.is_zero() {
                BackupLine::Nothing
            } else {
                BackupLine::Token(TokenEntry {
                    token,
                    counts,
                    time,
                })
            })
        }
        b"s" => {
            let class = match words.next_word() {
                b"s" => Class::Spam,
                b"h" => Class::Ham,
                _ => return Ok(BackupLine::Nothing),
            };
            let id = words.rest();
            Ok(if id.is_empty() {
                BackupLine::Nothing
            } else {
                BackupLine::Learned(class, id.to_vec())
            })
        }
        _ => Ok(BackupLine::Nothing),
    }
}

/// A count. Older programs wrote negative ones, which stand for zero.
fn clamp(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// The words of a line, from left to right.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next_word(&mut self) -> &'a [u8] {
        let end = self
            .0
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.trim_ascii_start();
        word
    }

    fn number(&mut self) -> Result<i64, &'static str> {
        std::str::from_utf8(self.next_word())
            .ok()
            .and_then(|word| word.parse().ok())
            .ok_or("a number is missing")
    }

    fn rest(&self) -> &'a [u8] {
        self.0
    }
}

fn hexadecimal_token(text: &[u8]) -> Option<Token> {
    let text = std::str::from_utf8(text).ok()?;
    if text.len() != 10 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bits = u64::from_str_radix(text, 16).ok()?;
    Some(Token::from_u64(bits))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::classifier::BayesLimits;
    use super::super::store::MemoryStore;
    use super::*;
    use proptest::prelude::*;

    const BACKUP: &str = "v\t3\tdb_version # this must be the first line!!!\n\
        v\t2\tnum_spam\n\
        v\t1\tnum_nonspam\n\
        t\t2\t0\t996978185\t03541effbc\n\
        t\t1\t1\t994417804\t04455beace\n\
        s\th\t0123@sa_generated\n\
        s\ts\ta b@example.org\n";

    fn sorted(text: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(text);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn stored() -> Bayes {
        let store = Arc::new(MemoryStore::default());
        Bayes::open(store, BayesLimits::default()).expect("memory does not fail")
    }

    #[test]
    fn a_backup_comes_back_whole() {
        let bayes = stored();
        let summary = bayes.import(BACKUP.as_bytes()).expect("imports");
        assert_eq!(summary.totals, Totals { spam: 2, ham: 1 });
        assert_eq!((summary.tokens, summary.messages), (2, 2));
        let mut text = Vec::new();
        bayes.export(&mut text).expect("exports");
        assert_eq!(sorted(&text), sorted(BACKUP.as_bytes()));
    }

    #[test]
    fn a_broken_backup_changes_nothing() {
        let bayes = stored();
        bayes.import(BACKUP.as_bytes()).expect("imports");
        for (text, message) in [
            ("t 1 2 3 0123456789", "the first line must be"),
            (
                "v 3 db_version\nv x num_spam",
                "line 2: a number is missing",
            ),
            ("v 3 db_version\nt 1 1 1 xyz", "line 2: a token must be"),
            ("v 3 db_version\n", "num_nonspam"),
        ] {
            let error = bayes.import(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(bayes.statistics().tokens, 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text: Vec<u8>) {
            let text = [b"v 3 db_version\n".as_slice(), &text].concat();
            let _ = BackupContent::read(text.as_slice(), 0);
        }
    }
}
