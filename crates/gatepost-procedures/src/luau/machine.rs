//! A virtual machine that runs one procedure, and the bounds it runs in.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gatepost_message::Publication;
use mlua::{Compiler, Function, Lua, LuaOptions, StdLib, Value};
use parking_lot::Mutex;

use super::answer;
use super::deadline::Deadline;
use super::host_memory::HostMemory;
use super::library::Library;
use super::view;
use super::working::SharedMessage;
use crate::LuauSettings;
use crate::host::Resources;
use crate::procedure::{ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// A file's bytecode, shared by the machines that run it.
pub(crate) struct LuauProgram {
    /// `@` and the file's name: Luau then begins its messages with `name:line:`.
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
    deadline: Arc<Deadline>,
    memory: Arc<HostMemory>,
    publications: Arc<Mutex<Vec<Publication>>>,
    resources: Arc<Resources>,
    /// What an idle machine held after it was made.
    memory_idle: usize,
    /// The most it may hold.
    memory_max: usize,
    /// Calls so far.
    calls: u64,
}

impl LuauMachine {
    pub(crate) fn new(
        program: &LuauProgram,
        settings: &LuauSettings,
    ) -> Result<Self, ProcedureFailure> {
        Self::make(program, settings).map_err(|error| failure(&error))
    }

    fn make(program: &LuauProgram, settings: &LuauSettings) -> mlua::Result<Self> {
        // No io, os or package exist in Luau's safe set; `coroutine` stays, since the interrupt
        // reaches into coroutines too.
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new())?;
        lua.globals().raw_remove("require")?;
        let deadline = Arc::new(Deadline::new(settings.steps_max));
        let memory = Arc::new(HostMemory::new(settings.memory_max.as_usize()));
        let publications = Arc::default();
        let library = Library {
            resources: Arc::clone(&program.resources),
            deadline: Arc::clone(&deadline),
            path: program.path.clone(),
            memory: Arc::clone(&memory),
            publications: Arc::clone(&publications),
        };
        library.register(&lua)?;
        // Libraries become read-only, and globals of the file its own.
        lua.sandbox(true)?;
        let memory_max = lua.used_memory() + settings.memory_max.as_usize();
        lua.set_memory_limit(memory_max)?;
        deadline.set(settings.time_max.duration());
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
                    "the file returns {}, not a function; end it with 'return function(message, arguments) ... end'",
                    other.type_name()
                )));
            }
        };
        // Publications of a file while it is loaded belong to no message.
        publications.lock().clear();
        let memory_idle = lua.used_memory();
        Ok(Self {
            lua,
            procedure,
            deadline,
            memory,
            publications,
            resources: Arc::clone(&program.resources),
            memory_idle,
            memory_max,
            calls: 0,
        })
    }

    /// Whether it has served as long as it may: what its code let grow goes with it.
    pub(crate) const fn is_worn(&self, settings: &LuauSettings) -> bool {
        settings.calls_max > 0 && self.calls >= settings.calls_max
    }

    /// Calls the procedure. After a failure the machine is not to be used again.
    pub(crate) fn call(
        &mut self,
        call: &ProcedureCall<'_>,
        settings: &LuauSettings,
    ) -> Result<ProcedureAnswer, ProcedureFailure> {
        self.calls += 1;
        self.memory.clear();
        let time_max = settings.time_max.duration();
        self.deadline
            .set(call.time_max.map_or(time_max, |limit| limit.min(time_max)));
        let mut answer = self.run(call, settings).map_err(|error| failure(&error))?;
        answer.cost.steps = self.deadline.steps();
        answer.cost.memory_bytes = self.lua.used_memory().saturating_sub(self.memory_idle) as u64;
        let publications = std::mem::take(&mut *self.publications.lock());
        if let Some(sink) = &self.resources.host.publications {
            for publication in publications {
                sink.publish(publication);
            }
        }
        // Luau collects as it allocates, but has no last collection before it gives up.
        if self.lua.used_memory() > self.memory_max / 2 {
            self.lua
                .gc_collect()
                .map_err(|error| ProcedureFailure(error.to_string()))?;
        }
        Ok(answer)
    }

    fn run(
        &self,
        call: &ProcedureCall<'_>,
        settings: &LuauSettings,
    ) -> mlua::Result<ProcedureAnswer> {
        let arguments = self.lua.create_table()?;
        for (name, value) in &settings.arguments {
            arguments.raw_set(name.as_str(), value.as_str())?;
        }
        for (name, value) in call.arguments.iter() {
            arguments.raw_set(name, value)?;
        }
        let shared = SharedMessage::new(call.message, call.so_far, &self.memory);
        let view = view::create(&self.lua, &shared)?;
        let values = self.procedure.call((view, arguments));
        let edits = shared.close();
        let mut answer = answer::read(values?)?;
        answer.verdict.edits = edits;
        Ok(answer)
    }
}

/// The first line of an error: what happened and where, without mlua's own trace.
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
