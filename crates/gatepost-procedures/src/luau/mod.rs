//! The host of operators' own procedures, written in Luau.
//!
//! A file `procedures/mail/greylist.luau` is the procedure `/mail/greylist`. It returns a
//! function of the message and a table of arguments, which answers with an action and a reason,
//! with a table `{action, reason, score, tags, text}`, or with nothing, which means accept. Its
//! changes of the message become edits of the verdict; `library.rs` contains the other functions:
//!
//! ```lua
//! return function(message, arguments)
//!     if message.size > 1000 and message:header("List-Id") == nil then
//!         return "quarantine", "large and not from a list"
//!     end
//! end
//! ```
//!
//! Invariants: code is compiled once, when the file is read. Each procedure has virtual machines of
//! its own, one for each call of it that runs or waits at the same time, so no procedure can read
//! the globals of another, and a memory limit affects only the procedure that exceeds it. A machine
//! that failed, or whose call was cancelled, is discarded; idle ones are bounded (`idle.rs`).
//!
//! A call that waits for another server keeps its machine and releases its thread (`waiting.rs`).
//! Many coroutines in one machine would hold less memory, but a call would then see others change
//! its globals while it waits, one thread at a time could resume them, and a call that exceeds the
//! memory would end all of them. So the machines of waiting calls are bounded by their memory
//! instead (`procedures.waiting_memory_max`).

use std::path::Path;
use std::sync::Arc;

use gatepost_message::Action;

use crate::host::Resources;
use crate::procedure::{
    Needs, PendingJudgement, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure,
    ProcedureResult, Wake,
};
use crate::{ConfigurationProblem, LuauSettings, ProceduresConfiguration};

mod answer;
mod call_log;
mod deadline;
mod folder;
mod functions;
mod host_memory;
mod idle;
mod json;
mod library;
mod lint;
mod machine;
mod tokens;
mod view;
mod waiting;
mod working;

pub(crate) use folder::ProcedureFolder;
use idle::IdleMachines;
use machine::{LuauMachine, LuauProgram};

/// A procedure from a file.
struct LuauProcedure(Arc<Code>);

/// State that the calls of a procedure share.
struct Code {
    program: LuauProgram,
    settings: LuauSettings,
    /// Machines without a call.
    idle: IdleMachines,
}

/// Compiles every file of the folder. A file that does not compile, or does not return a
/// function, is an error with its line.
pub(crate) fn compile(
    folder: &ProcedureFolder,
    configuration: &ProceduresConfiguration,
    resources: &Arc<Resources>,
    problems: &mut Vec<ConfigurationProblem>,
) -> Vec<(String, Arc<dyn Procedure>)> {
    let mut procedures: Vec<(String, Arc<dyn Procedure>)> = Vec::new();
    for (path, file) in folder.procedures() {
        let table = configuration.table.luau.get(path);
        let settings = table.unwrap_or(&configuration.procedures.luau).clone();
        match LuauProcedure::compile(path, file, settings, resources) {
            Ok(procedure) => {
                problems.extend(misspelt(file));
                procedures.push((path.to_owned(), Arc::new(procedure)));
            }
            Err(failure) => {
                let (place, text) = located(file, &failure.0);
                problems.push(ConfigurationProblem::error(place, text));
            }
        }
    }
    for (file, text) in folder.complaints() {
        let file = file.display().to_string();
        problems.push(ConfigurationProblem::warning(file, text));
    }
    for (directory, text) in folder.unread() {
        let directory = directory.display().to_string();
        problems.push(ConfigurationProblem::error(directory, text));
    }
    procedures
}

/// The mistakes in a file that compiles nevertheless.
fn misspelt(file: &Path) -> Vec<ConfigurationProblem> {
    let source = std::fs::read(file).unwrap_or_default();
    let found = lint::mistakes(&String::from_utf8_lossy(&source));
    let problem = |mistake: lint::LintFinding| {
        let place = format!("{}:{}", file.display(), mistake.line);
        if mistake.is_certain {
            ConfigurationProblem::error(place, mistake.text)
        } else {
            ConfigurationProblem::warning(place, mistake.text)
        }
    };
    found.into_iter().map(problem).collect()
}

/// Splits `FILE:LINE: text`, the format of the machine, or `LINE: text`, that of the compiler, into
/// the place and the text.
fn located<'a>(file: &Path, text: &'a str) -> (String, &'a str) {
    let file = file.display().to_string();
    let rest = text.strip_prefix(file.as_str()).unwrap_or(text);
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    match rest.split_once(':') {
        Some((line, rest)) if line.parse::<u32>().is_ok() => {
            (format!("{file}:{line}"), rest.trim_start())
        }
        _ => (file, text),
    }
}

impl LuauProcedure {
    fn compile(
        path: &str,
        file: &Path,
        settings: LuauSettings,
        resources: &Arc<Resources>,
    ) -> Result<Self, ProcedureFailure> {
        let program = LuauProgram::compile(path, file, resources)?;
        // Loading the first machine shows whether the file returns a function.
        let first = LuauMachine::new(&program, &settings)?;
        let idle = IdleMachines::new(settings.memory_max.as_usize());
        idle.keep(first);
        Ok(Self(Arc::new(Code {
            program,
            settings,
            idle,
        })))
    }
}

impl Procedure for LuauProcedure {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn start(&self, call: &ProcedureCall<'_>) -> ProcedureResult {
        let code = &self.0;
        let idle = code.idle.take();
        let machine = idle.map_or_else(|| LuauMachine::new(&code.program, &code.settings), Ok);
        let mut machine = match machine {
            Ok(machine) => machine,
            Err(failure) => return ProcedureResult::Done(Err(failure)),
        };
        let answer = machine.call(call, &code.settings);
        judgement(code, machine, answer)
    }

    fn on_failure(&self) -> Action {
        self.0.settings.on_error
    }
}

/// A call that waits for another server.
struct PendingLuauCall {
    code: Arc<Code>,
    machine: LuauMachine,
}

impl PendingJudgement for PendingLuauCall {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        self.machine
            .notifier()
            .unwrap_or_else(|| Box::new(|wake| wake()))
    }

    fn memory_bytes(&self) -> usize {
        self.machine.memory_bytes()
    }

    fn resume(mut self: Box<Self>) -> ProcedureResult {
        let answer = self.machine.resume();
        judgement(&self.code, self.machine, answer)
    }
}

fn judgement(
    code: &Arc<Code>,
    machine: LuauMachine,
    answer: Result<Option<ProcedureAnswer>, ProcedureFailure>,
) -> ProcedureResult {
    ProcedureResult::Done(match answer {
        Ok(Some(answer)) => {
            if !machine.has_reached_calls_max(&code.settings) {
                code.idle.keep(machine);
            }
            Ok(answer)
        }
        Ok(None) => {
            let code = Arc::clone(code);
            return ProcedureResult::Pending(Box::new(PendingLuauCall { code, machine }));
        }
        Err(failure) => Err(failure),
    })
}
