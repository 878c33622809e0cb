//! Changes of procedures by administrators: a text is checked, tried on stored messages, put in
//! force, and undone.
//!
//! Changes need `procedures.editable`. A text that does not compile is never written.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gatepost_message::{Message, Topic};
use gatepost_procedures::{
    ConfigurationProblem, ProblemSeverity, ProcedureArguments, ProcedureHost, ProcedureListing,
    Procedures,
};
use gatepost_store::ValueStore;
use serde::Serialize;

use crate::error::OperationError;
use crate::operations::Operations;
use crate::originals::JudgedOriginal;
use crate::procedure_files::version_of;

/// The longest text of a procedure that is accepted.
const PROCEDURE_BYTES_MAX: usize = 256 << 10;

/// A procedure's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcedureFile {
    /// The path of the procedure, as in `/mail/greylist`.
    pub path: String,
    /// The file; `None` if the procedure is built in, or does not exist yet.
    pub file: Option<String>,
    /// The scopes that run it.
    pub scopes: Vec<String>,
    /// The text.
    pub text: String,
    /// The version of the text, which a change must name.
    pub version: String,
    /// Whether there is a previous text.
    pub can_undo: bool,
}

/// A problem of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcedureProblem {
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The problem and a suggested fix.
    pub text: String,
    /// Whether the text cannot be activated because of it.
    pub is_error: bool,
}

/// A stored message for which a text gives another verdict than the present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedVerdict {
    /// The message.
    pub id: String,
    /// Its subject, or its topic.
    pub name: String,
    /// Verdict and reason by the present text.
    pub before: [String; 2],
    /// Verdict and reason by the new text.
    pub after: [String; 2],
}

/// The outcome of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProcedureTrial {
    /// The problems of the text.
    pub problems: Vec<ProcedureProblem>,
    /// The messages on which it was tried.
    pub messages: usize,
    /// The messages with another verdict, newest first.
    pub changed: Vec<ChangedVerdict>,
}

impl ProcedureTrial {
    fn refused(reason: impl Into<String>) -> Self {
        Self {
            problems: vec![ProcedureProblem::error(reason.into())],
            ..Self::default()
        }
    }

    /// Whether the text may be activated.
    pub fn is_usable(&self) -> bool {
        !self.problems.iter().any(|problem| problem.is_error)
    }
}

/// The parts of a trial.
struct PreparedTrial {
    /// The procedures as they are, with a host of their own.
    present: Option<Procedures>,
    /// The procedures with the new text, if it compiles.
    candidate: Option<Procedures>,
    problems: Vec<ProcedureProblem>,
    messages: Vec<JudgedOriginal>,
}

impl Operations {
    /// Every procedure, with its file if it has one.
    pub fn procedures(&self) -> Vec<ProcedureListing> {
        self.gateway.procedures().listing()
    }

    /// The text of a procedure; empty for one that does not exist yet.
    pub async fn procedure_file(&self, path: String) -> Result<ProcedureFile, OperationError> {
        self.blocking(move |operations| operations.read_procedure(&path))
            .await
    }

    /// Compiles a text for the procedure at `path`, and runs it and the present one on the last
    /// `count` stored messages. Nothing is delivered, published or stored.
    pub async fn try_procedure(
        &self,
        path: String,
        text: String,
        count: usize,
    ) -> Result<ProcedureTrial, OperationError> {
        self.expect_editable()?;
        let of_path = path.clone();
        let prepared = self
            .blocking(move |operations| operations.prepare_trial(&of_path, &text, count))
            .await?;
        let mut trial = ProcedureTrial {
            problems: prepared.problems,
            ..ProcedureTrial::default()
        };
        let Some(candidate) = prepared.candidate else {
            return Ok(trial);
        };
        for stored in prepared.messages.into_iter().rev() {
            let message = Arc::new(stored.message());
            if !self.gateway.procedures().runs_for(&path, &message) {
                continue;
            }
            trial.messages += 1;
            let before = verdict_of(prepared.present.as_ref(), &path, &message).await;
            let after = verdict_of(Some(&candidate), &path, &message).await;
            if before[0] != after[0] {
                trial.changed.push(ChangedVerdict {
                    id: stored.story.id.to_string(),
                    name: name_of(&stored),
                    before,
                    after,
                });
            }
        }
        Ok(trial)
    }

    /// Writes the text of a procedure and activates it, if it compiles and the present text is
    /// still that of `version`.
    pub async fn change_procedure(
        &self,
        path: String,
        text: String,
        version: String,
    ) -> Result<ProcedureTrial, OperationError> {
        self.expect_editable()?;
        if text.trim().is_empty() {
            return Ok(ProcedureTrial::refused("the text is empty"));
        }
        let _changing = self.procedure_files.changing.lock().await;
        self.blocking(move |operations| operations.replace_procedure(&path, &text, &version))
            .await
    }

    /// Returns to the text before the last change; removes a procedure that the change made.
    pub async fn undo_procedure(&self, path: String) -> Result<ProcedureTrial, OperationError> {
        self.expect_editable()?;
        let _changing = self.procedure_files.changing.lock().await;
        self.blocking(move |operations| {
            let previous = operations.procedure_files.previous(&path)?;
            let text = fs::read_to_string(previous).map_err(|_| OperationError::NotFound)?;
            let present = operations.read_procedure(&path)?;
            operations.replace_procedure(&path, &text, &present.version)
        })
        .await
    }

    pub(crate) fn expect_editable(&self) -> Result<(), OperationError> {
        if self.procedure_files.is_editable() {
            return Ok(());
        }
        Err(OperationError::Conflict(
            "procedures.editable is off: procedures are changed by their files only".into(),
        ))
    }

