//! What processes cost: CPU, memory, context switches, of servers and of this generator.

mod listening;
mod machine;
mod pinning;
mod sampler;
mod usage;

pub use listening::listener_of_port;
pub use machine::{Load, Machine};
pub use pinning::{Pinning, Processors};
pub use sampler::{ProcessRecord, Sampler};
pub use usage::{CpuTimes, Usage, cpu_times_of_self};
