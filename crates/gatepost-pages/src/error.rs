//! Errors in templates, and of their rendering.

/// An error in a template, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {detail}")]
pub struct TemplateError {
    /// The file, relative to the pages' folder.
    pub file: String,
    /// The line, from 1; 0 where unknown.
    pub line: usize,
    /// A description of the error.
    pub detail: String,
}

impl TemplateError {
    pub(crate) fn from_engine(error: &minijinja::Error, page: &str) -> Self {
        let mut detail = error.kind().to_string();
        if let Some(more) = error.detail() {
            detail = format!("{detail}: {more}");
        }
        Self {
            file: error.name().unwrap_or(page).to_owned(),
            line: error.line().unwrap_or(0),
            detail,
        }
    }
}

/// The reason why a page could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template contains an error.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Too many pages wait for a worker.
    #[error("too many pages wait for a worker")]
    Busy,
    /// The page took longer than `time_max`.
    #[error("the page took longer than time_max")]
    TimedOut,
    /// The page's worker failed.
    #[error("the page's worker failed")]
    Fault,
}