    fn read_procedure(&self, path: &str) -> Result<ProcedureFile, OperationError> {
        let files = &self.procedure_files;
        let listed = self.procedures().into_iter().find(|one| one.path == path);
        let is_builtin = listed.as_ref().is_some_and(|one| one.file.is_none());
        let file = files.file(path)?;
        let text = files.text(path)?;
        let is_there = file.exists() && !is_builtin;
        Ok(ProcedureFile {
            file: is_there.then(|| file.display().to_string()),
            scopes: listed.map(|one| one.scopes).unwrap_or_default(),
            version: version_of(&text),
            can_undo: files.is_editable() && files.previous(path)?.exists(),
            path: path.to_owned(),
            text,
        })
    }

    /// Prepares a trial: compiles the text, and reads the messages.
    fn prepare_trial(
        &self,
        path: &str,
        text: &str,
        count: usize,
    ) -> Result<PreparedTrial, OperationError> {
        let (candidate, problems) = self.candidate(path, text)?;
        let host = self.trial_host()?;
        let (present, _) = self.gateway.procedures().candidate(path, None, host);
        Ok(PreparedTrial {
            present,
            candidate,
            problems,
            messages: JudgedOriginal::newest(&self.store, count)?,
        })
    }

    /// The procedures with this text at `path`, and its problems.
    pub(crate) fn candidate(
        &self,
        path: &str,
        text: &str,
    ) -> Result<(Option<Procedures>, Vec<ProcedureProblem>), OperationError> {
        let files = &self.procedure_files;
        let file = files.file(path)?;
        if text.len() > PROCEDURE_BYTES_MAX {
            let text = format!("a procedure has at most {PROCEDURE_BYTES_MAX} bytes here");
            return Ok((None, vec![ProcedureProblem::error(text)]));
        }
        let listed = self.procedures().into_iter().find(|one| one.path == path);
        if listed.is_some_and(|one| one.file.is_none()) {
            let text = format!("{path} is built in; choose another name");
            return Ok((None, vec![ProcedureProblem::error(text)]));
        }
        let tried = files.tried(text)?;
        let tried = tried.path();
        let host = self.trial_host()?;
        let procedures = self.gateway.procedures();
        let (candidate, problems) = procedures.candidate(path, Some(tried), host);
        // Problems of other files exist with the present text too.
        let own = |problem: &ConfigurationProblem| {
            problem.place.contains(&tried.display().to_string())
                || problem.severity == ProblemSeverity::Error
        };
        let problems = problems.iter().filter(|problem| own(problem));
        let problems = problems.map(|problem| problem_of(problem, tried, &file));
        Ok((candidate, problems.collect()))
    }

    /// A host whose values are copies, and which publishes and sends nothing.
    pub(crate) fn trial_host(&self) -> Result<ProcedureHost, OperationError> {
        let values = ValueStore::copy_of(&self.store, self.procedure_files.values)?;
        Ok(ProcedureHost::new(values, None))
    }

    fn replace_procedure(
        &self,
        path: &str,
        text: &str,
        version: &str,
    ) -> Result<ProcedureTrial, OperationError> {
        let files = &self.procedure_files;
        let present = self.read_procedure(path)?;
        if present.version != version {
            return Err(OperationError::Conflict(
                "the file was changed meanwhile; load it again".into(),
            ));
        }
        let mut trial = ProcedureTrial::default();
        if text.is_empty() {
            if !present.scopes.is_empty() {
                let scopes = present.scopes.join(", ");
                let text = format!("the procedure cannot be removed, since {scopes} runs it");
                return Ok(ProcedureTrial::refused(text));
            }
        } else {
            trial.problems = self.candidate(path, text)?.1;
            if !trial.is_usable() {
                return Ok(trial);
            }
        }
        files.replace(path, &present.text, text)?;
        self.gateway.procedures().read_folder();
        Ok(trial)
    }
}

impl ProcedureProblem {
    fn error(text: String) -> Self {
        Self {
            line: None,
            text,
            is_error: true,
        }
    }
}

/// A problem with its line, as if it were one of the procedure's own file.
fn problem_of(problem: &ConfigurationProblem, tried: &Path, file: &Path) -> ProcedureProblem {
    let (tried, file) = (tried.display().to_string(), file.display().to_string());
    let line = problem.place.strip_prefix(&tried);
    let line = line.and_then(|rest| rest.strip_prefix(':'));
    let line: Option<usize> = line.and_then(|line| line.parse().ok());
    let text = problem.text.replace(&tried, &file);
    let is_own = problem.place.starts_with(&tried);
    ProcedureProblem {
        line,
        text: if is_own {
            text
        } else {
            format!("{}: {text}", problem.place)
        },
        is_error: problem.severity == ProblemSeverity::Error,
    }
}

async fn verdict_of(
    procedures: Option<&Procedures>,
    path: &str,
    message: &Arc<Message>,
) -> [String; 2] {
    let none = || ["none".to_owned(), String::new()];
    let Some(procedures) = procedures else {
        return none();
    };
    let called = procedures.call(path, message.clone(), ProcedureArguments::none());
    match called.await {
        Ok(answer) => [
            answer.verdict.action.name().to_owned(),
            answer.verdict.reason,
        ],
        Err(_) => none(),
    }
}

/// The subject of a message, or its topic.
pub(crate) fn name_of(stored: &JudgedOriginal) -> String {
    let story = &stored.story;
    let topic = story.topic.as_ref().map(Topic::as_str);
    story
        .subject
        .as_deref()
        .or(topic)
        .unwrap_or_default()
        .to_owned()
}
