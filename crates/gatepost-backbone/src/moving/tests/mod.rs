//! Moves between nodes of this process, over a real NATS server.

mod adopting;
mod nodes;
mod taking_over;
