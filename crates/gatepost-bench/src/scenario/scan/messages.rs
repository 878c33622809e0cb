//! The messages: the user's own, real mails of the public corpus, or generated mails.
//!
//! Generated mails are cheaper to scan than real mail of the same size: their few words lead a rule
//! engine to the same places again and again. So they are used only on request or if there are no
//! other messages, and results name the sample.

use std::fs;
use std::path::{Path, PathBuf};

use super::ScanArguments;
use crate::error::BenchError;
use crate::scenario::mail;
use crate::sweep::SweepValues;

/// The folder into which `tests/fetch-corpus` puts the public corpus, below the current one.
const CORPUS: &str = ".corpora/spamassassin";
/// Mails of it that are taken, evenly over all of its folders: as many as the original had.
const CORPUS_MAILS: usize = 178;

/// The source of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// The files that the user named.
    Named,
    /// Mails of the public corpus.
    Corpus,
    /// Generated.
    Composed,
}

impl Sample {
    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Corpus => "corpus",
            Self::Composed => "composed",
        }
    }
}

/// Messages as files and in memory.
pub(super) struct ScanCorpus {
    pub(super) sample: Sample,
    pub(super) files: Vec<PathBuf>,
    pub(super) contents: Vec<Vec<u8>>,
    /// Removes generated messages.
    _folder: Option<mail::MessageFolder>,
}

impl ScanCorpus {
    /// Reads or generates the messages.
    pub(super) fn load(arguments: &ScanArguments) -> Result<Self, BenchError> {
        let mut files = Vec::new();
        for path in &arguments.messages {
            collect(path, &mut files)?;
        }
        let mut sample = Sample::Named;
        let mut folder = None;
        if arguments.messages.is_empty() {
            let corpus = Path::new(CORPUS);
            if arguments.composed || !corpus.is_dir() {
                let made = mail::MessageFolder::with_sizes(&mail::original_sizes())?;
                files = made.files().to_vec();
                (sample, folder) = (Sample::Composed, Some(made));
            } else {
                collect(corpus, &mut files)?;
                (sample, files) = (Sample::Corpus, spread(files, CORPUS_MAILS));
            }
        }
        files.truncate(
            arguments
                .limit
                .as_ref()
                .map_or(usize::MAX, SweepValues::get),
        );
        if files.is_empty() {
            let path = arguments.messages.first().cloned().unwrap_or_default();
            return Err(BenchError::Data {
                path,
                reason: "no messages are there".into(),
            });
        }
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })
        };
        Ok(Self {
            sample,
            contents: files.iter().map(read).collect::<Result<_, _>>()?,
            files,
            _folder: folder,
        })
    }
}

/// This many of the files at even distances, or all of them if there are fewer.
fn spread(files: Vec<PathBuf>, count: usize) -> Vec<PathBuf> {
    let all = files.len();
    if all <= count {
        return files;
    }
    (0..count)
        .filter_map(|number| files.get(number * all / count).cloned())
        .collect()
}

/// All files below a path, in the order of their names; none whose name begins with a dot, as the
/// marks of programs in a Maildir do.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), BenchError> {
    let failed = |error| BenchError::File {
        path: path.to_owned(),
        error,
    };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed)?
        .flatten()
        .filter(|entry| !is_mark(&entry.file_name().to_string_lossy(), &entry.path()))
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().try_for_each(|entry| collect(entry, files))
}

/// Folders of a Maildir may begin with a dot; files that do are not messages.
fn is_mark(name: &str, path: &Path) -> bool {
    name.starts_with('.') && !path.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_are_taken_at_even_distances() {
        let files: Vec<PathBuf> = (0..10)
            .map(|number| PathBuf::from(number.to_string()))
            .collect();
        let names = |count| -> Vec<String> {
            let taken = spread(files.clone(), count);
            taken
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(names(3), ["0", "3", "6"]);
        assert_eq!(names(20).len(), 10);
    }

    #[test]
    fn a_maildir_is_read_without_the_marks_of_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["cur/1:2,S", "new/2", ".Sent/cur/3:2,S", "cur/.lock"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "Subject: x\n\nx\n").expect("written");
        }
        let mut files = Vec::new();
        collect(folder.path(), &mut files).expect("read");
        let names: Vec<String> = files
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(names, ["3:2,S", "1:2,S", "2"]);
    }
}
