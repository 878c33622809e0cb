//! The fenced code blocks of the documentation.

use std::path::Path;

use crate::support::root;

/// A code block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The page, relative to the repository.
    pub page: String,
    /// The line of its first fence.
    pub line: usize,
    /// The first word of its info string.
    pub language: String,
    /// The rest of its info string: how it is run, or why not.
    pub note: String,
    /// Its lines, without the indentation of the fence.
    pub text: String,
}

impl Block {
    /// The reason why the block is not run, if it gives one.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.note.strip_prefix("not run: ")
    }

    /// Whether this block is in this language and can be run.
    pub(crate) fn runs_as(&self, language: &str) -> bool {
        self.language == language && self.reason().is_none()
    }

    /// The page and the line, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The place as a part of a file's name.
    pub(crate) fn file_stem(&self) -> String {
        let page = self.page.trim_end_matches(".md").to_lowercase();
        format!("{}-{}", page.replace('/', "-"), self.line)
    }
}

/// All blocks of README.md and of the user guide.
pub(crate) fn all() -> Vec<Block> {
    let mut pages = vec!["README.md".to_owned()];
    pages_below("docs", &mut pages);
    pages.sort();
    let blocks = pages.iter().flat_map(|page| {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        blocks_of(page, &text)
    });
    blocks.collect()
}

fn pages_below(folder: &str, pages: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let path = entry.expect("an entry").path();
        let relative = path.strip_prefix(root()).expect("below the root");
        let relative = relative.to_str().expect("UTF-8").to_owned();
        if path.is_dir() {
            pages_below(&relative, pages);
        } else if Path::new(&relative)
            .extension()
            .is_some_and(|one| one == "md")
        {
            pages.push(relative);
        }
    }
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let indentation = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                let (language, note) = info.split_once(' ').unwrap_or((info, ""));
                let block = Block {
                    page: page.to_owned(),
                    line: index + 1,
                    language: language.to_owned(),
                    note: note.trim().to_owned(),
                    text: String::new(),
                };
                open = Some((block, indentation));
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
            (Some((block, indentation)), None) => {
                block.text += line.get(*indentation..).unwrap_or_default();
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    blocks
}
