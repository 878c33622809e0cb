//! The MQTT listener from the outside: raw packets, sequences that others published, and real
//! clients that we did not write.

mod corpus;
mod judged;
mod limits;
mod peers;
mod scram;
mod server;
mod slow;
mod statements;
mod users;
mod wire;
