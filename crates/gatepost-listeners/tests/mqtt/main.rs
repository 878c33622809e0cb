//! The MQTT listener from the outside: raw packets, sequences that others published, and real
//! clients that we did not write.

mod corpus;
mod judged;
mod peers;
mod server;
mod statements;
mod wire;
