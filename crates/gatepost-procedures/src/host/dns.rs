//! `dns.a`, `dns.aaaa`, `dns.mx`, `dns.ptr`, `dns.txt` of Luau: queries to the domain name system.
//!
//! Answers are cached as long as their records permit, so that a procedure that looks up every
//! sender queries each of them once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use gatepost_dns::{
    DnsError, Lookup, PendingQuestion, Question, QuestionOutcome, RecordData, RecordType, Resolver,
    SYSTEM_CONFIGURATION, system_servers,
};
use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use super::SharedMemory;
use crate::procedure::Wake;

/// `[procedures.dns]`: queries by `dns.…` of Luau procedures.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DnsSettings {
    /// The servers, in order, with their port; empty takes those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// The time to wait for each server's answer; never longer than the procedure's `wait_max`.
    pub timeout: Period,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Period::seconds(2),
        }
    }
}

/// The DNS client for procedures.
pub(crate) struct Dns {
    resolver: Resolver,
    memory: Arc<SharedMemory>,
}

impl Dns {
    pub(super) fn new(settings: &DnsSettings, memory: &Arc<SharedMemory>) -> Self {
        let servers = if settings.servers.is_empty() {
            system_servers()
        } else {
            settings.servers.clone()
        };
        Self {
            resolver: Resolver::new(servers, settings.timeout.duration()),
            memory: Arc::clone(memory),
        }
    }

    /// A set of queries of one call, which end at `deadline`.
    pub(crate) fn lookup(&self, deadline: Instant) -> Lookup {
        self.resolver.lookup(deadline)
    }

    /// The records as text, none if there is no such name or no such record: addresses, names,
    /// texts, and for MX `preference name`. Known records are returned immediately; otherwise a
    /// query is sent, which ends at `deadline` at the latest.
    pub(crate) fn query(
        &self,
        name: &str,
        kind: RecordType,
        deadline: Instant,
    ) -> Result<NamesAnswer, String> {
        let question = Question::new(name, kind);
        if let Some(answer) = self.memory.names.get(&question) {
            return Ok(NamesAnswer::Known(texts(answer)));
        }
        let pending = self.resolver.question(question, deadline);
        Ok(NamesAnswer::Pending(PendingNames {
            question: pending.map_err(reason)?,
            memory: Arc::clone(&self.memory),
        }))
    }
}

/// The state of a query.
pub(crate) enum NamesAnswer {
    Known(Vec<String>),
    Pending(PendingNames),
}

/// A pending query.
pub(crate) struct PendingNames {
    question: PendingQuestion,
    memory: Arc<SharedMemory>,
}

impl PendingNames {
    /// Registers a function that is called when the query has ended.
    pub(crate) fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        let progress = self.question.progress();
        Box::new(move |wake| progress.then(wake))
    }

    /// The answer, which is cached.
    pub(crate) fn end(self) -> Result<Vec<String>, String> {
        let (question, resolved) = self.question.end();
        let resolved = resolved.map_err(reason)?;
        self.memory.names.keep(&question, &resolved);
        Ok(texts(resolved.answer))
    }
}

fn texts(answer: QuestionOutcome) -> Vec<String> {
    match answer {
        QuestionOutcome::Records(records) => records.iter().map(text).collect(),
        QuestionOutcome::NoSuchName | QuestionOutcome::Failed(_) => Vec::new(),
    }
}

fn text(record: &RecordData) -> String {
    match record {
        RecordData::A(address) => address.to_string(),
        RecordData::Aaaa(address) => address.to_string(),
        RecordData::Name(name) => name.clone(),
        RecordData::Exchanger { preference, name } => format!("{preference} {name}"),
        RecordData::Text(text) => String::from_utf8_lossy(text).into_owned(),
        RecordData::Tlsa(record) => record.to_string(),
    }
}

fn reason(error: DnsError) -> String {
    match error {
        DnsError::NoServer => format!(
            "there is no DNS server: procedures.dns.servers is empty, and {SYSTEM_CONFIGURATION} \
                names none"
        ),
        other => other.to_string(),
    }
}
