//! The machines of a procedure that have no call.
//!
//! Making a machine takes far longer than a short call, so machines are kept for the next calls.
//! Many are needed while calls wait for other servers, and each may hold as much memory as one call
//! may use: its garbage, and what the procedure keeps in globals. So all idle machines of a
//! procedure together hold at most what one call may (`luau.memory_max`). The first is kept
//! whatever it holds: a procedure with a large table would otherwise make it for each message.

use parking_lot::Mutex;

use super::machine::LuauMachine;

/// The number of idle machines that are kept.
const IDLE_MACHINES_MAX: usize = 32;

pub(super) struct IdleMachines {
    kept: Mutex<KeptMachines>,
    bytes_max: usize,
}

#[derive(Default)]
struct KeptMachines {
    /// The machines, each with the bytes that its procedure holds.
    machines: Vec<(LuauMachine, usize)>,
    /// The sum of these bytes.
    bytes: usize,
}

impl KeptMachines {
    fn is_full(&self) -> bool {
        self.machines.len() >= IDLE_MACHINES_MAX
    }

    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        let fits = self.machines.is_empty() || self.bytes + bytes <= bytes_max;
        fits && !self.is_full()
    }
}

impl IdleMachines {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            kept: Mutex::default(),
            bytes_max,
        }
    }

    /// Removes the machine that was used last: its memory is the likeliest to be in the
    /// processor's cache.
    pub(super) fn take(&self) -> Option<LuauMachine> {
        let mut kept = self.kept.lock();
        let (machine, bytes) = kept.machines.pop()?;
        kept.bytes -= bytes;
        Some(machine)
    }

    /// Keeps a machine, or discards it where there are enough or the others hold enough. Garbage is
    /// collected, outside of the lock, only if the machine does not fit with it.
    pub(super) fn keep(&self, machine: LuauMachine) {
        if self.kept.lock().is_full() {
            return;
        }
        let Some(machine) = self.keep_if_room(machine) else {
            return;
        };
        if machine.collect_garbage().is_ok() {
            // Memory is freed after the lock is released.
            drop(self.keep_if_room(machine));
        }
    }

    /// Returns the machine if there is no room for it.
    fn keep_if_room(&self, machine: LuauMachine) -> Option<LuauMachine> {
        let bytes = machine.procedure_bytes();
        let mut kept = self.kept.lock();
        if !kept.has_room(bytes, self.bytes_max) {
            return Some(machine);
        }
        kept.bytes += bytes;
        kept.machines.push((machine, bytes));
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_settings::ByteSize;
    use gatepost_store::{ValueLimits, ValueStore};

    use super::super::machine::LuauProgram;
    use super::*;
    use crate::host::{ProcedureHost, Resources};
    use crate::{LuauSettings, ProceduresConfiguration};

    /// Offers so many machines of a file, and returns how many are kept.
    fn kept_of(count: usize, source: &str, settings: &LuauSettings) -> usize {
        let limits = ValueLimits {
            count_max: 1,
            bytes_max: ByteSize::mebibytes(1),
        };
        let host = ProcedureHost::new(ValueStore::in_memory(limits), None);
        let procedures = ProceduresConfiguration::default().procedures;
        let resources = Arc::new(Resources::new(&host, &procedures.dns, &procedures.http));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("large.luau");
        std::fs::write(&file, source).expect("written");
        let program = LuauProgram::compile("/large", &file, &resources).expect("it compiles");
        let idle = IdleMachines::new(settings.memory_max.as_usize());
        for _ in 0..count {
            idle.keep(LuauMachine::new(&program, settings).expect("it loads"));
        }
        std::iter::from_fn(|| idle.take()).count()
    }

    #[test]
    fn idle_machines_together_hold_what_one_call_may() {
        let settings = LuauSettings {
            memory_max: ByteSize::mebibytes(16),
            ..LuauSettings::default()
        };
        let file = |beginning: &str| format!("{beginning}\nreturn function() return kept end");
        let small = file("local kept = 1");
        assert_eq!(kept_of(10, &small, &settings), 10);
        assert_eq!(kept_of(40, &small, &settings), IDLE_MACHINES_MAX);
        let five_megabytes = file("local kept = string.rep('x', 5000000)");
        assert_eq!(kept_of(10, &five_megabytes, &settings), 3);
        let twelve_megabytes = file("local kept = string.rep('x', 12000000)");
        assert_eq!(
            kept_of(10, &twelve_megabytes, &settings),
            1,
            "the first one"
        );
        let garbage = file("local kept = 1\nfor i = 1, 3 do string.rep('x', 2000000 + i) end");
        assert_eq!(kept_of(10, &garbage, &settings), 10, "it is collected");
    }
}
