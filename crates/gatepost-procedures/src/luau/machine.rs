//! A virtual machine that runs one procedure, and the bounds it runs in.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mlua::{Compiler, Function, Lua, LuaOptions, StdLib, Value, VmState};

use super::answer;
use super::view::{self, MessageView};
use crate::LuauSettings;
use crate::procedure::{Answer, Call, Failure};

/// The interrupt comes at every loop and call; the clock is read at one in so many. Between two
/// of them lies a bounded piece of work, so the overrun is microseconds.
const INTERRUPTS_PER_CLOCK: u64 = 64;

/// A file's bytecode, shared by the machines that run it.
pub(crate) struct Program {
    /// `@` and the file's name: Luau then begins its messages with `name:line:`.
    chunk_name: String,
    bytecode: Arc<[u8]>,
}

impl Program {
    pub(crate) fn compile(file: &Path) -> Result<Self, Failure> {
        let source =
            fs::read(file).map_err(|error| Failure(format!("the file cannot be read: {error}")))?;
        let chunk_name = format!("@{}", file.display());
        let bytecode = Compiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .compile(&source)
            .map_err(|error| failure(&error))?;
        Ok(Self {
            chunk_name,
            bytecode: bytecode.into(),
        })
    }
}

/// A machine with the procedure loaded.
pub(crate) struct Machine {
    lua: Lua,
    procedure: Function,
    deadline: Arc<Deadline>,
    /// What an idle machine held after it was made, and the most it may hold.
    memory_max: usize,
}

impl Machine {
    pub(crate) fn new(program: &Program, settings: &LuauSettings) -> Result<Self, Failure> {
        Self::make(program, settings).map_err(|error| failure(&error))
    }

    fn make(program: &Program, settings: &LuauSettings) -> mlua::Result<Self> {
        // No io, os or package exist in Luau's safe set; `coroutine` stays, since the interrupt
        // reaches into coroutines too.
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new())?;
        lua.globals().raw_remove("require")?;
        view::register_log(&lua, &program.chunk_name)?;
        // Libraries become read-only, and globals of the file its own.
        lua.sandbox(true)?;
        let deadline = Arc::new(Deadline::new());
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
        Ok(Self {
            lua,
            procedure,
            deadline,
            memory_max,
        })
    }

    /// Calls the procedure. After a failure the machine is not to be used again.
    pub(crate) fn call(
        &mut self,
        call: &Call<'_>,
        settings: &LuauSettings,
    ) -> Result<Answer, Failure> {
        self.deadline.set(settings.time_max.duration());
        let answer = self.run(call, settings).map_err(|error| failure(&error));
        // Luau collects as it allocates, but has no last collection before it gives up.
        if self.lua.used_memory() > self.memory_max / 2 {
            self.lua
                .gc_collect()
                .map_err(|error| Failure(error.to_string()))?;
        }
        answer
    }

    fn run(&self, call: &Call<'_>, settings: &LuauSettings) -> mlua::Result<Answer> {
        let arguments = self.lua.create_table()?;
        for (name, value) in &settings.arguments {
            arguments.raw_set(name.as_str(), value.as_str())?;
        }
        for (name, value) in call.arguments.iter() {
            arguments.raw_set(name, value)?;
        }
        let view = self
            .lua
            .create_userdata(MessageView::new(call.message, call.so_far))?;
        let values = self.procedure.call((&view, arguments));
        // Code that kept the view finds it closed, and the message is freed in time.
        view.destroy()?;
        answer::read(values?)
    }
}

/// When the running call must have ended.
struct Deadline {
    made: Instant,
    /// Nanoseconds after `made`.
    at_ns: AtomicU64,
    interrupts: AtomicU64,
    time_max_ms: AtomicU64,
}

impl Deadline {
    fn new() -> Self {
        Self {
            made: Instant::now(),
            at_ns: AtomicU64::new(u64::MAX),
            interrupts: AtomicU64::new(0),
            time_max_ms: AtomicU64::new(0),
        }
    }

    fn set(&self, time_max: Duration) {
        let at = self.made.elapsed() + time_max;
        self.at_ns.store(at.as_nanos() as u64, Relaxed);
        self.time_max_ms.store(time_max.as_millis() as u64, Relaxed);
    }

    fn check(&self) -> mlua::Result<VmState> {
        let count = self.interrupts.fetch_add(1, Relaxed);
        if count.is_multiple_of(INTERRUPTS_PER_CLOCK)
            && self.made.elapsed().as_nanos() as u64 >= self.at_ns.load(Relaxed)
        {
            // From now on every interrupt fails: code that catches the first error gets no
            // further than its next loop or call.
            self.interrupts.store(0, Relaxed);
            return Err(mlua::Error::runtime(format!(
                "the procedure ran longer than the {} ms that it may take",
                self.time_max_ms.load(Relaxed)
            )));
        }
        Ok(VmState::Continue)
    }
}

/// The first line of an error: what happened and where, without mlua's own trace.
fn failure(error: &mlua::Error) -> Failure {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return failure(cause),
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            message.clone()
        }
        mlua::Error::MemoryError(_) => "the procedure used more memory than it may".to_owned(),
        other => other.to_string(),
    };
    Failure(text.lines().next().unwrap_or_default().to_owned())
}
