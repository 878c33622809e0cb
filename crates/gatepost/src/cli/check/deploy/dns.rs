//! Checks of the mail domains in DNS: whether their MX points to this machine, and whether this
//! address has a name that resolves back to it, as receivers of forwarded mail require.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use gatepost_dns::{
    DNS_PORT, Question, QuestionOutcome, RecordData, RecordType, Resolver, reverse_name,
    system_servers,
};

use super::DeployReport;
use crate::config::Config;

const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(8);

struct DnsCheck {
    resolver: Resolver,
    runtime: tokio::runtime::Runtime,
}

impl DnsCheck {
    fn query(&self, name: &str, kind: RecordType) -> Result<Vec<RecordData>, String> {
        let question = Question::new(name, kind);
        let until = Instant::now() + QUESTION_TIMEOUT;
        let answer = self
            .runtime
            .block_on(self.resolver.answer(&question, until));
        match answer.map_err(|error| error.to_string())?.answer {
            QuestionOutcome::Records(records) => Ok(records),
            QuestionOutcome::NoSuchName => Ok(Vec::new()),
            QuestionOutcome::Failed(failure) => Err(format!("{failure:?}")),
        }
    }

    fn addresses(&self, name: &str) -> BTreeSet<IpAddr> {
        let kinds = [RecordType::A, RecordType::Aaaa];
        let found = kinds.iter().filter_map(|kind| self.query(name, *kind).ok());
        found
            .flatten()
            .filter_map(|record| address(&record))
            .collect()
    }
}

fn address(record: &RecordData) -> Option<IpAddr> {
    match record {
        RecordData::A(address) => Some(IpAddr::V4(*address)),
        RecordData::Aaaa(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

pub(super) fn check(config: &Config, report: &mut DeployReport) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            report.warn(format!("DNS cannot be queried: {error}"));
            return;
        }
    };
    let asking = DnsCheck {
        resolver: Resolver::new(system_servers(), SERVER_TIMEOUT),
        runtime,
    };
    let own = own_addresses();
    for domain in &config.listeners.smtp.domains {
        if domain != "*" {
            exchangers(domain, &own, &asking, report);
        }
    }
    for ip in own {
        pointer(ip, &asking, report);
    }
}

/// The addresses that this machine sends from. Nothing is sent to find out.
fn own_addresses() -> BTreeSet<IpAddr> {
    let mut own = BTreeSet::new();
    for (any, far) in [("0.0.0.0:0", "192.0.2.1"), ("[::]:0", "2001:db8::1")] {
        let Ok(far) = far.parse::<IpAddr>() else {
            continue;
        };
        let socket = UdpSocket::bind(any);
        let local = socket.and_then(|socket| {
            socket.connect((far, DNS_PORT))?;
            socket.local_addr()
        });
        own.extend(local.map(|local| local.ip()));
    }
    own
}

fn exchangers(domain: &str, own: &BTreeSet<IpAddr>, asking: &DnsCheck, report: &mut DeployReport) {
    let records = match asking.query(domain, RecordType::Mx) {
        Ok(records) => records,
        Err(error) => {
            report.warn(format!("MX of {domain}: {error}"));
            return;
        }
    };
    let hosts: Vec<String> = records
        .into_iter()
        .filter_map(|record| match record {
            RecordData::Exchanger { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    if hosts.is_empty() {
        report.warn(format!(
            "{domain} has no MX: mail goes to its own address, if it has one"
        ));
        return;
    }
    let leads_here = hosts.iter().any(|host| {
        let addresses = asking.addresses(host);
        !addresses.is_disjoint(own)
    });
    let list = hosts.join(", ");
    if leads_here {
        report.note(format!("MX of {domain}: {list}, which is this machine"));
    } else {
        report.warn(format!(
            "MX of {domain}: {list}; none of them has an address of this machine (correct if this \
                machine is behind NAT or a relay)"
        ));
    }
}

fn pointer(ip: IpAddr, asking: &DnsCheck, report: &mut DeployReport) {
    let records = asking
        .query(&reverse_name(ip), RecordType::Ptr)
        .unwrap_or_default();
    let names: Vec<String> = records
        .into_iter()
        .filter_map(|record| match record {
            RecordData::Name(name) => Some(name),
            _ => None,
        })
        .collect();
    let confirmed = names
        .iter()
        .find(|name| asking.addresses(name).contains(&ip));
    match confirmed {
        Some(name) => report.note(format!("PTR of {ip}: {name}, which resolves back to it")),
        None => report.warn(format!(
            "{ip} has no PTR whose name resolves back to it: other servers distrust mail \
                forwarded from this address"
        )),
    }
}
