//! A DNS client for many questions at once.
//!
//! A [`Resolver`] has one thread, which sends and receives for all callers. A caller asks questions
//! with a deadline and continues its work: [`Lookup`] collects the answers to all questions about
//! one message, [`PendingQuestion`] and [`Resolver::answer`] wait for a single one. An answer over
//! UDP counts only if it comes from the server that was queried, with the id that was chosen and
//! with the question that was sent (RFC 5452, section 9.1). A question without an answer is sent
//! again, and an answer that does not fit into a datagram is requested over TCP (RFC 7766).
//!
//! ```
//! use std::net::UdpSocket;
//! use std::thread;
//! use std::time::{Duration, Instant};
//!
//! use gatepost_dns::{QuestionOptions, Question, QuestionOutcome, RecordType, Resolver};
//!
//! // A server that knows no name: it returns each query as a response with the code NXDOMAIN.
//! let server = UdpSocket::bind("127.0.0.1:0")?;
//! let address = server.local_addr()?;
//! thread::spawn(move || {
//!     let mut message = [0; 512];
//!     while let Ok((length, client)) = server.recv_from(&mut message) {
//!         message[2..4].copy_from_slice(&[0x81, 0x83]);
//!         let _ = server.send_to(&message[..length], client);
//!     }
//! });
//!
//! let resolver = Resolver::new(vec![address], Duration::from_secs(10));
//! let mut lookup = resolver.lookup(Instant::now() + Duration::from_secs(60));
//! let question = Question::new("2.0.0.192.list.example.org", RecordType::A);
//! lookup.query(&question, QuestionOptions::default());
//! while !lookup.is_complete() {
//!     lookup.wait();
//!     lookup.take_arrived();
//! }
//! assert_eq!(lookup.answer(&question), Some(&QuestionOutcome::NoSuchName));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Invariants:
//! - Every question ends: with an answer, or at its deadline without one.
//! - An answer is untrusted input: no length in it is trusted, and reading it takes bounded time.
//! - A list that never answers delays only the first few messages: see [`SilenceLimits`].
//! - The number of open questions, of questions of one [`Lookup`] and of TCP connections is
//!   bounded.
//!
//! Decided: the message format is read and written here ([`wire`]) and not by `hickory-proto`.
//! Rules ask for seven types of records, and use the readable part of an answer with a broken or
//! truncated record, as SpamAssassin does. `hickory-proto` covers all types and adds seven crates
//! that nothing else here needs.

mod cache;
mod exchange;
mod joined;
mod lookup;
mod port;
mod resolver;
mod reverse;
mod silence;
mod system;
mod tlsa;
pub mod wire;

pub use cache::Cache;
pub use lookup::{Lookup, LookupProgress, LookupWake, PendingQuestion, QuestionOptions};
pub use resolver::{DnsError, Resolver};
pub use reverse::reverse_name;
pub use silence::{SilenceLimits, SilentList};
pub use system::{
    DNS_PORT, SYSTEM_CONFIGURATION, SYSTEM_HOSTS, are_local, has_host, parse_server, system_servers,
};
pub use tlsa::Tlsa;
pub use wire::{Question, QuestionOutcome, RecordData, RecordType, Resolved, ServerFailure};
