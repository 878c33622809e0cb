//! `log`: lines of procedures in the server's log.
//!
//! A loop could log as fast as the disk writes, with every message, so each call has a maximum
//! number of lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use mlua::{Function, Lua, MultiValue, Value};

/// Lines of one call.
const LINES_MAX: u32 = 100;
/// Longer lines are cut.
const LINE_CHARACTERS_MAX: usize = 1000;

/// The lines of one machine.
pub(super) struct CallLog {
    /// The procedure's path.
    path: String,
    /// Lines of the present call.
    lines: AtomicU32,
}

impl CallLog {
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            lines: AtomicU32::new(0),
        }
    }

    /// Begins a call, which has no lines yet.
    pub(super) fn begin_call(&self) {
        self.lines.store(0, Relaxed);
    }

    /// `log("text")` writes to Gatepost's log; `log("text", "warn")` as a warning.
    pub(super) fn function(self: Arc<Self>, lua: &Lua) -> mlua::Result<Function> {
        lua.create_function(move |lua, values: MultiValue| {
            if self.has_room() {
                self.write(lua, values)?;
            }
            Ok(())
        })
    }

    /// Counts a line. The first one beyond the maximum is reported instead.
    fn has_room(&self) -> bool {
        // A machine runs on one thread at a time, so no other change intervenes.
        let before = self.lines.load(Relaxed);
        self.lines.store(before.saturating_add(1), Relaxed);
        if before == LINES_MAX {
            let procedure = &self.path;
            tracing::warn!(target: "procedures", procedure, "this call has logged {LINES_MAX} \
                lines; its further ones are left out");
        }
        before < LINES_MAX
    }

    fn write(&self, lua: &Lua, values: MultiValue) -> mlua::Result<()> {
        let mut values = values.into_iter();
        let text = values.next().unwrap_or(Value::Nil);
        let text = lua
            .coerce_string(text.clone())?
            .map_or_else(|| format!("{text:?}"), |text| text.to_string_lossy());
        let text: String = text.chars().take(LINE_CHARACTERS_MAX).collect();
        let text = text.escape_debug();
        let procedure = &self.path;
        let is_warning = matches!(values.next(), Some(Value::String(level)) if level == "warn");
        if is_warning {
            tracing::warn!(target: "procedures", procedure, "{text}");
        } else {
            tracing::info!(target: "procedures", procedure, "{text}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_maximum_number_of_lines() {
        let log = CallLog::new("/a");
        for _ in 0..2 {
            log.begin_call();
            let written = (0..1000).filter(|_| log.has_room()).count();
            assert_eq!(written, 100);
        }
    }
}
