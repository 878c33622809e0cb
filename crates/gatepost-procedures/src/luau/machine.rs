//! A virtual machine that runs one procedure, and its limits.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Publication;
use mlua::{Compiler, Function, Lua, LuaOptions, MultiValue, StdLib, Thread, ThreadStatus, Value};
use parking_lot::Mutex;

use super::answer;
use super::call_log::CallLog;
use super::deadline::{CallTimes, Deadline, Pause};
use super::host_memory::HostMemory;
use super::library::Library;
use super::view;
use super::waiting::PresentRequest;
use super::working::SharedMessage;
use crate::LuauSettings;
use crate::host::Resources;
use crate::procedure::{ProcedureAnswer, ProcedureCall, ProcedureFailure, Wake};

/// A file's bytecode, shared by the machines that run it.
pub(crate) struct LuauProgram {
    /// `@` and the file's name, so that Luau begins its messages with `name:line:`.
    chunk_name: String,
    /// The procedure's path.
    path: String,
    bytecode: Arc<[u8]>,
    resources: Arc<Resources>,
}

impl LuauProgram {
    pub(crate) fn compile(
        path: &str,
        file: &Path,
        resources: &Arc<Resources>,
    ) -> Result<Self, ProcedureFailure> {
        let source = fs::read(file)
            .map_err(|error| ProcedureFailure(format!("the file cannot be read: {error}")))?;
        let chunk_name = format!("@{}", file.display());
        let bytecode = Compiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .compile(&source)
            .map_err(|error| failure(&error))?;
        Ok(Self {
            chunk_name,
            path: path.to_owned(),
            bytecode: bytecode.into(),
            resources: Arc::clone(resources),
        })
    }
}

/// A machine with the procedure loaded.
pub(crate) struct LuauMachine {
    lua: Lua,
    procedure: Function,
    /// The coroutine in which the procedure runs.
    thread: Thread,
    request: PresentRequest,
    /// The call that waits.
    present: Option<PresentCall>,
    deadline: Arc<Deadline>,
    memory: Arc<HostMemory>,
    publications: Arc<Mutex<Vec<Publication>>>,
    log: Arc<CallLog>,
    resources: Arc<Resources>,
    /// The memory of the machine before the file was loaded.
    memory_empty: usize,
    /// The memory of an idle machine after it was made.
    memory_idle: usize,
    /// The most it may hold.
    memory_max: usize,
    /// Calls so far.
    calls: u64,
}

/// A call that waits for another server.
struct PresentCall {
    message: SharedMessage,
    pause: Pause,
}

impl LuauMachine {
    pub(crate) fn new(
        program: &LuauProgram,
        settings: &LuauSettings,
    ) -> Result<Self, ProcedureFailure> {
        Self::make(program, settings).map_err(|error| failure(&error))
    }

