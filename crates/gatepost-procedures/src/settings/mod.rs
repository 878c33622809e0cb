//! The settings under `[procedures]`, `[[scope]]` and `[procedure."/path"]`.

use std::path::PathBuf;

use gatepost_message::{Action, Listener, TopicFilter};
use gatepost_settings::{ByteSize, Period};
use gatepost_store::ValueLimits;
use serde::{Deserialize, Serialize};

use crate::host::{DnsSettings, ProcedureHttpSettings};

mod procedure_table;

pub use procedure_table::ProcedureTable;

/// Everything that this crate reads from the config.
#[derive(Clone, Debug, Default)]
pub struct ProceduresConfiguration {
    /// `[procedures]`
    pub procedures: ProceduresSettings,
    /// `[[scope]]`, in the order of the file: the first that matches a message judges it.
    pub scopes: Vec<ScopeSettings>,
    /// `[procedure."/path"]`
    pub table: ProcedureTable,
}

/// `[procedures]`: the folder of the operator's own procedures, and the judge threads.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ProceduresSettings {
    /// The folder of Luau files: `procedures/mail/greylist.luau` is `/mail/greylist`. A folder
    /// that does not exist has no procedures.
    pub path: PathBuf,
    /// Whether administrators may change the files of the folder in the dashboard. Procedures run
    /// in the server, so with this, a thief of an administrator's login can run code there.
    pub editable: bool,
    /// The interval at which the folder is checked for new, changed and removed files.
    pub recheck: Period,
    /// Judge threads; 0 means one per core.
    pub judges: usize,
    /// Messages that may wait for a judge; one more is answered with `defer`.
    pub queue_max: usize,
    /// Messages that may wait for answers of the network without a judge; beyond, a judge waits
    /// along.
    pub waiting_max: usize,
    /// Memory that the virtual machines of waiting Luau procedures may hold, all together; beyond
    /// it, the judge thread itself waits.
    pub waiting_memory_max: ByteSize,
    /// Values that procedures may keep with `store` and `shared`, all together.
    pub values_max: usize,
    /// Bytes of their keys and values, all together, with 64 for each.
    pub values_bytes_max: ByteSize,
    /// Judged messages that are kept as they arrived, the last ones, for `gatepost check --replay`;
    /// 0 keeps none.
    pub originals_max: usize,
    /// The largest message that is kept for it.
    pub original_max: ByteSize,
    /// The maximum number of messages that are kept for it per second.
    pub originals_per_second: u32,
    /// The limits of a Luau procedure without a table of its own.
    pub luau: LuauSettings,
    /// The DNS servers of Luau's `dns`.
    pub dns: DnsSettings,
    /// The servers that `http` of Luau procedures may contact.
    pub http: ProcedureHttpSettings,
}

impl Default for ProceduresSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("procedures"),
            editable: false,
            recheck: Period::seconds(2),
            judges: 0,
            queue_max: 1024,
            waiting_max: 10_000,
            waiting_memory_max: ByteSize::mebibytes(1024),
            values_max: 100_000,
            values_bytes_max: ByteSize::mebibytes(64),
            originals_max: 1000,
            original_max: ByteSize::kibibytes(256),
            originals_per_second: 10,
            luau: LuauSettings::default(),
            dns: DnsSettings::default(),
            http: ProcedureHttpSettings::default(),
        }
    }
}

impl ProceduresSettings {
    /// The limits on stored values.
    pub const fn values_limits(&self) -> ValueLimits {
        ValueLimits {
            count_max: self.values_max,
            bytes_max: self.values_bytes_max,
        }
    }
}

/// The bounds of a Luau procedure; under `[procedures.luau]` for all, under
/// `[procedure."/path"]` for one.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct LuauSettings {
    /// The longest that one call may run, without the time in which it waits.
    pub time_max: Period,
    /// The longest that one call may wait for `dns` and `http`, in total.
    pub wait_max: Period,
    /// The most loops and calls of one call; 0 for any number.
    pub steps_max: u64,
    /// The most memory that the procedure may hold on one judge thread, strings included. What it
    /// publishes and changes in one call may take as much again.
    pub memory_max: ByteSize,
    /// The calls after which a virtual machine is replaced by a new one; 0 for any number.
    pub calls_max: u64,
    /// The action for the message when the procedure fails or overruns.
    #[serde(with = "crate::text_values")]
    pub on_error: Action,
    /// Arguments of every call, unless the caller gives others of the same name.
    pub arguments: std::collections::BTreeMap<String, String>,
}

impl Default for LuauSettings {
    fn default() -> Self {
        Self {
            time_max: Period::milliseconds(250),
            wait_max: Period::seconds(5),
            steps_max: 0,
            memory_max: ByteSize::mebibytes(16),
            calls_max: 10_000,
            on_error: Action::Defer,
            arguments: std::collections::BTreeMap::new(),
        }
    }
}

/// `[[scope]]`: a chain of procedures and the messages that it applies to. A condition that is
/// empty holds for every message.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeSettings {
    /// Its name, by which the whole chain can be called like a procedure.
    pub path: String,
    /// The listeners: `["smtp", "mqtt"]`.
    #[serde(with = "crate::text_values::list")]
    pub listeners: Vec<Listener>,
    /// Topic filters, of which one must match.
    #[serde(with = "crate::text_values::filters")]
    pub topics: Vec<TopicFilter>,
    /// Recipients, of which one must match: whole addresses, or with `*` for any run of
    /// characters (`"*@example.org"`). Letter case does not matter.
    pub recipients: Vec<String>,
    /// The procedures, in order. The chain ends at the first verdict other than accept and tag.
    /// Arguments may follow a path: `"/sizecheck -max 1MB"`.
    pub run: Vec<String>,
}
