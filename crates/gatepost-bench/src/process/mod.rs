//! Costs of processes: CPU, memory, network, context switches and system calls, of servers and of
//! this generator.

mod calls;
mod listening;
mod machine;
mod network;
mod pinning;
mod running_time;
mod sampler;
mod threads;
mod usage;
mod watched;

pub use calls::{CallCounter, count_system_calls};
pub use listening::listener_of_port;
pub use machine::{Machine, MachineLoad, Noise};
pub use network::Traffic;
pub use pinning::{Pinning, Processors};
pub use sampler::{Costs, ProcessRecord, Sampler};
pub(crate) use usage::is_group_alive;
pub use usage::{CpuTimes, Usage, cpu_times_of_self};
pub use watched::WatchedServer;
