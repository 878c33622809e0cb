//! The MQTT listener from the outside: raw packets, published sequences, and real clients of other
//! projects.

mod broken_sockets;
mod conformance;
mod conversation;
mod corpus;
mod disk;
mod faults;
mod faulty;
mod judged;
mod limits;
mod many_filters;
mod notation;
mod peers;
mod promises;
mod restored_wills;
mod scram;
mod server;
mod slow;
mod statements;
mod users;
mod wire;
