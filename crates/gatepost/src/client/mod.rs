//! A small MQTT client for `gatepost pub` and `gatepost sub`: one connection, driven by one thread
//! that waits for the socket or for its next duty, whichever comes first. It also contains a client
//! of the administration API, for commands about a running server.
//!
//! - `options.rs`: the options of both commands, which are mosquitto's;
//! - `address.rs`: MQTT URLs; `properties.rs`: `-D`;
//! - `transport.rs`: TCP, Unix sockets and TLS;
//! - `link.rs`: a connection from CONNECT to DISCONNECT, its keep alive and its packets;
//! - `backoff.rs`: the pauses between attempts;
//! - `admin.rs`: requests to `/admin`.

mod address;
mod admin;
mod backoff;
mod certificates;
mod error;
mod link;
mod login;
mod options;
mod properties;
mod transport;

pub(crate) use address::BrokerAddress;
pub(crate) use admin::{AdminClient, AdminError, AdminOptions, segment};
pub(crate) use backoff::ReconnectBackoff;
pub(crate) use certificates::CertificateOptions;
pub(crate) use error::{ClientError, explained};
pub(crate) use link::{BrokerConnection, SessionOptions};
pub(crate) use options::ClientOptions;
pub(crate) use properties::{CommandLineProperties, PropertyPacket};
