//! Calls that wait for other servers.
//!
//! A procedure runs as a coroutine of its machine. A function that contacts another server begins
//! its request and yields, through all of the procedure's own coroutines, to the host; the host
//! resumes it with the outcome. Meanwhile the call needs no thread, only its machine, which no
//! other call uses: the code sees no foreign change of its globals, and its limits of memory and
//! time remain its own.
//!
//! In places where Luau cannot yield (a callback of `table.sort` or `string.gsub`, a metamethod,
//! the loading of the file), the request is awaited on the present thread.

use std::sync::Arc;
use std::sync::mpsc;

use mlua::{Error, FromLuaMulti, Function, IntoLua, Lua, Table, Value};
use parking_lot::Mutex;

use super::deadline::Deadline;
use crate::host::{OutgoingResponse, PendingNames, PendingResponse};
use crate::procedure::Wake;

/// The Luau side. Coroutines propagate a wait: the coroutine that resumes them waits too, and they
/// continue together.
const WAITING: &str = r"
local take, block, token = ...
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local isyieldable, pack, unpack = coroutine.isyieldable, table.pack, table.unpack
local error, rawequal = error, rawequal

local function wait()
    if isyieldable() then yield(token) else block() end
end

local function pass_on(thread, ...)
    local results = pack(resume(thread, ...))
    while results[1] and rawequal(results[2], token) do
        wait()
        results = pack(resume(thread))
    end
    return results
end

function coroutine.resume(thread, ...)
    local results = pass_on(thread, ...)
    return unpack(results, 1, results.n)
end

function coroutine.wrap(body)
    local thread = create(body)
    return function(...)
        local results = pass_on(thread, ...)
        if not results[1] then error(results[2], 0) end
        return unpack(results, 2, results.n)
    end
end

return function(begin)
    return function(...)
        local is_known, value, why = begin(...)
        if is_known then return value, why end
        wait()
        return take()
    end
end
";

/// A pending request.
pub(super) enum PendingRequest {
    Names(PendingNames),
    Response(PendingResponse),
}

impl PendingRequest {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        match self {
            Self::Names(names) => names.notifier(),
            Self::Response(response) => response.notifier(),
        }
    }
}

/// The result of starting a Luau function: its outcome, or a request.
pub(super) enum BegunRequest {
    /// A value, or nil and the reason.
    Known(Result<Value, String>),
    Pending(PendingRequest),
}

/// The request of a machine. There is never more than one: the code does nothing until it has
/// ended.
#[derive(Clone, Default)]
pub(super) struct PresentRequest(Arc<Mutex<Option<PendingRequest>>>);

impl PresentRequest {
    /// Registers a function that is called when the request has ended; `None` without a request.
    pub(super) fn notifier(&self) -> Option<Box<dyn FnOnce(Wake) + Send>> {
        self.0.lock().as_ref().map(PendingRequest::notifier)
    }

    /// Cancels the request, if there is one.
    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }

    fn take(&self, lua: &Lua) -> mlua::Result<(Value, Option<String>)> {
        let request = self.0.lock().take();
        let outcome = match request {
            Some(PendingRequest::Names(names)) => match names.end() {
                Ok(names) => Ok(list(lua, &names)?),
                Err(reason) => Err(reason),
            },
            Some(PendingRequest::Response(response)) => match response.end() {
                Ok(response) => Ok(table(lua, response)?),
                Err(error) => Err(error.to_string()),
            },
            None => return Err(Error::runtime("there is no request to wait for")),
        };
        Ok(value_or_reason(outcome))
    }

    /// Waits on the present thread until the request has ended.
    fn block(&self, deadline: &Deadline) {
        let Some(notifier) = self.notifier() else {
            return;
        };
        let pause = deadline.pause();
        let (ended, end) = mpsc::channel();
        notifier(Box::new(move || {
            // Fails where the call has ended.
            let _ = ended.send(());
        }));
        // Every request ends; the channel is closed only if there will be no outcome.
        let _ = end.recv();
        deadline.end_pause(&pause);
    }
}

/// Makes functions that may wait.
pub(super) struct WaitingFunctions {
    make: Function,
    request: PresentRequest,
}

impl WaitingFunctions {
    pub(super) fn register(
        lua: &Lua,
        request: &PresentRequest,
        deadline: &Arc<Deadline>,
    ) -> mlua::Result<Self> {
        let taken = request.clone();
        let take = lua.create_function(move |lua, ()| taken.take(lua))?;
        let (blocking, deadline) = (request.clone(), Arc::clone(deadline));
        let block = lua.create_function(move |_, ()| {
            blocking.block(&deadline);
            Ok(())
        })?;
        let token = lua.create_table()?;
        let chunk = lua.load(WAITING).set_name("=waiting");
        Ok(Self {
            make: chunk.call((take, block, token))?,
            request: request.clone(),
        })
    }

    /// A Luau function that begins a request, and returns its value, or nil and the reason.
    pub(super) fn function<A: FromLuaMulti>(
        &self,
        lua: &Lua,
        begin: impl Fn(&Lua, A) -> mlua::Result<BegunRequest> + Send + 'static,
    ) -> mlua::Result<Function> {
        let request = self.request.clone();
        let begin = lua.create_function(move |lua, arguments: A| {
            Ok(match begin(lua, arguments)? {
                BegunRequest::Known(outcome) => {
                    let (value, why) = value_or_reason(outcome);
                    (true, value, why)
                }
                BegunRequest::Pending(pending) => {
                    *request.0.lock() = Some(pending);
                    (false, Value::Nil, None)
                }
            })
        })?;
        self.make.call(begin)
    }
}

fn value_or_reason(outcome: Result<Value, String>) -> (Value, Option<String>) {
    match outcome {
        Ok(value) => (value, None),
        Err(reason) => (Value::Nil, Some(reason)),
    }
}

/// The names that an answer holds.
pub(super) fn list(lua: &Lua, names: &[String]) -> mlua::Result<Value> {
    let names = names.iter().map(String::as_str);
    Ok(Value::Table(lua.create_sequence_from(names)?))
}

/// `{status, headers, body}`.
fn table(lua: &Lua, response: OutgoingResponse) -> mlua::Result<Value> {
    let fields: Table = lua.create_table()?;
    for (name, value) in response.fields {
        fields.set(name, value)?;
    }
    let table = lua.create_table()?;
    table.set("status", response.status)?;
    table.set("body", lua.create_string(&response.body)?)?;
    table.set("headers", fields)?;
    table.into_lua(lua)
}