    fn make(program: &LuauProgram, settings: &LuauSettings) -> mlua::Result<Self> {
        // No io, os or package exist in Luau's safe set; `coroutine` is kept, since the interrupt
        // works in coroutines too.
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new())?;
        lua.globals().raw_remove("require")?;
        // A compiler's memory and time would be outside of the limits.
        lua.globals().raw_remove("loadstring")?;
        let deadline = Arc::new(Deadline::new(settings.steps_max));
        let memory = Arc::new(HostMemory::new(settings.memory_max.as_usize()));
        let publications = Arc::default();
        let log = Arc::new(CallLog::new(&program.path));
        let request = PresentRequest::default();
        let library = Library {
            resources: Arc::clone(&program.resources),
            deadline: Arc::clone(&deadline),
            path: program.path.clone(),
            memory: Arc::clone(&memory),
            publications: Arc::clone(&publications),
            log: Arc::clone(&log),
            request: request.clone(),
        };
        library.register(&lua)?;
        // Libraries become read-only, and globals of the file its own.
        lua.sandbox(true)?;
        let memory_empty = lua.used_memory();
        let memory_max = memory_empty + settings.memory_max.as_usize();
        lua.set_memory_limit(memory_max)?;
        deadline.set(times(settings, None));
        let watched = Arc::clone(&deadline);
        lua.set_interrupt(move |_| watched.check());
        let chunk = lua
            .load(&program.bytecode[..])
            .set_mode(mlua::ChunkMode::Binary)
            .set_name(program.chunk_name.clone());
        let procedure = match chunk.eval::<Value>()? {
            Value::Function(function) => function,
            other => {
                return Err(mlua::Error::runtime(format!(
                    "the file returns {}, not a function; end it with 'return function(message, \
                     arguments) ... end'",
                    other.type_name()
                )));
            }
        };
        // Publications of a file while it is loaded belong to no message.
        publications.lock().clear();
        let thread = lua.create_thread(procedure.clone())?;
        let memory_idle = lua.used_memory();
        Ok(Self {
            lua,
            procedure,
            thread,
            request,
            present: None,
            deadline,
            memory,
            publications,
            log,
            resources: Arc::clone(&program.resources),
            memory_empty,
            memory_idle,
            memory_max,
            calls: 0,
        })
    }

    /// Whether it has reached its maximum number of calls: its accumulated state is discarded with
    /// it.
    pub(crate) const fn has_reached_calls_max(&self, settings: &LuauSettings) -> bool {
        settings.calls_max > 0 && self.calls >= settings.calls_max
    }

    /// Calls the procedure; `None` if it waits. After a failure the machine must not be used again.
    pub(crate) fn call(
        &mut self,
        call: &ProcedureCall<'_>,
        settings: &LuauSettings,
    ) -> Result<Option<ProcedureAnswer>, ProcedureFailure> {
        self.calls += 1;
        self.memory.clear();
        self.log.begin_call();
        self.deadline.set(times(settings, call.time_max));
        let message = SharedMessage::new(call.message, call.so_far, &self.memory, &self.deadline);
        let begin = || {
            let arguments = self.lua.create_table()?;
            for (name, value) in &settings.arguments {
                arguments.raw_set(name.as_str(), value.as_str())?;
            }
            for (name, value) in call.arguments.iter() {
                arguments.raw_set(name, value)?;
            }
            let view = view::create(&self.lua, &message)?;
            self.thread.reset(self.procedure.clone())?;
            self.thread.resume((view, arguments))
        };
        let values = begin();
        self.went(message, values)
    }

    /// Continues the waiting call.
    pub(crate) fn resume(&mut self) -> Result<Option<ProcedureAnswer>, ProcedureFailure> {
        let present = self.present.take();
        let present = present.ok_or_else(|| ProcedureFailure("no call waits".to_owned()))?;
        self.deadline.end_pause(&present.pause);
        let values = self.thread.resume(());
        self.went(present.message, values)
    }

    /// Registers a function that is called when the waiting call can continue; `None` without one.
    pub(crate) fn notifier(&self) -> Option<Box<dyn FnOnce(Wake) + Send>> {
        self.request.notifier()
    }

    /// Memory in bytes that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lua.used_memory() + self.memory.bytes_held()
    }

    /// Memory in bytes that the file's own data takes, without a call.
    pub(crate) fn procedure_bytes(&self) -> usize {
        self.lua.used_memory().saturating_sub(self.memory_empty)
    }

    /// Handles a coroutine that has ended, failed, or waits.
    fn went(
        &mut self,
        message: SharedMessage,
        values: mlua::Result<MultiValue>,
    ) -> Result<Option<ProcedureAnswer>, ProcedureFailure> {
        if values.is_ok() && self.thread.status() == ThreadStatus::Resumable {
            if self.request.notifier().is_none() {
                let text = "the procedure yields outside of its own coroutines";
                return Err(ProcedureFailure(text.to_owned()));
            }
            let pause = self.deadline.pause();
            self.present = Some(PresentCall { message, pause });
            return Ok(None);
        }
        self.request.clear();
        let edits = message.close();
        let answer = values.and_then(answer::read);
        let mut answer = answer.map_err(|error| failure(&error))?;
        answer.verdict.edits = edits;
        self.settle(answer).map(Some)
    }

    /// Makes the publications of the call, now that it has succeeded.
    fn settle(&self, mut answer: ProcedureAnswer) -> Result<ProcedureAnswer, ProcedureFailure> {
        answer.cost.steps = self.deadline.steps();
        answer.cost.memory_bytes = self.lua.used_memory().saturating_sub(self.memory_idle) as u64;
        let publications = std::mem::take(&mut *self.publications.lock());
        if let Some(sink) = &self.resources.host.publications {
            for publication in publications {
                sink.publish(publication);
            }
        }
        // Luau collects garbage while it allocates, but not a last time before an allocation fails.
        if self.lua.used_memory() > self.memory_max / 2 {
            self.collect_garbage()?;
        }
        Ok(answer)
    }

    /// Frees what no global refers to.
    pub(crate) fn collect_garbage(&self) -> Result<(), ProcedureFailure> {
        let collected = self.lua.gc_collect();
        collected.map_err(|error| ProcedureFailure(error.to_string()))
    }
}

fn times(settings: &LuauSettings, caller: Option<Duration>) -> CallTimes {
    CallTimes {
        run: settings.time_max.duration(),
        wait: settings.wait_max.duration(),
        caller,
    }
}

/// The first line of an error: the error and its place, without mlua's own trace.
fn failure(error: &mlua::Error) -> ProcedureFailure {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return failure(cause),
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            message.clone()
        }
        mlua::Error::MemoryError(_) => "the procedure used more memory than it may".to_owned(),
        other => other.to_string(),
    };
    ProcedureFailure(text.lines().next().unwrap_or_default().to_owned())
}
